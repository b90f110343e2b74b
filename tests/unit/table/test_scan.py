"""Reads by request: columns, condition, interval and version, and what they leave unread."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.time import HOUR_US, Interval, moment
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.sql.sql_conditions import parse_predicate
from airflow_provider_segtable.ports.files import DataFiles, Source
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, new_table, rows

LATE = "1970-01-01T01:00:00Z/1970-01-01T02:00:00Z"


def shown(scan: Scan) -> list[int]:
    """Return the row numbers of a scan that has them as a column."""
    found = scan.to_arrow()
    assert found.schema == scan.schema
    assert found.num_rows == scan.count()
    return sorted(found.column("row").to_pylist())


def test_a_condition_an_interval_and_columns_hold_together(table: Table) -> None:
    """Columns of the condition need not be requested, nor those that deletes are hidden by."""
    table.delete("row IN (3, 13)")
    scan = table.scan(columns=["row"], where="price >= 1 AND name IS NULL", interval=LATE)
    assert scan.schema.names == ["row"]
    assert shown(scan) == [9, 15, 21, 27, 33, 39]
    assert shown(table.scan(where=pc.field("name") == "n2", interval=LATE)) == [
        5,
        11,
        17,
        23,
        29,
        35,
    ]
    assert table.scan(columns=[], where="true").count() == 38
    assert sum(each.num_rows for each in table.scan(columns=[], where="row < 3").to_batches()) == 3


def test_any_kept_version_is_read(table: Table) -> None:
    """By number, tag and time, with a condition over what it showed; a date and texts are times."""
    early = table.state()
    table.tag("before")
    table.delete("row < 30")
    for version in (
        {"version": early.n},
        {"tag": "before"},
        {"as_of": early.time},
        {"as_of": moment(early.time)},
        {"as_of": moment(early.time).replace(tzinfo=None).isoformat()},
    ):
        assert shown(table.scan(where="row < 32 AND row > 28", **version)) == [29, 30, 31]  # type: ignore[arg-type]
        assert table.snapshot(**version).count() == 40  # type: ignore[arg-type]
    assert shown(table.scan(where="row < 32")) == [30, 31]


@dataclass(slots=True)
class Read:
    """Data files; opened paths and read bytes are noted."""

    inner: DataFiles
    opened: list[str] = field(default_factory=list)

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file."""
        self.opened.append(path)
        return self.inner.open(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def noted(table: Table) -> tuple[Table, list[str]]:
    """Return the table over files that note what is opened."""
    files = Read(table.ports.files)
    return Table(replace(table.ports, files=files)), files.opened  # type: ignore[arg-type]


def test_files_that_cannot_match_are_not_opened(table: Table) -> None:
    """By the interval, and by the event times that a condition allows; and none before reading."""
    watched, opened = noted(table)
    scan = watched.scan(interval=LATE)
    assert opened == []
    assert scan.to_arrow().num_rows == 20
    assert len(opened) == 4
    opened.clear()
    wanted = "at = timestamp '1970-01-01 00:00:00.000002' OR at > timestamp '1970-01-01 12:00:00'"
    assert shown(watched.scan(where=wanted)) == [2]
    assert len({*opened}) == 1
    opened.clear()
    assert watched.scan(where="at < timestamp '1969-01-01' AND row = 1").to_arrow().num_rows == 0
    assert watched.scan(where="at < timestamp '1969-01-01'").count() == 0
    assert opened == []


def test_a_limit_ends_the_reading(table: Table) -> None:
    """So many rows or all, counted alike; files after the one that fills it are not opened."""
    watched, opened = noted(table)
    for limit in (0, 1, 7, 40, 1000):
        scan = watched.scan(columns=["row"], limit=limit)
        assert len(shown(scan)) == min(limit, 40)
    assert len(shown(watched.scan(where="row >= 10", limit=3))) == 3
    opened.clear()
    assert watched.scan(limit=0).to_arrow().num_rows == 0
    assert opened == []
    assert watched.scan(limit=1).to_arrow().num_rows == 1
    assert len({*opened}) == 1
    with pytest.raises(InvalidInput, match="limit=-1 is negative"):
        table.scan(limit=-1)


CONDITIONS: tuple[tuple[Any, int], ...] = (
    ("row >= 32", 1),
    ("row >= 12 AND row < 22", 2),
    ("NOT (row < 22)", 2),
    ("price < 4", 1),
    ("name = 'zz' OR row = 0", 1),
    ("row IN (1000, 38)", 1),
    ("row IS NULL", 0),
    ("row > 31.5", 1),
    ("row = 12.5", 0),
    ("row <= 9e0", 1),
    ("row > 9223372036854775808", 0),
    ("row <=> '38'", 1),
    ("price > 15", 4),  # a price may be NaN
    ("name IS NULL", 4),
    (pc.field("row") >= 32, 1),
    (pc.field("row").isin([1000, 38]), 1),
    (pc.field("price") < 4, 4),  # Arrow ignores NaN in bounds, so no bounds are used
)


@pytest.mark.parametrize(
    ("where", "groups"), CONDITIONS, ids=lambda each: " ".join(str(each).split())
)
def test_row_groups_that_cannot_match_are_skipped(
    monkeypatch: pytest.MonkeyPatch, where: Any, groups: int
) -> None:
    """By bounds and null counts; rows keep their numbers in the file, so deletes hit the same."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", 5)
    table = new_table(MemoryService())
    table.append(rows(range(40)))  # the first hour has the even rows, in four groups
    table.delete("row IN (2, 34)")
    read: list[int] = []
    whole = pq.ParquetFile.iter_batches

    def iter_batches(file: Any, **given: Any) -> Any:
        read.extend(given["row_groups"])
        return whole(file, **given)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    early = Interval(0, HOUR_US)
    found = table.scan(where=where, interval=early).to_arrow()
    assert len(read) == groups
    every = table.snapshot().to_arrow(interval=early)
    assert every.num_rows == 18
    test = matches(every, parse_predicate(where, SCHEMA)) if isinstance(where, str) else where
    assert found.equals(every.filter(test))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"version": 3, "tag": "x"}, "version=3 and tag='x' name a version each: give one"),
        ({"version": 3, "as_of": "2026-01-01"}, "give one of them"),
        ({"columns": ["row", "row"]}, "columns row, row: name each once"),
        ({"where": " "}, "where=' ' is empty"),
        ({"where": "row ="}, "row ="),
        ({"where": 7}, "7 is not a condition"),
        ({"interval": "2026"}, "'2026' is not an interval"),
        ({"as_of": "soon"}, "'soon' is not a time"),
        ({"tag": "nowhere"}, "nowhere"),
    ],
)
def test_what_a_read_cannot_mean_is_refused(table: Table, given: dict[str, Any], said: str) -> None:
    """Before a file is opened; the message names the value and the way out."""
    with pytest.raises(InvalidInput, match=said):
        table.scan(**given)


def test_missing_columns_are_named(table: Table) -> None:
    """In the list and in the condition."""
    with pytest.raises(SchemaMismatch, match=r"no column 'm': the table has at, row, name, price"):
        table.scan(columns=["row", "m"])
    with pytest.raises(SchemaMismatch, match="'m'"):
        table.scan(where="m = 1")


def test_texts_and_values_are_one_request() -> None:
    """What options say and what a program says is the same value."""
    text = read_request(columns="a, b", interval=LATE, as_of="2026-01-01")
    assert text == ReadRequest(
        columns=("a", "b"),
        interval=Interval(HOUR_US, 2 * HOUR_US),
        as_of=read_request(as_of=datetime(2026, 1, 1, tzinfo=UTC)).as_of,
    )


def test_an_empty_table_is_read(table: Table) -> None:
    """Its schema stays when no row matches."""
    assert table.scan(where="row > 1000").to_arrow().equals(SCHEMA.empty_table())
