"""``Table.overwrite``: rows of an interval go and others come, in one event."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import KEPT, Overwritten, rival
from airflow_provider_segtable.core.requests.change_request import Delete, GivenRows, Merge, Sql
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched, extent_of
from airflow_provider_segtable.core.time import ALL_TIME, HOUR_US, Interval, instant
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.changes.arrow_engine import (
    ArrowEngine,
    NewArrowRows,
    new_arrow_rows,
)
from airflow_provider_segtable.table.changes.run_change import at_one_time, run_overwrite
from airflow_provider_segtable.table.log.checkpoint import decode_head, encode_head
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeClock
from tests.unit.table.conftest import SCHEMA, files, new_table, numbers, rows

FIRST_HOUR = Interval(0, HOUR_US)
SECOND_HOUR = Interval(HOUR_US, 2 * HOUR_US)
NOTHING = SCHEMA.empty_table()


def even(start: int) -> pa.Table:
    """Return five rows of the first hour."""
    given = rows(range(start, start + 10))
    return given.filter(pa.array([row % 2 == 0 for row in given.column("row").to_pylist()]))


def odd_rows(start: int = 0) -> list[int]:
    """Return the rows of the second hour."""
    return list(range(start + 1, 40, 2))


def during(
    table: Table, new: pa.Table, act: Callable[[], object], **asked: object
) -> list[int | None]:
    """Overwrite, and let somebody act once, after the snapshot was read; return its event."""
    acts = [act]

    class Slow(NewArrowRows):
        __slots__ = ()

        def prepare(self, snapshot):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            if acts:
                acts.pop()()
            return super().prepare(snapshot)

    plain = new_arrow_rows(table.state(), new)
    slow = Slow(rows=plain.rows, seen=plain.seen)
    request = Overwrite(**{"extent": FIRST_HOUR, **asked})  # type: ignore[arg-type]
    return run_overwrite(table.ports, request, slow, ArrowEngine())


def test_the_rows_of_an_interval_are_replaced_in_one_event(table: Table) -> None:
    """The hour's rows go, the new ones come, the other hour stays; the version before stays."""
    done = table.overwrite(even(100), interval=FIRST_HOUR)
    assert (done.n, done.matched, done.deleted, done.inserted) == (5, 20, 20, 5)
    assert numbers(table) == sorted([*odd_rows(), 100, 102, 104, 106, 108])
    assert numbers(table, version=4) == list(range(40))
    assert list(violations(table.state())) == []


def closed(table: Table) -> Table:
    """Return the table where no data file can be opened."""

    class Closed:
        def __init__(self, files: object) -> None:
            self.files = files

        def open(self, path: str) -> object:
            assert not path.endswith(".parquet"), path
            return self.files.open(path)  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.files, name)

    return Table(replace(table.ports, files=Closed(table.ports.files)))  # type: ignore[arg-type]


def test_no_data_file_is_opened_for_whole_segments(table: Table) -> None:
    """Rows of segments that lie in the interval are named by metadata alone."""
    table.delete("row = 0")
    done = closed(table).overwrite(even(100), interval=FIRST_HOUR)
    assert (done.deleted, done.inserted) == (19, 5)


def test_rows_of_joined_segments_are_named_by_their_roots(table: Table) -> None:
    """One file holds rows of four appends; those deleted since are not deleted again."""
    plans = [known.plan.id for known in request(table.ports, "minor")]
    compact(table.ports, plans, in_process(table.ports.files))
    table.delete("row IN (0, 14, 16, 38)")
    done = closed(table).overwrite(even(100), interval=FIRST_HOUR)
    assert (done.matched, done.deleted, done.inserted) == (16, 16, 5)
    assert numbers(table) == sorted([*odd_rows(), 100, 102, 104, 106, 108])
    newest = [e.rows for some in table.state().vectors.values() for e in some if e.n == done.n]
    assert sorted(newest) == [3, 4, 4, 5]
    assert list(violations(table.state())) == []


def test_a_part_of_a_chunk_is_replaced(table: Table) -> None:
    """An interval may cut through chunks and segments; only its rows are replaced."""
    done = table.overwrite(even(20), interval=Interval(15, 30))
    assert (done.deleted, done.inserted) == (7, 5)  # 16, 18, 20 .. 28
    assert numbers(table) == sorted({*range(40)} - {16, 18})


def test_a_commit_id_counts_once_and_another_replaces(table: Table) -> None:
    """Again under the same id nothing happens; under another one the same rows are replaced."""
    first = table.overwrite(even(100), interval=FIRST_HOUR, commit_id="monday")
    again = table.overwrite(even(200), interval=FIRST_HOUR, commit_id="monday")
    assert (again.n, again.deleted, again.inserted) == (first.n, 20, 5)
    other = table.overwrite(even(100), interval=FIRST_HOUR, commit_id="tuesday")
    assert (other.deleted, other.inserted) == (5, 5)
    assert numbers(table) == sorted([*odd_rows(), 100, 102, 104, 106, 108])


def test_the_chunks_that_rows_touch_are_replaced(table: Table) -> None:
    """``chunks`` replaces the time chunks of the rows, whatever else is in them."""
    done = table.overwrite(even(100), interval="chunks")
    assert (done.deleted, done.inserted) == (20, 5)
    both = table.overwrite(rows(range(300, 304)), interval=Touched.CHUNKS)
    assert (both.deleted, both.inserted) == (25, 4)
    assert table.overwrite(NOTHING, interval="chunks").n is None


def test_rows_that_match_a_condition_are_replaced(table: Table) -> None:
    """``where`` replaces matching rows; a new row that does not match is refused."""
    done = table.overwrite(rows(range(8)), where="row < 10")
    assert (done.deleted, done.inserted) == (10, 8)
    assert numbers(table) == [*range(8), *range(10, 40)]
    with pytest.raises(InvalidInput, match="4 of 12 rows"):
        table.overwrite(rows(range(12)), where="row < 8")


def test_no_rows_delete_the_interval(table: Table) -> None:
    """An overwrite by nothing is a delete; of nothing by nothing it is no event."""
    done = table.overwrite(NOTHING, interval=FIRST_HOUR)
    assert (done.deleted, done.inserted) == (20, 0)
    assert numbers(table) == odd_rows()
    assert table.overwrite(NOTHING, interval=FIRST_HOUR).n is None


def test_rows_outside_are_refused_before_anything_is_written(table: Table) -> None:
    """One row outside the interval refuses all, and leaves no file."""
    before = files(table)
    with pytest.raises(InvalidInput, match="5 of 10 rows"):
        table.overwrite(rows(range(10)), interval="1970-01-01/1970-01-01T01:00")
    assert (files(table), table.state().n) == (before, 4)


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({}, "0 of interval and where"),
        ({"interval": FIRST_HOUR, "where": "true"}, "2 of interval and where"),
        ({"where": " "}, "empty"),
        ({"interval": "day"}, "START/END"),
        ({"interval": "2013-01-01/2012-01-01"}, "empty"),
    ],
)
def test_what_to_overwrite_is_said_once(table: Table, asked: dict[str, object], word: str) -> None:
    """Neither, both, and what is no interval are refused."""
    with pytest.raises(InvalidInput, match=word):
        table.overwrite(NOTHING, **asked)  # type: ignore[arg-type]


def test_a_dry_run_counts(table: Table) -> None:
    """A dry run counts as the run would, and writes nothing."""
    before = files(table)
    done = table.overwrite(even(100), interval=FIRST_HOUR, dry_run=True)
    assert (done.n, done.matched, done.deleted, done.inserted) == (None, 20, 20, 5)
    assert (files(table), table.state().n) == (before, 4)


def test_rows_appended_meanwhile_survive(table: Table, other: Table) -> None:
    """An append that lands after the overwrite's snapshot keeps its rows."""
    during(table, even(100), lambda: other.append(even(200)))
    assert {100, 200} <= {*numbers(table)}
    assert len(numbers(table)) == 20 + 5 + 5


def test_of_two_overwrites_the_later_one_replaces_the_earlier_ones_rows(
    table: Table, other: Table
) -> None:
    """The one that lost looks again, and deletes what the winner wrote in its interval."""
    during(table, even(100), lambda: other.overwrite(even(200), interval=FIRST_HOUR))
    assert numbers(table) == sorted([*odd_rows(), 100, 102, 104, 106, 108])
    assert list(violations(table.state())) == []


def test_two_first_loads_of_a_day_do_not_double_it(service: MemoryService) -> None:
    """Two overwrites that find no row to delete notice each other all the same."""
    table = new_table(service)
    second = Table(replace(table.ports, author="second"))
    during(table, even(100), lambda: second.overwrite(even(200), interval=FIRST_HOUR))
    assert numbers(table) == [100, 102, 104, 106, 108]


def test_overwrites_of_other_times_do_not_wait(table: Table, other: Table) -> None:
    """Two overwrites of disjoint intervals are put one after another without looking again."""
    hour = rows(range(51, 60)).filter(pa.array([at % 2 == 1 for at in range(51, 60)]))
    during(table, even(100), lambda: other.overwrite(hour, interval=SECOND_HOUR))
    assert numbers(table) == [51, 53, 55, 57, 59, 100, 102, 104, 106, 108]


def test_deletes_and_updates_meanwhile_are_overwritten(table: Table, other: Table) -> None:
    """Rows that others deleted or updated in the interval meanwhile are gone; no change is lost."""
    during(table, even(100), lambda: other.delete("row IN (0, 1)"))
    assert numbers(table) == sorted([*odd_rows(2), 100, 102, 104, 106, 108])
    during(table, even(200), lambda: other.update({"name": "late"}, "row IN (100, 3)"))
    assert numbers(table) == sorted([*odd_rows(2), 200, 202, 204, 206, 208])


def test_the_log_and_its_checkpoint_remember_recent_overwrites(table: Table) -> None:
    """The event and the state have the interval; a checkpoint keeps it."""
    done = table.overwrite(even(100), interval=FIRST_HOUR)
    event = table.ports.log.event(done.n or 0)
    assert event is not None
    assert isinstance(event.action, RowsChanged)
    assert (event.action.kind, event.action.overwritten) == ("overwrite", (FIRST_HOUR,))
    state = table.state()
    assert state.overwritten == (Overwritten(5, (FIRST_HOUR,)),)
    head = decode_head(encode_head(state), state.timeline, state.ids)
    assert head.overwritten == state.overwritten


def test_a_condition_on_time_bounds_what_is_overwritten(table: Table) -> None:
    """So overwrites by conditions on other times do not look at each other."""
    hour = "at < timestamp '1970-01-01 01:00:00'"
    (bounds,) = _overwritten(table, table.overwrite(even(100), where=hour).n or 0)
    (anywhere,) = _overwritten(table, table.overwrite(rows(range(8)), where="row < 10").n or 0)
    assert bounds.overlaps(FIRST_HOUR)
    assert not bounds.overlaps(Interval(HOUR_US + 1, 2 * HOUR_US))
    assert anywhere == ALL_TIME


def _overwritten(table: Table, n: int) -> tuple[Interval, ...]:
    event = table.ports.log.event(n)
    assert event is not None
    assert isinstance(event.action, RowsChanged)
    return event.action.overwritten


def test_an_author_that_missed_too_many_overwrites_looks_again() -> None:
    """Beyond the recorded overwrites, any may have been a rival."""
    far = Interval(10 * HOUR_US, 11 * HOUR_US)
    recent = tuple(Overwritten(n, (far,)) for n in range(1, KEPT + 1))
    assert rival(recent, 1, (FIRST_HOUR,)) == 0
    assert rival(recent, 0, (FIRST_HOUR,)) == KEPT
    assert rival(recent, KEPT - 1, (far,)) == KEPT


def test_an_extent_is_read_from_text() -> None:
    """An interval in ISO 8601, or the word for chunks."""
    assert extent_of("1970-01-01T00:00Z/1970-01-01T01:00Z") == FIRST_HOUR
    assert extent_of("chunks") is Touched.CHUNKS


def test_a_statement_sees_one_time(table: Table, other: Table) -> None:
    """All that an overwrite tests has the time of its request, also when it looks again later."""
    clock = table.ports.clock
    assert isinstance(clock, FakeClock)
    where = "at between now() - interval 1 minute and current_timestamp"

    def at(row: int) -> pa.Table:
        given = [{"at": clock.now(), "row": row, "name": None, "price": None}]
        return pa.Table.from_pylist(given, SCHEMA)

    mine, theirs = at(101), at(102)

    def act() -> None:
        other.overwrite(theirs, where=where)
        clock.advance(3600)

    last = during(table, mine, act, extent=None, where=where)
    assert (last.matched, last.inserted) == (1, 1)
    assert numbers(table) == [*range(40), 101]
    table.update({"at": Sql("now()"), "name": Sql("string(current_date)")}, "row = 101")
    (row,) = table.scan(where="at = now() and name = string(curdate())").to_arrow().to_pylist()
    assert (row["row"], instant(row["at"])) == (101, clock.now())


def test_all_expressions_of_a_request_have_its_time(table: Table) -> None:
    """Conditions and new values in SQL; a text is a value, and a name may be a column's."""
    source = GivenRows(rows=None, columns=("at", "current_date"))
    on, new = Sql("target.at < now()"), {"at": Sql("now()"), "name": "now()", "row": Sql("1")}
    given = Merge(source=source, on=on, set={**new, "price": Sql("current_date")})
    made = at_one_time(table.ports, given, SCHEMA.names)
    now = "TIMESTAMP '2026-01-01 00:00:00+00:00'"
    assert made.on == Sql(f"target.at < {now}")
    assert made.set == {**new, "at": Sql(now), "price": Sql("current_date")}
    gone = at_one_time(table.ports, Delete(where="at < current_date"), SCHEMA.names)
    assert gone.where == "at < DATE '2026-01-01'"
