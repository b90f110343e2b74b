"""Change requests are refused when they are made."""

from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    GivenRows,
    Matched,
    Merge,
    Sql,
    Unmatched,
    Update,
    action,
    arguments_of,
    check_fits,
    selected,
    with_rows,
)
from airflow_provider_segtable.core.schema import Column, Schema

ROWS = GivenRows(rows=None, columns=("n",), count=3)
FILE = FileRows(path="rows.csv")
SCHEMA = Schema(
    (Column(name="at", type="timestamp[us]", nullable=False), Column(name="n", type="int64"))
)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Delete, "where='true' selects every row"),
        (lambda: Delete(where=" "), "where=' ' is empty"),
        (lambda: Delete(where="true", addresses=ROWS), "give addresses alone"),
        (lambda: Delete(where="true", on=("n",)), r"on=\('n',\)"),
        (lambda: Delete(rows=ROWS, on=("n", "n")), "each once"),
        (lambda: Update(set={}, where="true"), "set is empty"),
        (lambda: Update(set={"n": 1}), "select rows"),
        (lambda: Merge(source=ROWS, on=()), "name the columns to join by"),
        (lambda: Merge(source=ROWS, on=("n", "n")), "each once"),
        (
            lambda: Merge(
                source=ROWS, on=("n",), matched=Matched.IGNORE, unmatched=Unmatched.IGNORE
            ),
            "nothing to do",
        ),
        (
            lambda: Merge(source=ROWS, on=("n",), matched=Matched.DELETE, set={"n": 1}),
            "matched='delete'",
        ),
        (lambda: GivenRows(rows=None, columns=()), "no columns"),
        (lambda: GivenRows(rows=None, columns=("n", "n")), "given twice"),
        (lambda: FileRows(path=""), "path of the rows is empty"),
        (lambda: action(Unmatched, "update"), "unmatched='update': choose one of insert, ignore"),
        (lambda: selected("", None, every_row=False), "all_rows=True"),
        (lambda: selected("n = 1", None, every_row=True), "leave out"),
        (lambda: arguments_of(Delete(rows=ROWS)), "write them to a file"),
        (lambda: arguments_of(Delete(rows=FILE, on=("a,b",))), "'a,b', which has a comma"),
        (lambda: arguments_of(Update(set={"n": 1}, where="true")), "is a int: give a text"),
        (lambda: arguments_of(Merge(source=FILE, on=Sql("a = b"))), "is a condition"),
        (lambda: check_fits(Delete(rows=FILE), SCHEMA, "at"), "rows.csv were not read"),
    ],
)
def test_what_a_request_cannot_mean_is_refused(make: Any, said: str) -> None:
    """Each refusal names the value and the way out."""
    with pytest.raises(InvalidInput, match=said):
        make()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Update(set={"m": 1}, where="true"), "no column 'm' to set: the table has at, n"),
        (Delete(rows=GivenRows(rows=None, columns=("m",))), "no column 'm' to compare with"),
        (Merge(source=ROWS, on=("m",)), "the source has no column 'm'"),
        (Merge(source=GivenRows(rows=None, columns=("m",)), on=("m",)), "the table has no column"),
        (
            Merge(source=GivenRows(rows=None, columns=("n", "m")), on=("n",)),
            "'m', which the table",
        ),
        (Merge(source=ROWS, on=("n",)), "no column 'at', which no row of the table can do without"),
    ],
)
def test_a_request_is_compared_with_the_columns(request_: ChangeRequest, said: str) -> None:
    """A column that a table or a source has not is named, whatever the engine is."""
    with pytest.raises(SchemaMismatch, match=said):
        check_fits(request_, SCHEMA, "at")


def test_rows_of_a_file_are_read_once_and_compared_by_column() -> None:
    """The file's rows replace its name; a column that it has not is named."""
    assert with_rows(Delete(rows=FILE, on=("n",)), lambda _: ROWS) == Delete(rows=ROWS, on=("n",))
    assert with_rows(Merge(source=FILE, on=("n",)), lambda _: ROWS).source == ROWS  # type: ignore[union-attr]
    with pytest.raises(SchemaMismatch, match=r"rows.csv has no column 'm': it has n"):
        with_rows(Delete(rows=FILE, on=("m",)), lambda _: ROWS)


def test_the_log_is_told_what_was_asked() -> None:
    """Each request has one line."""
    assert str(Delete(where="n = 1", rows=ROWS)) == "where n = 1 and rows that equal one of 3 in n"
    assert str(Delete(addresses=ROWS)) == "3 addresses"
    assert str(Update(set={"n": Sql("n + 1")}, where="true")) == "set n = n + 1 where true"
    merge = Merge(source=ROWS, on=("n",), set={"n": Sql("source.n")})
    assert str(merge) == "merge 3 rows on n: matched update (set n = source.n), unmatched insert"
