"""``Table.delete``: by condition, by given rows, by address; counts; time travel."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.data.where import condition
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, files, numbers


def addressed(table: Table, where: pc.Expression) -> pa.Table:
    return pa.Table.from_batches(table.snapshot().addressed()).filter(where)


@pytest.mark.parametrize(
    "where", ["row < 7 OR row = 39", (pc.field("row") < 7) | (pc.field("row") == 39)]
)
def test_a_condition_deletes_the_rows_it_holds_for(table: Table, where: object) -> None:
    """SQL and an Arrow expression delete the same rows, and say how many."""
    done = table.delete(where)
    assert numbers(table) == list(range(7, 39))
    assert (done.matched, done.deleted, done.inserted) == (8, 8, 0)
    assert table.snapshot().count() == 32


def test_unknown_is_not_true(table: Table) -> None:
    """Rows whose column is null stay, whether a condition or its opposite is asked for."""
    table.delete("name = 'n1'")
    table.delete("NOT name = 'n1'")
    assert numbers(table) == [number for number in range(40) if number % 3 == 0]


def test_every_version_shows_what_it_showed(table: Table) -> None:
    """Time travel to before and after each delete shows the rows of that time."""
    first = table.delete("row < 10")
    second = table.delete("row < 20")
    assert (second.matched, second.deleted) == (10, 10)
    assert numbers(table, version=4) == list(range(40))
    assert numbers(table, version=first.n or 0) == list(range(10, 40))
    assert numbers(table) == list(range(20, 40))
    assert table.snapshot(version=first.n).count() == 30


def test_rows_without_columns_are_still_counted(table: Table) -> None:
    """Batches of no columns have as many rows as are left."""
    table.delete("row < 10")
    assert sum(batch.num_rows for batch in table.snapshot().batches(columns=[])) == 30


def test_all_rows_can_go(table: Table) -> None:
    """A table all of whose rows are deleted is empty, and takes rows again."""
    before = table.snapshot().to_arrow()
    assert table.delete("true").deleted == 40
    assert table.snapshot().count() == 0
    assert table.snapshot().to_arrow().num_rows == 0
    table.append(before)
    assert numbers(table) == list(range(40))


def test_nothing_found_is_no_event(table: Table) -> None:
    """A delete that finds no row leaves neither an event nor a file."""
    before = files(table)
    done = table.delete("row > 1000")
    assert (done.n, done.matched, done.deleted) == (None, 0, 0)
    assert table.state().n == 4
    assert files(table) == before


def test_given_rows_delete_their_equals(table: Table) -> None:
    """All rows that equal a given one in its columns go; null equals null, doubles do no harm."""
    given = pa.table({"name": pa.array([None, "n1", None], pa.string())})
    assert table.delete(rows=given).deleted == 27
    assert numbers(table) == [number for number in range(40) if number % 3 == 2]


def test_given_rows_of_another_width_are_cast(table: Table) -> None:
    """Given rows may differ in representation, and in the order of columns."""
    times = pa.array([4, 6], pa.timestamp("ns", "UTC")).cast(pa.int64())
    given = pa.table(
        {
            "name": pa.array(["n1", "n1"]).dictionary_encode(),
            "row": pa.array([4, 6], pa.int16()),
            "at": pa.compute.multiply(times, 1000).cast(pa.timestamp("ns", "UTC")),
        }
    )
    assert table.delete(rows=given).deleted == 1
    assert 4 not in numbers(table)


def test_given_rows_must_be_of_the_table(table: Table) -> None:
    """Columns that the table has not, or of another type, are refused by name."""
    with pytest.raises(SchemaMismatch, match="'nope'"):
        table.delete(rows=pa.table({"nope": [1]}))
    with pytest.raises(SchemaMismatch, match="'row': expected int64"):
        table.delete(rows=pa.table({"row": ["1"]}))
    with pytest.raises(InvalidInput, match="no columns"):
        table.delete(rows=pa.table({}))


def test_addresses_delete_their_rows(table: Table) -> None:
    """Rows go by the addresses that a snapshot gave, also an older one."""
    found = addressed(table, pc.field("row") < 3)
    table.delete("row > 30")
    done = table.delete(addresses=found)
    assert (done.matched, done.deleted) == (3, 3)
    assert numbers(table) == list(range(3, 31))


def test_addresses_of_no_row_are_left_out(table: Table) -> None:
    """What was deleted already, or never existed, is not matched and not deleted again."""
    found = addressed(table, pc.field("row") < 3).select([ROOT, ROW])
    table.delete("row = 1")
    root = found.column(ROOT)[0].as_py()
    strange = pa.table(
        {
            ROOT: [root, root, root, root.replace("19700101", "19800101"), None],
            ROW: [-1, 4_000_000_000, 5_000_000_000, 0, 0],
        }
    )
    given = pa.concat_tables([found.cast(strange.schema), strange, found.cast(strange.schema)])
    done = table.delete(addresses=given)
    assert (done.matched, done.deleted) == (2, 2)
    assert table.delete(addresses=given).n is None
    assert numbers(table) == list(range(3, 40))


@pytest.mark.parametrize(
    "addresses",
    [
        pa.table({ROOT: ["no id"], ROW: [0]}),
        pa.table({ROOT: ["x"]}),
        pa.table({ROOT: ["x"], ROW: ["one"]}),
    ],
)
def test_malformed_addresses_are_refused(table: Table, addresses: pa.Table) -> None:
    """Addresses of another form name the columns that are wanted."""
    with pytest.raises(InvalidInput, match="addressed"):
        table.delete(addresses=addresses)


def test_exactly_one_way_of_naming_rows(table: Table) -> None:
    """Neither none nor two of where, rows and addresses are accepted."""
    with pytest.raises(InvalidInput, match="0 of where"):
        table.delete()
    with pytest.raises(InvalidInput, match="2 of where"):
        table.delete("true", rows=SCHEMA.empty_table())


def test_conditions_that_mean_nothing_are_refused(table: Table) -> None:
    """A column that is not there, an expression that is no condition, and other things."""
    with pytest.raises(InvalidInput, match="'nope'"):
        table.delete("nope = 1")
    with pytest.raises(InvalidInput, match="not a condition over at, row"):
        table.delete(pc.field("nope") == 1)
    with pytest.raises(InvalidInput, match="not a condition"):
        table.delete(pc.field("row"))
    with pytest.raises(InvalidInput, match="not a condition"):
        table.delete(7)
    assert table.state().n == 4


def test_only_the_columns_of_the_condition_are_read() -> None:
    """An Arrow expression is known to need just the columns it names."""
    where = (pc.field("price") > 1) & pc.field("name").is_valid()
    assert condition(where, SCHEMA, "at").columns == ("name", "price")


def test_the_log_says_what_was_asked_for(table: Table) -> None:
    """The event names kind, reason, rows matched and rows deleted, by root."""
    done = table.delete("row < 2")
    event = EventLog(table.ports.storage).event(done.n or 0)
    assert event is not None
    assert isinstance(event.action, RowsChanged)
    assert (event.action.kind, event.action.reason) == ("delete", "where row < 2")
    assert (event.action.matched, event.action.deleted) == (2, 2)
    assert len(event.action.vectors[0].rows) == 2


def test_a_delete_needs_no_coordinator(table: Table) -> None:
    """A table that was opened without ZooKeeper can delete."""
    alone = Table(replace(table.ports, optional_coordinator=None))
    assert alone.delete("row < 10").deleted == 10
    assert numbers(alone) == list(range(10, 40))


def test_the_same_commit_id_deletes_once(table: Table) -> None:
    """Run again under its commit id, a delete tells what it did and does nothing."""
    first = table.delete("row < 10", commit_id="mine")
    again = table.delete("row < 20", commit_id="mine")
    assert (again.n, again.matched, again.deleted) == (first.n, 10, 10)
    assert numbers(table) == list(range(10, 40))


def test_a_result_reads_well(table: Table) -> None:
    """A result says in a line what was done, and its repr does not spill the state."""
    done = table.delete("row < 3")
    assert str(done) == "3 rows matched, 3 deleted, 0 inserted: event 5"
    assert str(table.delete("row < 3")) == (
        "0 rows matched, 0 deleted, 0 inserted: nothing to do, no event"
    )
    assert "Timeline" not in repr(done)


def test_a_doubled_quote_is_a_quote(table: Table) -> None:
    """``'O''Hare'`` deletes O'Hare, and leaves OHare; a new value in SQL has the quote, too."""
    table.update({"name": "O'Hare"}, "row = 1")
    table.update({"name": Sql("'O''H' 'are'")}, "row = 2")
    table.update({"name": "OHare"}, "row = 3")
    assert table.scan(where="name = 'O''Hare'").count() == 2
    assert table.delete("name IN ('O''Hare', 'x')").deleted == 2
    assert table.scan(where="name = 'OHare'").count() == 1
