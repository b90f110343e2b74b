"""Reads with indexes find the rows of a plain model, whatever a table went through."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.reads.selection import PrunedBy
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Interval
from airflow_provider_segtable.table import chosen_files
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.table import Table
from tests.property.test_keyed_tables import FIRST_US, GONE, batch, keyed_table
from tests.property.test_keyed_tables import SCHEMA as KEYED
from tests.property.test_reads import HOURS, Model, naive, plain, played, small_groups, sql
from tests.unit.table.conftest import new_table

__all__ = ["small_groups"]  # a fixture of all tests here

INDEXES = {PrunedBy.COLUMN_STATS, PrunedBy.BLOOM_FILTER}
READS = 10


@pytest.fixture(autouse=True)
def used_for_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexes be used for tables as small as these."""
    monkeypatch.setattr(chosen_files, "LEAST_FILES", 1)


def indexed(table: Table, stats: Sequence[str], bloom: Sequence[str]) -> Table:
    """Add an index of each kind that leaves files out."""
    table.create_index("stats", "column_stats", columns=stats)
    table.create_index("bloom", "bloom_filter", columns=bloom, rate=0.1)
    return table


def without(scan: Scan) -> Scan:
    """Return the scan of the same version without its indexes."""
    return replace(scan, state=replace(scan.state, indexes={}))


def check(scan: Scan, wanted: pa.Table, case: str) -> set[PrunedBy]:
    """Compare a scan with the rows of a model; return the steps that saved bytes."""
    found, plan = scan.to_arrow(), scan.explain()
    assert sorted(plain(found)) == sorted(plain(wanted)), case
    assert not any("cannot be read" in note.text for note in plan.index_notes), case
    return {step.by for step in plan.steps if step.after.bytes < step.before.bytes}


def test_indexes_change_no_answer() -> None:
    """Of any history, condition, interval, version and window; and both kinds leave files out.

    The model is plain Python; its rows are filtered as a whole.
    """
    saved: set[PrunedBy] = set()
    for seed in range(2):
        draw = Random(seed)
        table = new_table(MemoryService())
        model = Model(table)
        if seed % 2:
            played(draw, model)  # files without entries
        indexed(table, ["row", "name", "price"], ["row", "name"])
        played(draw, model)
        newest = table.state().n
        for turn in range(READS):
            start = draw.randrange(HOURS) * HOUR_US + draw.randrange(3)
            asked: dict[str, Any] = {
                "where": f"row = {draw.randrange(-22, 22)}" if turn % 5 == 0 else sql(draw),
                "interval": draw.choice((None, None, Interval(start, start + HOUR_US))),
                "version": draw.choice((newest, newest, draw.randrange(1, newest + 1))),
            }
            if draw.random() < 0.3:
                asked["since_version"] = draw.randrange(asked["version"])
            wanted = within(model.shown(**since(asked)), asked["interval"])
            saved |= check(table.scan(**asked), wanted, f"seed {seed}: {asked}")
        where = sql(draw)
        gone = model.shown(version=newest, where=where).num_rows
        assert table.delete(where, dry_run=True).deleted == gone, f"seed {seed}: {where}"
        assert table.delete(where).deleted == gone, f"seed {seed}: {where}"
    assert saved > INDEXES


def since(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model is asked for a scan."""
    return {
        "version": asked["version"],
        "where": asked["where"],
        "since": asked.get("since_version", -1),
    }


def within(rows: pa.Table, interval: Interval | None) -> pa.Table:
    """Return the rows with event times in an interval."""
    at = rows.column("at").cast(pa.int64())
    inside = [interval is None or interval.holds(each) for each in at.to_pylist()]
    return rows.filter(pa.array(inside, pa.bool_()))


def keyed_condition(draw: Random) -> str:
    """Return a condition on the key, on other columns, or on several."""
    key, seq, text = draw.randrange(8), draw.randrange(3), draw.randrange(3)
    tests: tuple[Callable[[], str], ...] = (
        lambda: f"key = {key}",
        lambda: f"key < {key}",
        lambda: f"seq = {seq}",
        lambda: f"text = 'v{text}'",
        lambda: "text IS NULL",
        lambda: f"NOT (seq > {seq})",
        lambda: f"at = timestamp '2013-01-0{1 + key % 3} 00:00:00.00000{seq % 3 + 4}'",
    )
    if draw.random() < 0.4:
        return f"seq = {seq} AND text = 'v{text}'"
    parts = [draw.choice(tests)() for _ in range(draw.choice((1, 1, 2, 3)))]
    return draw.choice((" AND ", " OR ")).join(parts)


@dataclass
class Merged:
    """The records of a primary-key table, merged one after the other in their order."""

    table: Table
    partial: bool
    records: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def upsert(self, rows: pa.Table) -> None:
        """Write records, some of which delete their key."""
        n = self.table.upsert(rows, deleted=GONE).n
        assert n is not None
        self.records += [(n, record) for record in rows.to_pylist()]

    def shown(self, *, version: int, where: str, interval: Interval | None = None) -> pa.Table:
        """Return the rows of a version that match, and have event times in an interval."""
        ordered = sorted(
            ({**record} for n, record in self.records if n <= version),
            key=lambda record: (record["seq"] is not None, record["seq"] or 0),
        )
        rows: dict[int, dict[str, Any]] = {}
        latest: dict[int, Any] = {}  # a partial update keeps the latest event time
        for record in ordered:
            key, gone = record["key"], record.pop(GONE)
            latest[key] = max(record["at"], latest.get(key, record["at"]))
            if gone:
                rows.pop(key, None)
            elif self.partial:
                given = {name: value for name, value in record.items() if value is not None}
                rows[key] = {**rows.get(key, {}), **given, "at": latest[key]}
            else:
                rows[key] = record
        return within(naive(pa.Table.from_pylist([*rows.values()], KEYED), where), interval)


@pytest.mark.parametrize("engine", MergeEngine)
def test_indexes_change_no_merged_row(tmp_path: Path, engine: MergeEngine) -> None:
    """Whatever records hide, bring back or delete others, and whichever files they are in."""
    saved: set[PrunedBy] = set()
    for seed in range(1):
        draw = Random(seed)
        kind = PrimaryKey(key=("key",), buckets=4, ordering="seq", merge=engine)
        table = indexed(keyed_table(str(tmp_path / str(seed)), kind), ["seq", "text"], ["key"])
        model = Merged(table, partial=engine is MergeEngine.PARTIAL_UPDATE)
        for _ in range(14):
            model.upsert(records(draw))
            if draw.random() < 0.15:
                with suppress(InvalidInput):  # nothing to compact
                    table.compact(draw.choice(("minor", "semi-major")))
        newest = table.state().n
        for _ in range(READS):
            asked: dict[str, Any] = {
                "where": keyed_condition(draw),
                "interval": draw.choice((None, None, Interval(FIRST_US, FIRST_US + DAY_US))),
                "version": draw.choice((newest, newest, draw.randrange(3, newest + 1))),
            }
            how = draw.random()
            if how < 0.2:
                asked["since_version"] = draw.randrange(asked["version"])
            elif how < 0.4:
                asked["base_only"] = True
            scan = table.scan(**asked)
            part = "since_version" in asked or "base_only" in asked
            wanted = without(scan).to_arrow() if part else model.shown(**asked)
            saved |= check(scan, wanted, f"{engine} {seed}: {asked}")
        where = keyed_condition(draw)
        gone = model.shown(version=newest, where=where).num_rows
        assert table.delete(where, dry_run=True).deleted == gone, f"seed {seed}: {where}"
        assert table.delete(where).deleted == gone, f"seed {seed}: {where}"
    assert PrunedBy.BLOOM_FILTER in saved
    assert (PrunedBy.COLUMN_STATS in saved) is (engine is MergeEngine.LATEST)


@pytest.mark.parametrize(
    ("engine", "first", "second", "where", "count"),
    [
        ("latest", {"text": "old"}, {"text": "new"}, "text = 'old'", 0),
        ("partial_update", {"seq": 5}, {"text": "v"}, "seq = 5 AND text = 'v'", 1),
        ("partial_update", {"text": "v"}, {"seq": 5}, "text IS NOT NULL AND seq = 5", 1),
    ],
)
def test_a_row_of_several_files_is_judged_as_a_whole(
    tmp_path: Path, engine: str, first: Any, second: Any, where: str, count: int
) -> None:
    """A file may hide another one's record, or have a part of the row that matches."""
    kind = PrimaryKey(key=("key",), buckets=1, merge=MergeEngine(engine))
    table = indexed(keyed_table(str(tmp_path), kind), ["seq", "text", "at"], ["text"])
    for given in (first, second):
        row = {"key": 3, "seq": None, "text": None, GONE: False, **given}
        at = pa.array([FIRST_US + row.pop("late", 0)], pa.timestamp("us", "UTC"))
        table.upsert(batch([row]).set_column(0, "at", at), deleted=GONE)
    scan = table.scan(where=where.format(at="timestamp '2013-01-01 00:00:00.000001'"))
    assert without(scan).count() == scan.count() == count


def records(draw: Random) -> pa.Table:
    """Return some records: upserts and deletes, with nulls, and event times that differ."""
    given = batch(
        [
            {
                "key": key,
                "seq": draw.choice([None, *range(3)]),
                "text": draw.choice([None, "v0", "v1", "v2"]),
                GONE: draw.random() < 0.2,
            }
            for key in draw.sample(range(6), draw.randint(1, 2))
        ]
    )
    at = [moment + draw.randrange(3) for moment in given.column("at").cast(pa.int64()).to_pylist()]
    return given.set_column(0, "at", pa.array(at, pa.timestamp("us", "UTC")))
