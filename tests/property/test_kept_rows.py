"""Entries from the rows that a writer keeps are those that a build computes from its file.

The oracle reads the file back. Row groups are small, and rows come in chunks of any length.
"""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.indexes.entries import entries, entries_of
from airflow_provider_segtable.data.indexes.file_rows import FileRows
from airflow_provider_segtable.data.indexes.kept_rows import KeptRows
from airflow_provider_segtable.data.jobs import segment_writer
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from tests.property.test_index_views import BLOOM, KINDS, SCHEMA, STATS, TABLE, drawn_rows
from tests.support.in_memory import keyed_by
from tests.unit.data.making import VERSION, segment_id

SEEDS = 10
ORDERINGS = ("big", "text", "huge", "at_ns", "")
KEYS = (("small",), ("long", "day"), ("cents",))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups of three rows."""
    monkeypatch.setattr(segment_writer, "GROUP_ROWS", 3)


def in_chunks(draw: Random, rows: pa.Table) -> pa.Table:
    """Return rows in chunks of any length."""
    ends = sorted(draw.randrange(rows.num_rows + 1) for _ in range(2))
    bounds = zip([0, *ends], [*ends, rows.num_rows], strict=True)
    return pa.concat_tables([rows.slice(start, end - start) for start, end in bounds])


def both(
    index: IndexDefinition,
    table: TableDefinition,
    kept: KeptRows,
    segment: Segment,
    files: MemoryFiles,
) -> tuple[pa.Table, pa.Table]:
    """Return the entries about a file from kept rows, which no file is opened for, and from it."""
    groups = kept.of(segment.path, table.schema, index.kind.sources(table))
    assert groups is not None
    assert len(groups) == segment.row_groups
    mine = FileRows(segment=segment, table=table, files=MemoryFiles(), kept=groups)
    return entries_of(index, table, [mine]), entries(index, table, [segment], files)


@pytest.mark.parametrize("index", [STATS, BLOOM], ids=lambda index: index.kind.name)
def test_entries_about_files_are_the_same(index: IndexDefinition) -> None:
    """Of all types, nulls and NaN among the values."""
    for seed in range(SEEDS):
        draw, files = Random(seed), MemoryFiles()
        kept = KeptRows(TABLE.schema, index.kind.sources(TABLE))
        segment = write_segment(
            files,
            in_chunks(draw, pa.concat_tables([drawn_rows(draw), drawn_rows(draw)])),
            segment_id=segment_id(seed),
            time_column="at",
            created=VERSION,
            token=f"{seed:016x}",
            definition=encode_definition(TABLE, VERSION),
            keep=kept.keep,
        )
        one, other = both(index, TABLE, kept, segment, files)
        assert one.equals(other), f"seed {seed}: {one.to_pylist()} {other.to_pylist()}"


def keyed(key: tuple[str, ...], ordering: str) -> TableDefinition:
    """Return a primary-key table with columns of all types."""
    nullable = (field.with_nullable(field.name not in key) for field in SCHEMA)
    wanted = PrimaryKey(key=key, buckets=2, ordering=ordering)
    return keyed_by(pa.schema(list(nullable)), Granularity.MONTH, wanted)


@pytest.mark.parametrize("key", KEYS)
def test_entries_about_records_are_the_same(key: tuple[str, ...]) -> None:
    """With keys and ordering values of any type, and deletes: log files of one write."""
    for seed in range(SEEDS):
        draw, files = Random(seed), MemoryFiles()
        table = keyed(key, ORDERINGS[seed % len(ORDERINGS)])
        index = IndexDefinition(name="k", id="k", kind=RecordIndex().for_table(table))
        rows = pa.concat_tables([drawn_rows(draw) for _ in range(4)])
        for name in key:
            rows = rows.filter(rows.column(name).is_valid())
        if not rows.num_rows:
            continue
        kept = KeptRows(table.schema, index.kind.sources(table))
        written = LogWriter(
            files=files,
            table=table,
            rules=table.kind.rules,
            layout=table.layout(),
            base_version=VERSION,
            instant=VERSION + seed,
            token=lambda draw=draw: f"{draw.getrandbits(64):016x}",
            keep=kept.keep,
        )
        deleted = np.asarray([draw.random() < 0.3 for _ in range(rows.num_rows)], bool)
        for segment in written.written(Records(rows=rows, deleted=deleted)):
            one, other = both(index, table, kept, segment, files)
            assert one.equals(other), f"seed {seed}: {one.to_pylist()} {other.to_pylist()}"


def test_all_types_are_compared() -> None:
    """So that a new type of columns is compared, too."""
    compared = {*STATS.kind.sources(TABLE), *BLOOM.kind.sources(TABLE)}
    assert compared == {*KINDS}
