"""Windows of a table: rows added since a version, and changes of rows."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    NotATable,
    SchemaMismatch,
    WindowExpired,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.tables.evolution import DropColumn, RenameColumn
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import HOUR_US, moment
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.table import Table, create_table
from airflow_provider_segtable.table.windows import pinned
from tests.unit.table.conftest import SCHEMA, rows

NOTHING_KEPT = Retention(hours=0, versions=1, orphan_hours=0)


def added(scan: Scan) -> list[int]:
    """Return the numbers of the rows of a scan, sorted."""
    return sorted(scan.to_arrow().column("row").to_pylist())


def feed(table: Table, since: int, **given: Any) -> list[tuple[int, str, int]]:
    """Return the version, effect and row number of each change."""
    found = table.scan(since_version=since, changes=True, **given).to_arrow()
    names = ("_segtable_version", "_segtable_change", "row")
    return [tuple(row[name] for name in names) for row in found.to_pylist()]


def compacted(table: Table, kind: str, **wishes: Any) -> None:
    """Carry out compactions of one kind."""
    plans = [known.plan.id for known in request(table.ports, kind, **wishes)]
    compact(table.ports, plans, in_process(table.ports.files))


def cleaned(table: Table) -> None:
    """Clean all but the newest version, a day later."""
    table.ports.clock.sleep(86_400)
    before = table.state().retained_from
    clean(table.ports, retention=NOTHING_KEPT)
    assert table.state().retained_from > before


def test_start_is_exclusive_and_end_inclusive(table: Table) -> None:
    """Chained windows have every row once."""
    assert added(table.scan(since_version=1, version=3)) == [*range(10, 30)]
    assert added(table.scan(since_version=3)) == [*range(30, 40)]
    assert added(table.scan(since_version=4)) == []
    assert added(table.scan(since_version=0)) == [*range(40)]


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_rows_keep_the_version_that_added_them(table: Table, kind: str) -> None:
    """After a compaction, and after the files of before are gone, by a tagged start."""
    table.tag("before", version=1)
    compacted(table, kind)
    table.append(rows(range(40, 44)))
    cleaned(table)
    scan = table.scan(since_version=1, columns=["row"])
    assert added(scan) == [*range(10, 44)]
    assert scan.count() == 34
    assert added(table.scan(since_version=1, where="row < 20")) == [*range(10, 20)]
    assert added(table.scan(since_version=1, interval=(0, HOUR_US))) == [*range(10, 44, 2)]


def test_some_row_groups_of_a_joined_file_are_old(table: Table) -> None:
    """A minor compaction joins files of several versions; the rows of each are told apart."""
    state = table.state()
    compacted(table, "minor")
    for start in range(1, 4):
        assert added(table.scan(since_version=start)) == [*range(start * 10, 40)]
    assert table.scan(since_version=2).count() == 20
    assert {part.segment.id for part in table.scan(since_version=state.n).parts()} == set()


def test_times_are_those_of_completion(table: Table) -> None:
    """A time names the newest version at that time; a time before the creation means it."""
    times = [moment(table.ports.log.at(n).time) for n in range(5)]
    assert added(table.scan(since=times[2])) == [*range(20, 40)]
    assert added(table.scan(since=times[1], as_of=times[2])) == [*range(10, 20)]
    assert added(table.scan(since=times[0] - timedelta(days=1))) == [*range(40)]


def test_deleted_rows_are_not_among_those_added(table: Table) -> None:
    """Incremental reads show rows as they are visible at the end; the feed has both events."""
    table.delete("row = 15 or row = 3")
    assert 15 not in added(table.scan(since_version=1))
    assert 15 in added(table.scan(since_version=1, version=4))
    assert feed(table, 4) == [(5, "delete", 3), (5, "delete", 15)]
    assert sorted(feed(table, 1, where="row = 15")) == [(2, "insert", 15), (5, "delete", 15)]


def test_an_update_has_rows_before_and_after(table: Table) -> None:
    """All rows before come first; a merge's rows are deletes and inserts."""
    table.update({"price": Sql("price + 1")}, "row in (4, 7)")
    found = feed(table, 4)
    assert found[:2] == [(5, "update_before", 4), (5, "update_before", 7)]
    assert sorted(found[2:]) == [(5, "update_after", 4), (5, "update_after", 7)]
    source = rows(range(38, 42))
    table.merge(source, on=["row"])
    effects = [effect for _, effect, _ in feed(table, 5)]
    assert effects == ["delete"] * 2 + ["insert"] * 4
    assert added(table.scan(since_version=4)) == [4, 7, 38, 39, 40, 41]


def test_compactions_and_tags_change_nothing(table: Table) -> None:
    """Their events have no rows in the feed."""
    for kind in ("minor", "semi-major", "major"):
        compacted(table, kind)
    table.tag("x")
    table.alter(set={"retention.hours": "1"})
    assert feed(table, 4) == []
    assert table.scan(since_version=4, changes=True).count() == 0


def test_a_restore_takes_and_brings_rows(table: Table) -> None:
    """Rows are compared by address; what both versions show in one way is not opened."""
    table.delete("row < 2")
    table.append(rows(range(50, 52)))
    table.restore(version=4)
    found = feed(table, 6)
    assert sorted(found) == [
        (7, "delete", 50),
        (7, "delete", 51),
        (7, "insert", 0),
        (7, "insert", 1),
    ]
    assert added(table.scan(since_version=6)) == []
    opened = {p.segment.path for p in table.scan(since_version=6, changes=True).parts()}
    assert len(opened) == 4


def test_columns_of_the_feed_are_columns(table: Table) -> None:
    """They come last, may be chosen, and have the time of the event."""
    table.delete("row = 0")
    scan = table.scan(since_version=4, changes=True)
    names = ["_segtable_change", "_segtable_version", "_segtable_completion_time"]
    assert scan.schema.names == [*SCHEMA.names, *names]
    (row,) = scan.to_arrow().to_pylist()
    assert row["_segtable_completion_time"] == moment(table.state().time)
    only = table.scan(since_version=4, changes=True, columns=["_segtable_version"])
    assert only.to_arrow().to_pylist() == [{"_segtable_version": 5}]
    none = table.scan(since_version=4, changes=True, columns=[], where="row = 0")
    assert none.count() == 1
    with pytest.raises(SchemaMismatch, match="no column '_segtable_change'"):
        table.scan(since_version=4, columns=["_segtable_change"])


def test_rows_of_before_have_the_columns_of_the_end(table: Table) -> None:
    """A window over alterations has the columns of its last version."""
    table.delete("row = 0")
    table.alter(columns=[RenameColumn(name="row", new="id"), DropColumn(name="name")])
    table.append(rows(range(60, 61)).rename_columns(["at", "id", "name", "price"]).drop("name"))
    scan = table.scan(since_version=4, changes=True)
    assert scan.schema.names[:3] == ["at", "id", "price"]
    assert scan.to_arrow().column("id").to_pylist() == [0, 60]


def test_a_cleaned_window_is_refused_with_the_oldest_start(table: Table) -> None:
    """By version, by time, and for changes also if only the start is tagged."""
    time = table.ports.log.at(2).time
    table.tag("second", version=2)
    compacted(table, "major")
    cleaned(table)
    oldest = f"oldest start is version {table.state().retained_from} "
    for given in ({"since_version": 1}, {"since": time - 1}, {"since_version": 2, "changes": True}):
        with pytest.raises(WindowExpired, match=oldest):
            table.scan(**given)  # type: ignore[arg-type]
    assert added(table.scan(since_version=2)) == [*range(20, 40)]


def test_a_pinned_window_stays_the_same(table: Table) -> None:
    """Its start is a version, whatever the consumer does meanwhile."""
    table.advance_consumer("billing", 2)
    state = table.state()
    wanted = read_request(consumer="billing", changes=True)
    same = pinned(table.ports.log, wanted, state)
    table.advance_consumer("billing", 4)
    assert same == read_request(since_version=2, changes=True)
    assert pinned(table.ports.log, read_request(version=3), state) == read_request(version=3)
    with pytest.raises(InvalidInput, match="position of consumer 'billing' is version 4, after"):
        table.read(replace(wanted, version=3))


def test_a_window_that_is_cleaned_while_it_is_read_is_an_error(table: Table) -> None:
    """The feed stops where an event is gone; no change is left out."""
    scan = table.scan(since_version=1, changes=True)
    table.ports.storage.delete("_segtable/timeline/00000000000000000003.json")
    with pytest.raises(WindowExpired, match="after version 1 was cleaned"):
        scan.to_arrow()


def test_windows_that_make_no_sense_are_refused(table: Table) -> None:
    """With what is wrong, before anything is read."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"changes": True}, "changes are those since a start"),
        ({"since_version": 1, "since": 5}, "name a start each"),
        ({"since_version": 3, "version": 2}, "since_version=3 is version 3, after the end"),
        ({"since_version": 1, "rolled_up": True}, "rolled_up reads a whole version"),
        ({"consumer": "nobody"}, "there is no consumer 'nobody': the table has no consumers"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidInput, match=message):
            table.scan(**given)
    with pytest.raises(NotATable, match="no event 9"):
        table.scan(since_version=9)


def test_a_repair_that_lost_nothing_changes_nothing(table: Table) -> None:
    """Its rows are compared; one that lost a file whose rows are gone ends the window."""
    lost = next(iter(table.state().timeline.visible_segments()))
    action = TableRepaired(segments=(), lost=(lost.id,), reason="the file is gone")
    commit_or_raise(table.ports, table.state(), Change(action=action, commit_id="repair"))
    gone = feed(table, 4)
    assert {effect for _, effect, _ in gone} == {"delete"}
    assert len(gone) == lost.rows
    table.ports.files.delete(lost.path)
    with pytest.raises(WindowExpired, match=r"event 5 removed rows .*since_version=5"):
        feed(table, 4)
    assert feed(table, 5) == []


def test_a_rollup_table_has_no_windows(table: Table) -> None:
    """Its rows do not tell which event added them; the message has the way out."""
    rollup = Rollup(dimensions=("name",), metrics=(Metric.parse("n=count"),))
    schema = from_arrow(SCHEMA.remove(1).remove(2))
    definition = of_kind(replace(table.state().table, schema=schema), rollup)
    ports = replace(table.ports, storage=MemoryStorage(clock=table.ports.clock))
    rolled = create_table(ports, definition)
    for changes in (False, True):
        with pytest.raises(InvalidInput, match=r"rollup table.*compare two versions"):
            rolled.scan(since_version=0, changes=changes)


def test_every_reader_takes_a_window(table: Table) -> None:
    """Frames, readers and DuckDB get the same rows, and DuckDB reads them when it runs."""
    scan = table.scan(since_version=2, changes=True, columns=["row", "_segtable_change"])
    expected = scan.to_arrow()
    assert scan.to_reader().read_all() == expected
    assert scan.to_pandas()["row"].tolist() == expected.column("row").to_pylist()
    assert scan.to_polars()["row"].to_list() == expected.column("row").to_pylist()
    relation = scan.to_duckdb().aggregate("_segtable_change, count(*) as n")
    assert relation.fetchall() == [("insert", 20)]
    assert pa.table(scan) == expected
    assert repr(scan).endswith("since_version=2, changes=True)")
