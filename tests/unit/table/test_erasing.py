"""Deletes from rollup tables: by condition over dimensions and steps of time, and nothing else."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.predicate import AllOf, Compare, Compares, Day
from airflow_provider_segtable.core.tables.rollup_kind import (
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.core.time import HOUR_US, Granularity, parse_instant
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.table.conftest import new_table
from tests.unit.table.test_change_outcomes import Unread

GIVEN = pa.schema([("at", pa.timestamp("us", "UTC")), ("carrier", pa.string()), ("n", pa.int64())])
JANUARY = parse_instant("2013-01-01")


def rolling(service: MemoryService, steps: QueryGranularity) -> Table:
    """Return a table of sums by carrier and step, empty."""
    made = new_table(service).ports
    storage = MemoryStorage(clock=made.clock)
    ports = replace(made, storage=storage, files=MemoryFiles())
    metrics = (
        Metric(name="total", kind=MetricKind.SUM, source="n"),
        Metric(name="rows", kind=MetricKind.COUNT),
    )
    rollup = Rollup(dimensions=("carrier",), metrics=metrics, query_granularity=steps)
    plain = replace(
        new_table(service).state().table,
        schema=from_arrow(GIVEN),
        granularity=Granularity.YEAR,
    )
    return create_table(ports, of_kind(plain, rollup))


@pytest.fixture
def table(service: MemoryService) -> Table:
    """Two appends of 48 hours each, carriers A, B and none in turn, by the hour."""
    made = rolling(service, QueryGranularity.HOUR)
    made.append(hours())
    made.append(hours())
    return made


def hours() -> pa.Table:
    given = [
        {"at": JANUARY + hour * HOUR_US + 7, "carrier": ("A", "B", None)[hour % 3], "n": hour}
        for hour in range(48)
    ]
    return pa.Table.from_pylist(given, GIVEN)


def seen(table: Table) -> list[tuple[int, str | None]]:
    """Return the hours and carriers that a rolled-up scan shows, sorted."""
    found = table.snapshot().rolled_up(columns=["at", "carrier"])
    hours_of = pc.divide(pc.subtract(found.column("at").cast(pa.int64()), JANUARY), HOUR_US)
    return sorted(zip(hours_of.to_pylist(), found.column("carrier").to_pylist(), strict=True))


def test_dimensions_and_steps_delete(table: Table) -> None:
    """Groups go by dimension and time, whatever was appended in how many parts."""
    done = table.delete("carrier = 'A' AND at < '2013-01-02'")
    assert (done.matched, done.deleted, done.inserted) == (16, None, 0)
    assert seen(table) == [
        (hour, ("A", "B", None)[hour % 3]) for hour in range(48) if hour % 3 or hour >= 24
    ]
    assert "16 rows matched, an unknown number deleted" in str(done)
    assert table.snapshot().count() == 80


def test_null_is_a_value_of_a_dimension(table: Table) -> None:
    """Groups without a carrier are named by IS NULL."""
    table.delete("carrier IS NULL")
    assert {carrier for _, carrier in seen(table)} == {"A", "B"}


def test_what_is_appended_later_stays(table: Table) -> None:
    """A delete is of what was there: equal groups that come later are shown."""
    table.delete("at >= '2013-01-01'")
    assert table.snapshot().count() == 0
    table.append(hours())
    assert len(seen(table)) == 48
    assert table.snapshot(version=2).count() == 96


def test_the_predicate_is_in_the_event(table: Table) -> None:
    """The log keeps the predicate itself, to be applied wherever the rows are."""
    done = table.delete("carrier IN ('A', NULL)")
    event = EventLog(table.ports.storage).event(done.n or 0)
    assert event is not None
    assert isinstance(event.action, RowsChanged)
    assert event.action.predicate is not None
    assert (event.action.vectors, event.action.matched) == ((), 32)


def test_nothing_found_is_no_event(table: Table) -> None:
    """A condition that no stored row meets leaves no event, also beyond the table's time."""
    assert table.delete("carrier = 'Z'").n is None
    assert table.delete("at > '2014-01-01' AND at < '2013-01-01'").n is None
    assert table.state().n == 2


def test_metrics_do_not_delete(table: Table) -> None:
    """A metric changes with each compaction, so it is refused, with what may be named."""
    with pytest.raises(InvalidInput, match=r"'total' is a metric.*\(at, carrier\)"):
        table.delete("carrier = 'A' OR NOT total > 5")


@pytest.mark.parametrize(
    ("steps", "at", "beside"),
    [
        ("hour", "2013-01-01T05:30:00", ("2013-01-01T05:00:00Z", "2013-01-01T06:00:00Z")),
        ("fifteen_minute", "2013-01-01T05:40:00", ("T05:30:00Z", "T05:45:00Z")),
        ("week", "2013-01-01", ("2012-12-31T00:00:00Z", "2013-01-07T00:00:00Z")),
        ("month", "2013-02-02", ("2013-02-01T00:00:00Z", "2013-03-01T00:00:00Z")),
    ],
)
@pytest.mark.parametrize(
    "where", ["at < '{}'", "NOT (at = '{}')", "carrier = 'A' OR at IN ('{}')", "at >= '{}'"]
)
def test_times_within_a_step_are_refused(
    service: MemoryService, steps: str, at: str, beside: tuple[str, str], where: str
) -> None:
    """A time that is no start of a step is refused, with the steps before and after it."""
    table = rolling(service, QueryGranularity(steps))
    with pytest.raises(InvalidInput, match="lies within a step") as refused:
        table.delete(where.format(at))
    assert all(step in str(refused.value) for step in beside)


@pytest.mark.parametrize(
    ("steps", "at"),
    [("none", "2013-01-01T05:30:00.000001"), ("week", "2012-12-31"), ("year", "2013-01-01")],
)
def test_steps_of_every_kind_are_accepted(service: MemoryService, steps: str, at: str) -> None:
    """The start of a step is accepted, and with no granularity every microsecond is one."""
    table = rolling(service, QueryGranularity(steps))
    assert table.delete(f"at < '{at}'").matched == 0


def test_only_conditions_in_sql_delete(table: Table) -> None:
    """Rows, addresses, expressions, updates and merges are refused, with the reason."""
    for delete in (
        {"where": pc.field("carrier") == "A"},
        {"rows": hours()},
        {"addresses": hours()},
    ):
        with pytest.raises(InvalidInput, match="rollup table"):
            table.delete(**delete)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cannot be updated"):
        table.update({"carrier": "B"}, "carrier = 'A'")
    with pytest.raises(InvalidInput, match="cannot be merged"):
        table.merge(hours(), on=["carrier"])
    assert table.state().n == 2


def test_a_day_of_a_rollup_table_is_loaded_again(table: Table) -> None:
    """An overwrite's predicate spares its own rows; a step that it would split is refused."""
    day, again = "2013-01-02/2013-01-03", hours().slice(24)
    for commit_id in ("monday", "tuesday", "tuesday"):
        done = table.overwrite(again, interval=day, commit_id=commit_id)
    assert (done.n, done.deleted) == (4, None)
    found = table.snapshot().rolled_up(columns=["at", "rows"]).sort_by("at")
    assert found.column("rows").to_pylist() == [2] * 24 + [1] * 24
    assert list(violations(table.state())) == []
    with pytest.raises(InvalidInput, match="within a step of the query granularity 'hour'"):
        table.overwrite(again, interval="2013-01-01T00:30/2013-01-03")
    table.overwrite(again.slice(0, 0), interval=day)
    assert len(seen(table)) == 24


def test_groups_of_a_condition_are_loaded_again(table: Table) -> None:
    """Rows of one carrier are replaced; a condition that is no SQL cannot be recorded."""
    again = hours().filter(pc.field("carrier") == "A")
    done = table.overwrite(again.slice(0, 2), where="carrier = 'A'")
    assert (done.matched, done.deleted, done.inserted) == (32, None, 2)
    found = table.snapshot().rolled_up(columns=["carrier", "rows"]).to_pylist()
    assert sum(row["rows"] for row in found if row["carrier"] == "A") == 2
    assert sum(row["rows"] for row in found) == 64 + 2
    with pytest.raises(InvalidInput, match="records deletes as conditions in SQL"):
        table.overwrite(again, where=pc.field("carrier") == "A")
    assert table.state().n == 3


def test_how_many_groups_went_is_unknown_also_if_the_event_cannot_be_read(table: Table) -> None:
    """A condition deletes whatever matches at its event, so no number is made up."""
    storage = Unread(table.ports.storage, 3)
    act = Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]
    done = act.delete("carrier = 'A'")
    assert storage.made
    assert (done.n, done.matched, done.deleted) == (3, 32, None)


def test_an_overwrite_of_nothing_by_nothing_is_no_event(table: Table) -> None:
    """Neither rows to replace nor rows to write."""
    assert table.overwrite(hours().slice(0, 0), interval="2014-01-01/2014-01-02").n is None
    assert table.state().n == 2


def test_days_of_a_table_of_dates_are_loaded_again(service: MemoryService) -> None:
    """The recorded condition has dates, as the column."""
    dates = pa.schema([("at", pa.date32()), ("carrier", pa.string())])
    made = new_table(service)
    plain = replace(made.state().table, schema=from_arrow(dates), granularity=Granularity.YEAR)
    count = (Metric(name="rows", kind=MetricKind.COUNT),)
    steps = QueryGranularity.DAY
    daily = Rollup(dimensions=("carrier",), metrics=count, query_granularity=steps)
    storage = MemoryStorage(clock=made.ports.clock)
    ports = replace(made.ports, storage=storage, files=MemoryFiles())
    table = create_table(ports, of_kind(plain, daily))
    days = pa.array([15706, 15707, 15708], pa.int32()).cast(pa.date32())
    given = pa.table({"at": days, "carrier": ["A"] * 3})
    table.append(given)
    done = table.overwrite(given.slice(1, 1), interval="2013-01-02/2013-01-03")
    action = EventLog(table.ports.storage).event(done.n or 0)
    assert action is not None
    assert isinstance(action.action, RowsChanged)
    assert action.action.predicate == AllOf(
        (Compare("at", Compares.AT_LEAST, Day(15707)), Compare("at", Compares.LESS, Day(15708)))
    )
    found = table.snapshot().rolled_up(columns=["at", "rows"]).sort_by("at")
    assert found.column("rows").to_pylist() == [1, 1, 1]
