"""``Table.update`` and ``Table.merge``: rows go and come in one event."""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, TimeOutOfRange
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, files, numbers


def column(table: Table, name: str) -> dict[int, object]:
    """Return a column's values by row number."""
    found = table.snapshot().to_arrow(columns=["row", name]).to_pylist()
    return {row["row"]: row[name] for row in found}


def test_values_and_expressions_are_set(table: Table) -> None:
    """A value is set as it is, an expression sees the row as it was; other rows stay."""
    done = table.update({"name": "new", "price": pc.field("row") * 10}, "row < 2 OR row = 30")
    assert (done.matched, done.deleted, done.inserted) == (3, 3, 3)
    assert table.state().n == 5
    names, prices = column(table, "name"), column(table, "price")
    assert {row for row, name in names.items() if name == "new"} == {0, 1, 30}
    assert (prices[30], prices[29], len(prices)) == (300.0, 14.5, 40)


def test_values_are_computed_by_sql(table: Table) -> None:
    """An expression in SQL sees the old row; of a merge both sides, under their names."""
    table.update({"price": Sql("price * 2 + row"), "name": "x"}, "row < 3")
    assert [column(table, "price")[row] for row in range(4)] == [0.0, 2.0, 4.0, 1.5]
    with pytest.raises(InvalidInput, match="Spark"):
        table.update({"price": Sql("exp(price)")}, "row < 3")
    given = pa.table({"row": [1, 2], "more": [10.0, 20.0]})
    table.merge(given, on="row", unmatched="ignore", set={"price": Sql("target.price + more")})
    assert [column(table, "price")[row] for row in range(4)] == [0.0, 12.0, 24.0, 1.5]


def test_a_row_may_move_to_another_chunk(table: Table) -> None:
    """The event time can be set: rows appear where they belong now."""
    table.update({"at": datetime(1970, 1, 1, 9, tzinfo=UTC)}, pc.field("row") < 3)
    chunks = {
        str(chunk.interval.start // HOUR_US) for chunk in table.state().timeline.visible_chunks()
    }
    assert chunks == {"0", "1", "9"}
    assert numbers(table) == list(range(40))


def test_null_can_be_set_where_null_can_be(table: Table) -> None:
    """Null goes into a nullable column, and not into others."""
    table.update({"name": None}, "row = 1")
    assert column(table, "name")[1] is None
    with pytest.raises((SchemaMismatch, TimeOutOfRange)):
        table.update({"at": None}, "row = 1")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"nope": 1}, "'nope'"),
        ({"row": "one"}, "'row' is int64"),
        ({"row": 1.5}, "'row' is int64"),
        ({"row": pc.field("nope")}, "'row' is int64"),
        ({}, "set is empty"),
    ],
)
@pytest.mark.parametrize("where", ["row = 1", "row = 1000"])
def test_what_a_column_cannot_be_is_refused(
    table: Table, change: dict[str, object], word: str, where: str
) -> None:
    """A column that is not there, or a value that it cannot hold, is refused by name."""
    before = files(table)
    with pytest.raises(InvalidInput, match=word):
        table.update(change, where)
    assert files(table) == before


def test_no_value_is_cut_short(table: Table) -> None:
    """A value that the column could hold in part is refused, given or computed."""
    with pytest.raises(SchemaMismatch, match="'row' is int64"):
        table.update({"row": pc.field("price") + 0.25}, "row = 1")
    table.update({"row": pc.field("price") * 2}, "row = 1")
    table.update({"row": 1.0}, "row = 1")
    assert numbers(table) == list(range(40))


def test_an_update_of_nothing_is_no_event(table: Table) -> None:
    """An update that finds no row does nothing."""
    assert table.update({"name": "x"}, "row > 1000").n is None


def test_updated_rows_are_updated_again(table: Table) -> None:
    """Rows that an update appended have addresses of their own, and change again."""
    for _ in range(3):
        table.update({"price": pc.field("price") + 1}, "row < 20")
    prices = column(table, "price")
    assert (prices[10], prices[20], len(prices)) == (8.0, 10.0, 40)


def source(**columns: list[object]) -> pa.Table:
    fields = [SCHEMA.field(name).with_nullable(True) for name in columns]
    return pa.table(dict(columns), pa.schema(fields))


def test_a_merge_updates_and_inserts(table: Table) -> None:
    """Matched rows take the source's columns and keep the others; unmatched rows come."""
    given = source(row=[38, 39, 40], at=[38, 39, 40], name=["a", "b", "c"])
    done = table.merge(given, on=["row"])
    assert (done.matched, done.deleted, done.inserted) == (2, 2, 3)
    assert numbers(table) == list(range(41))
    names, prices = column(table, "name"), column(table, "price")
    assert [names[row] for row in (37, 38, 39, 40)] == ["n1", "a", "b", "c"]
    assert [prices[row] for row in (38, 39, 40)] == [19.0, 19.5, None]


def test_a_merge_may_delete_or_only_insert_or_only_update(table: Table) -> None:
    """What becomes of either side is for the caller to say."""
    given = source(row=[39, 40], at=[1, 2])
    assert table.merge(given, on=["row"], matched="delete", unmatched="ignore").deleted == 1
    assert numbers(table) == list(range(39))
    done = table.merge(given, on=["row"], matched="ignore")
    assert (done.matched, done.deleted, done.inserted) == (0, 0, 2)
    done = table.merge(given, on=["row"], matched="ignore")
    assert (done.n, done.matched) == (None, 2)
    done = table.merge(source(row=[1, 77], name=["x", "y"]), on="row", unmatched="ignore")
    assert (done.deleted, done.inserted) == (1, 1)
    assert numbers(table) == list(range(41))


def test_null_keys_match_nothing(table: Table) -> None:
    """Null equals no null in a merge: such rows of the source are unmatched."""
    given = source(name=[None, "n1"], at=[1, 2], row=[100, 101])
    done = table.merge(given, on=["name"], matched="delete", unmatched="insert")
    assert (done.matched, done.inserted) == (13, 1)
    assert 100 in numbers(table)


def test_two_rows_for_one_are_refused(table: Table) -> None:
    """Rows of the source that would update one row are refused, naming the key."""
    given = source(row=[5, 5, 6], name=["a", "b", "c"], at=[1, 2, 3])
    with pytest.raises(InvalidInput, match="2 rows of the source have row = 5"):
        table.merge(given, on=["row"])
    assert table.merge(given, on=["row"], matched="delete").deleted == 2
    apart = source(row=[500, 500], at=[1, 2])
    assert table.merge(apart, on=["row"]).inserted == 2


def test_several_rows_may_become_one_source_row(table: Table) -> None:
    """One row of the source updates every row with its keys, over several columns."""
    given = source(name=["n1", "n2", "n1"], at=[1, 2, 4], price=[0.0, 0.0, -1.0])
    done = table.merge(given, on=["name", "at"], unmatched="ignore")
    assert done.matched == 2
    assert {r for r, price in column(table, "price").items() if price in {-1.0, 0.0}} == {0, 2, 4}
    assert (
        table.merge(source(name=["n1"], price=[9.0]), on=["name"], unmatched="ignore").deleted == 13
    )


def test_an_insert_needs_what_cannot_be_null(table: Table) -> None:
    """A source without the event time can update, but not insert."""
    with pytest.raises(InvalidInput, match="no column 'at'"):
        table.merge(source(row=[1], name=["x"]), on=["row"])
    assert table.merge(source(row=[1], name=["x"]), on=["row"], unmatched="ignore").deleted == 1


def test_a_merge_says_what_it_cannot_do(table: Table) -> None:
    """Keys that are not there and words that are not known are refused."""
    with pytest.raises(InvalidInput, match="'price' to join by"):
        table.merge(source(row=[1]), on=["price"], unmatched="ignore")
    with pytest.raises(InvalidInput, match="choose one of update, delete, ignore"):
        table.merge(source(row=[1]), on=["row"], matched="replace")
    with pytest.raises(InvalidInput, match="each once"):
        table.merge(source(row=[1]), on=[])
