"""The log files of one write, which are sorted and merged together, against each place by itself.

The oracle finds the time chunk and the bucket of one row after another, and merges the rows of each
place alone.
"""

from collections import defaultdict
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.time import (
    DAY_US,
    Granularity,
    GranularityOverride,
    Interval,
    Layout,
)
from airflow_provider_segtable.data.keyed import merging
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of, log_rows
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records
from airflow_provider_segtable.data.open_files import MemoryFiles
from tests.support.clock import START
from tests.support.in_memory import keyed_by

SEEDS = 10
DAYS = 12
OTHERS = (
    GranularityOverride(Interval(START + 2 * DAY_US, START + 4 * DAY_US), Granularity.HOUR, 3),
    GranularityOverride(Interval(START + 5 * DAY_US, START + 6 * DAY_US), Granularity.DAY, 1),
)
KEYS = (("number",), ("word",), ("number", "word"))
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("v", pa.float64()),
    ]
)


def table_of(key: tuple[str, ...], ordering: str, merge: MergeEngine) -> TableDefinition:
    """Return a primary-key table."""
    wanted = PrimaryKey(key=key, buckets=2, ordering=ordering, merge=merge)
    return keyed_by(SCHEMA, Granularity.DAY, wanted)


def drawn_rows(draw: Random, most: int) -> pa.Table:
    """Return rows whose keys and times repeat; some numbers need all bits."""
    wide = [-(2**63), 2**63 - 1, 2**62]
    rows = [
        {
            "at": START + draw.randrange(DAYS * 24) * DAY_US // 24,
            "number": draw.choice([*range(5), *wide]),
            "word": draw.choice(["", "a", "a longer word", "b"]),
            "seq": draw.choice([None, 0, 1]),
            "v": draw.choice([None, draw.random()]),
        }
        for _ in range(draw.randrange(1, most))
    ]
    made = pa.Table.from_pylist(rows, SCHEMA)
    cut = draw.randrange(len(rows))
    return pa.concat_tables([made.slice(0, cut), made.slice(cut)])


def one_by_one(
    table: TableDefinition, layout: Layout, records: Records
) -> dict[ChunkKey, pa.Table]:
    """Return the rows of each file group, each merged by itself."""
    found: dict[ChunkKey, list[int]] = defaultdict(list)
    for number, at in enumerate(records.rows.column("at").cast(pa.int64()).to_pylist()):
        row, interval = records.rows.slice(number, 1), layout.chunk(at)
        bucket = buckets_of(row, table.kind.key, layout.buckets_at(interval.start))[0]
        found[ChunkKey(interval, START, int(bucket))].append(number)
    return {
        chunk: log_rows(records.rows.take(rows), table.kind.rules, records.deleted[rows])
        for chunk, rows in found.items()
    }


@pytest.mark.parametrize("merge", MergeEngine)
@pytest.mark.parametrize("key", KEYS)
def test_files_are_those_of_each_place_alone(key: tuple[str, ...], merge: MergeEngine) -> None:
    """Of chunks and buckets of any number, in their order, with the rows in the order of keys."""
    for seed in range(SEEDS):
        draw = Random(seed)
        table = table_of(key, draw.choice(["seq", ""]), merge)
        layout = table.layout(OTHERS if seed % 2 else ())
        rows = drawn_rows(draw, draw.choice([3, 200]))
        deleted = np.asarray([draw.random() < 0.3 for _ in range(rows.num_rows)], bool)
        records = Records(rows=rows, deleted=deleted)
        files: dict[str, pa.Table] = {}
        writer = LogWriter(
            files=MemoryFiles(),
            table=table,
            rules=table.kind.rules,
            layout=layout,
            base_version=START,
            instant=START + seed,
            token=lambda draw=draw: f"{draw.getrandbits(64):016x}",
            keep=files.__setitem__,
        )
        segments = [*writer.written(records)]
        chunks = [segment.id.chunk for segment in segments]
        assert chunks == sorted(chunks)
        wanted = one_by_one(table, layout, records)
        assert {segment.id.chunk for segment in segments} == wanted.keys()
        for segment in segments:
            assert files[segment.path].equals(wanted[segment.id.chunk]), f"seed {seed}"


def test_rows_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files they go to."""
    calls: list[int] = []
    plain = merging.key_codes
    monkeypatch.setattr(
        merging, "key_codes", lambda rows, rules: calls.append(rows.num_rows) or plain(rows, rules)
    )
    table, draw = table_of(("number",), "", MergeEngine.LATEST), Random(1)
    rows = drawn_rows(draw, 400)
    writer = LogWriter(
        files=MemoryFiles(),
        table=table,
        rules=table.kind.rules,
        layout=table.layout(),
        base_version=START,
        instant=START,
        token=lambda: f"{draw.getrandbits(64):016x}",
    )
    written = [*writer.written(Records(rows=rows, deleted=np.zeros(rows.num_rows, bool)))]
    assert len(written) > DAYS
    assert calls == [rows.num_rows]
