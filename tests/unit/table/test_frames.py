"""Rows come from and go to pandas, Polars, DuckDB and Arrow."""

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table import table as base
from tests.unit.table.conftest import rows


@pytest.fixture
def table(table: base.Table) -> Table:
    """The table of this folder, as the library shows it."""
    return Table(table.ports)


MIDDAY = datetime(1970, 1, 1, 12, tzinfo=UTC)
NAIVE = MIDDAY.replace(tzinfo=None)
MAKERS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"at": [NAIVE], "row": [99]}, index=[7]),
    "pandas by an index": lambda: pd.DataFrame({"row": [99]}, index=pd.Index([MIDDAY], name="at")),
    "polars": lambda: pl.DataFrame({"at": [NAIVE], "row": [99], "name": ["long enough a text"]}),
    "duckdb": lambda: duckdb.sql("select timestamp '1970-01-01 12:00' as at, 99::bigint as row"),
    "a batch": lambda: pa.record_batch({"at": [MIDDAY], "row": [99]}),
    "a reader": lambda: pa.table({"at": [MIDDAY], "row": [99]}).to_reader(),
    "a struct array": lambda: pa.array([{"at": MIDDAY, "row": 99}]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_rows_of_all_kinds_are_appended(table: Table, name: str) -> None:
    """What is left out is null; a time without zone is UTC; an index without name is no column."""
    made = table.append(MAKERS[name]())
    assert (made.n, made.rows, made.segments) == (5, 1, 1)
    (found,) = table.scan(where="row = 99").to_arrow().to_pylist()
    assert (found["at"], found["price"]) == (MIDDAY, None)


def test_an_append_that_was_made_before_says_the_same(table: Table) -> None:
    """Rows and segments of its event are read from the log."""
    once = table.append(rows(range(40, 50)), commit_id="once")
    again = table.append(rows(range(40, 50)), commit_id="once")
    assert (again.n, again.rows, again.segments) == (once.n, once.rows, once.segments) == (5, 10, 2)
    assert str(again) == "10 rows in 2 segments: event 5"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([1, 2], InvalidInput, "list is not rows in Arrow: give a pandas"),
        (pl.LazyFrame({"row": [1]}), InvalidInput, "collect a LazyFrame first"),
        (pd.DataFrame({"row": [1, "x"]}), SchemaMismatch, "a column without an Arrow type"),
        (pd.DataFrame({"row": [1]}), SchemaMismatch, "column 'at' is missing"),
        (pd.DataFrame({"at": [NAIVE], "rows": [1]}), SchemaMismatch, "'rows' .* not in the table"),
    ],
)
def test_other_rows_are_refused(
    table: Table, given: Any, error: type[Exception], said: str
) -> None:
    """The message says what would do; nothing is written."""
    with pytest.raises(error, match=said):
        table.append(given)
    assert table.state().n == 4


def test_frames_select_and_merge_rows(table: Table) -> None:
    """Deletes by rows and merges take frames, too."""
    assert table.delete(rows=pl.DataFrame({"row": [1, 2, 400]})).deleted == 2
    source = pd.DataFrame({"row": [3, 500], "price": [0.5, 1.5], "at": [NAIVE, NAIVE]})
    merged = table.merge(source, on=["row"])
    assert (merged.deleted, merged.inserted) == (1, 2)


def test_a_scan_becomes_a_frame(table: Table) -> None:
    """pandas, Polars, DuckDB and pyarrow read the same rows, as often as they like."""
    scan = table.scan(columns=["row", "name"], where="row between 10 and 19")
    expected = scan.to_arrow()
    assert expected.num_rows == 10
    assert pa.table(scan) == scan.to_reader().read_all() == expected
    assert scan.to_pandas()["row"].tolist() == expected.column("row").to_pylist()
    assert scan.to_polars().rows() == pl.DataFrame(scan).rows() == pl.from_arrow(expected).rows()
    for _ in range(2):
        assert duckdb.sql("select count(*), min(row) from scan").fetchall() == [(10, 10)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(
    table: Table, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """The error names the package and the way without it."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DependencyMissing, match=f"package {library} is not installed"):
        getattr(table.scan(), f"to_{library}")()


HOUR_ONE = datetime(1970, 1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "condition",
    [
        f"at >= '{HOUR_ONE.isoformat()}'",
        pc.field("at") >= HOUR_ONE,
        pc.field("at") >= HOUR_ONE.replace(tzinfo=None),
        (pc.field("at") >= HOUR_ONE.replace(tzinfo=None)) & (pc.field("row") >= 0),
    ],
    ids=["text", "with a zone", "without a zone", "with another column"],
)
def test_conditions_compare_times(table: Table, condition: Any) -> None:
    """A time without zone is UTC, in whatever form it comes."""
    found = table.scan(where=condition).to_arrow()
    assert found.num_rows == 20
    assert min(found.column("at").to_pylist()) >= HOUR_ONE
    assert found.schema.types == table.snapshot().schema.types
    assert table.delete(condition).deleted == 20


@pytest.mark.parametrize(
    "interval",
    [
        (HOUR_ONE, None),
        (HOUR_ONE.replace(tzinfo=None), date(1970, 1, 2)),
        ["1970-01-01T01:00", HOUR_US * 2],
        "1970-01-01T01:00/1970-01-02",
    ],
    ids=["open", "naive and a date", "text and microseconds", "text"],
)
def test_intervals_have_many_forms(table: Table, interval: Any) -> None:
    """Scans and snapshots take all of them."""
    assert table.scan(interval=interval).count() == 20
    assert table.snapshot().scan(interval=interval).count() == 20
    assert len(table.snapshot().segments(interval)) == len(table.snapshot().visible(interval)) == 4


def test_a_version_is_named_by_a_date(table: Table) -> None:
    """``as_of`` takes a datetime or a date, without a zone, too."""
    late = datetime(2500, 1, 1)  # noqa: DTZ001 - naive means UTC
    assert table.scan(as_of=late).version == table.snapshot(as_of=late.date()).version == 4
