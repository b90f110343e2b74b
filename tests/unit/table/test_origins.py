"""The origin of rows: hidden columns with the instant and completion time of their write."""

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.read_request import (
    COMPLETION_TIME,
    INSTANT,
    ORIGIN_COLUMNS,
)
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import moment
from airflow_provider_segtable.library.table import Table as LibraryTable
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, rows
from tests.unit.table.test_windows import cleaned, compacted

PAIRS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("text", pa.string())])


def completions(table: Table, **given: object) -> dict[int, int | None]:
    """Return the version that each row's completion time is the time of; None if unknown."""
    log = table.ports.log
    by_time = {moment(log.at(n).time): n for n in range(table.state().n + 1)}
    scan = table.scan(columns=["row", *ORIGIN_COLUMNS], **given)  # type: ignore[arg-type]
    found = scan.to_arrow().to_pylist()
    assert all(
        row[COMPLETION_TIME] is None or row[INSTANT] <= row[COMPLETION_TIME] for row in found
    )
    return {row["row"]: by_time.get(row[COMPLETION_TIME]) for row in found}


WRITTEN = {row: row // 10 + 1 for row in range(40)}


def test_rows_keep_their_origin(table: Table) -> None:
    """Through all compactions, deletes, updates and restores: an update's rows are its own."""
    assert completions(table) == WRITTEN
    for kind in ("minor", "semi-major", "major"):
        compacted(table, kind)
        assert completions(table) == WRITTEN
    table.update({"name": "x"}, "row = 4")
    n = table.state().n
    table.delete("row = 5")
    wanted = {row: n if row == 4 else at for row, at in WRITTEN.items() if row != 5}
    assert completions(table) == wanted
    compacted(table, "major")
    assert completions(table) == wanted
    table.restore(version=4)
    assert completions(table) == WRITTEN


def test_a_row_is_in_a_window_by_its_completion_time(table: Table) -> None:
    """Windows show origins, too; conditions and intervals choose rows as ever."""
    compacted(table, "minor")
    assert completions(table, since_version=2) == {r: n for r, n in WRITTEN.items() if n > 2}
    assert completions(table, where="row > 31", interval=(0, 3600)) == {32: 4, 34: 4, 36: 4, 38: 4}
    assert table.scan(columns=[INSTANT]).count() == 40
    assert table.scan(columns=[INSTANT]).to_arrow().num_rows == 40


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_an_origin_that_the_log_forgot_is_null(table: Table, kind: str) -> None:
    """Once no kept version needs the first file of compacted rows; no other row loses its own."""
    compacted(table, kind)
    table.append(rows(range(40, 44)))
    newest = table.state()
    cleaned(table)
    found = table.scan(columns=["row", *ORIGIN_COLUMNS]).to_arrow().to_pylist()
    known = {row["row"]: row[COMPLETION_TIME] for row in found if row[COMPLETION_TIME]}
    assert known == dict.fromkeys(range(40, 44), moment(newest.time))
    assert {row["row"] for row in found if row[INSTANT]} == {*known}
    assert len(found) == 44


def test_hidden_columns_are_read_by_name_alone(table: Table) -> None:
    """``*`` stands for the others; a feed has its own; a table's own column comes first."""
    assert table.scan().schema.names == SCHEMA.names
    assert table.scan(columns=["*", INSTANT]).schema.names == [*SCHEMA.names, INSTANT]
    feed = table.scan(since_version=0, changes=True, columns=["*"])
    assert feed.schema.names[: len(SCHEMA.names)] == SCHEMA.names
    with pytest.raises(SchemaMismatch, match="no column '_segtable_instant'"):
        table.scan(since_version=0, changes=True, columns=[INSTANT])
    with pytest.raises(SchemaMismatch, match="no column '_segtable_change'"):
        table.scan(columns=["_segtable_change"])
    with pytest.raises(InvalidInput, match=r"columns \*, row: \* stands for all"):
        table.scan(columns=["*", "row"])


def test_a_tables_own_column_hides_the_hidden_one(tmp_path: Path) -> None:
    """Its values are read, not the origin."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), (INSTANT, pa.int64())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, time_column="at", zookeeper="memory://own-column"
    )
    table.append(pa.table([[1], [7]], schema=schema))
    assert table.scan(columns=[INSTANT]).to_arrow().to_pylist() == [{INSTANT: 7}]
    assert table.scan(columns=[COMPLETION_TIME]).count() == 1


def test_rows_of_a_rollup_table_have_no_origin(tmp_path: Path) -> None:
    """They stand for rows of many writes: the error says what to read instead."""
    kind = Rollup(metrics=(Metric.parse("total=sum(n)"),))
    made = Table.create(str(tmp_path / "t"), schema=PAIRS.remove(2), time_column="at", kind=kind)
    with pytest.raises(InvalidInput, match="rollup table"):
        made.scan(columns=[INSTANT])


def keyed(place: Path, **given: object) -> LibraryTable:
    """Create an empty primary-key table."""
    return LibraryTable.create(
        str(place / "keyed"),
        schema=PAIRS,
        time_column="at",
        granularity="all",
        primary_key="n",
        buckets=2,
        zookeeper="memory://origins",
        **given,  # type: ignore[arg-type]
    )


def origins(table: LibraryTable, **given: object) -> dict[int, tuple[object, object]]:
    """Return the origin of each key's row."""
    found = table.scan(columns=["n", *ORIGIN_COLUMNS], **given)  # type: ignore[arg-type]
    return {row["n"]: (row[INSTANT], row[COMPLETION_TIME]) for row in found.to_arrow().to_pylist()}


def put(table: LibraryTable, keys: range, **columns: object) -> int:
    """Upsert keys, and return the version."""
    some = [{"at": 5, "n": n, **columns} for n in keys]
    schema = pa.schema([field for field in PAIRS if field.name in some[0]])
    return table.upsert(pa.Table.from_pylist(some, schema=schema)).n


def test_records_of_keyed_tables_keep_their_origin(tmp_path: Path) -> None:
    """The origin is in the files: compaction and cleaning of what it replaced take nothing away."""
    table = keyed(tmp_path)
    for start in range(3):
        put(table, range(start, start + 3), text="x")
    times = [moment(table.ports.log.at(n).time) for n in range(4)]
    found = origins(table)
    wanted = dict(enumerate([times[1], times[2], times[3], times[3], times[3]]))
    assert {n: completed for n, (_, completed) in found.items()} == wanted
    assert all(began <= completed for began, completed in found.values())  # type: ignore[operator]
    for kind in ("minor", "semi-major"):
        table.compact(kind)
        table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
        assert origins(table) == found
    assert origins(table, base_only=True) == found


def test_a_row_of_several_records_has_the_origin_of_the_last(tmp_path: Path) -> None:
    """So a row is in the window after a time if its completion time is later."""
    table = keyed(tmp_path, merge="partial_update")
    put(table, range(4), text="a")
    start = put(table, range(2, 6), text="b")
    last = put(table, range(3, 4), text=None)  # changes nothing of the text
    time = moment(table.ports.log.at(start).time)
    for compact in (True, False):
        found = {n: completed for n, (_, completed) in origins(table).items()}
        assert {n for n, at in found.items() if at == time} == {2, 4, 5}
        assert found[3] == moment(table.ports.log.at(last).time)
        window = origins(table, since_version=start - 1)
        assert {*window} == {n for n, at in found.items() if at >= time}  # type: ignore[operator]
        if compact:
            table.compact("semi-major")
