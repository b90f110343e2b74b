"""Indexes as tasks: scheduled, built in stretches, emitted once, by operators and the planner."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, FileList
from airflow_provider_segtable.core.indexes.index_state import KINDS, IndexState
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.plans_operator import completed_by, completions
from airflow_provider_segtable.operators.rendered import AssetEventOperator
from airflow_provider_segtable.operators.schedule_index import SegtableScheduleIndexOperator
from airflow_provider_segtable.table.index_lifecycle import ensure_index, request_index
from airflow_provider_segtable.table.table import Table
from tests.unit.table.toys.prefix_index import PrefixIndex

from .conftest import JANUARY, SCHEMA, Flights, InThisProcess, Rescheduled

RUN = {"dag_id": "d", "run_id": "run", "task_id": "t", "map_index": -1}


def scheduler(**overrides: Any) -> SegtableScheduleIndexOperator:
    arguments = {"table": "flights", "index": "by_row", "columns": ["row"], **overrides}
    return SegtableScheduleIndexOperator(task_id="t", **arguments)


def builder(**overrides: Any) -> SegtableIndexOperator:
    return SegtableIndexOperator(task_id="t", **{"table": "flights", "wait_s": 0.0, **overrides})


def run(task: AssetEventOperator, tries: int = 1) -> tuple[Any, list[Mapping[str, Any]]]:
    """Execute a task; return its result, and the ``extra`` of what it would send to Airflow."""
    outlets = OutletEventAccessors()
    ti = SimpleNamespace(**RUN, try_number=tries)
    told = task.execute({"ti": ti, "outlet_events": outlets})  # type: ignore[typeddict-item]
    (alias,) = task.outlets
    return told, [each.extra for each in outlets[alias].asset_alias_events]


def index_of(flights: Flights, name: str = "by_row") -> IndexState:
    return flights.table.index(name)


def test_an_index_is_requested_and_planned_once(flights: Flights) -> None:
    """A second run finds both, and writes and emits nothing; so does one after the build."""
    told, (extra,) = run(scheduler())
    assert told["requested"] is True
    assert (told["index"], told["event"], told["available"]) == ("by_row", 17, None)
    assert (extra["kind"], extra["events"], extra["plans"]) == ("plan", [17, 18], [told["plan"]])
    assert run(scheduler()) == ({**told, "requested": False}, [])
    assert flights.table.state().n == 18
    run(builder(index="by_row"))
    n = flights.table.state().n
    told, emitted = run(scheduler(columns='["row"]'))
    assert (told["available"] is not None, told["plan"], emitted) == (True, None, [])
    assert flights.table.state().n == n


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"kind": "bloom_filter"}, r"is column_stats\(row\), not bloom_filter\(row, rate=0.01\)"),
        ({"columns": ["row", "time_hour"]}, r"not column_stats\(row, time_hour\)"),
        ({"columns": ["wor"]}, "no column 'wor' to index"),
        ({"kind": "btree"}, "kind 'btree' is unknown"),
        ({"rate": 0.5}, "has no rate"),
        ({"index": "a/b"}, "cannot name an index"),
        ({"columns": "row"}, "is not a JSON list of column names"),
    ],
)
def test_another_index_or_a_wrong_one_fails_at_once(
    flights: Flights, overrides: dict[str, Any], said: str
) -> None:
    """The message says what is there, and what was asked for; nothing is written."""
    run(scheduler())
    n = flights.table.state().n
    with pytest.raises(AirflowFailException, match=said):
        run(scheduler(**overrides))
    assert flights.table.state().n == n


def test_settings_are_those_that_the_kind_declares(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a kind that the operator has no argument for; as values, or as JSON text."""
    monkeypatch.setitem(KINDS, PrefixIndex.name, PrefixIndex)
    flights.table.alter(columns=[AddColumn(name="name", type="string")])
    wish = {"kind": "prefixes", "index": "begins", "columns": ["name"]}
    told, _ = run(scheduler(**wish, settings={"width": 3}))
    assert told["requested"] is True
    kind = index_of(flights, "begins").definition.kind
    assert kind == PrefixIndex(columns=kind.columns, width=3)
    assert run(scheduler(**wish, settings='{"width": "3"}'))[0]["requested"] is False
    for overrides in ({"rate": 0.05}, {"settings": {"rate": 0.05}}):
        run(scheduler(kind="bloom_filter", **overrides))
    kind = index_of(flights).definition.kind
    assert kind == BloomFilter(columns=kind.columns, rate=0.05)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"settings": {"width": 3}}, "column_stats has no width: leave it out"),
        ({"settings": "width=3"}, r"settings = 'width=3' is not a JSON object: write e.g. {\"rate"),
        ({"settings": {"rate": 0.1}, "rate": 0.1}, "both give the rate: leave out one"),
        ({"kind": "bloom_filter", "settings": {"rate": "x"}}, "rate 'x' is not a number"),
    ],
)
@pytest.mark.usefixtures("flights")
def test_settings_that_do_not_fit_fail_at_once(overrides: dict[str, Any], said: str) -> None:
    """The message shows the value, and the way out."""
    with pytest.raises(AirflowFailException, match=said):
        run(scheduler(**overrides))


def test_of_two_tasks_that_request_an_index_at_once_one_does(flights: Flights) -> None:
    """The other one finds it there, though it had not seen it when it began."""
    ports = flights.table.ports
    assert ensure_index(ports, "files", FileList()) is True
    assert ensure_index(ports, "files", FileList()) is False


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_index_is_built_and_emitted_once(flights: Flights, engine: str) -> None:
    """In the task or by the application; a run that finds nothing lacking emits nothing."""
    request_index(flights.table.ports, "files", FileList())
    launcher = InThisProcess()
    told, (extra,) = run(builder(index="files", engine=engine, launcher=launcher))
    assert (told["completed"], told["files"]) == (1, 16)
    assert len(launcher.launched) == (engine == "spark")
    index = index_of(flights, "files")
    assert index.available_n is not None
    assert index.current
    (plan_id,) = (each["plan_id"] for each in told["plans"])
    named = {name: extra[name] for name in ("kind", "files", "plans", "rows")}
    assert named == {"kind": "index", "files": 16, "plans": [plan_id], "rows": 0}
    assert extra["event"] == flights.table.state().n
    n = flights.table.state().n
    assert run(builder(index="files"))[1] == []
    assert run(builder(plans=[plan_id]))[1] == []
    assert flights.table.state().n == n


def test_without_a_name_every_index_is_built(flights: Flights) -> None:
    """One run, one plan an index, one asset event."""
    for name in ("a", "b"):
        request_index(flights.table.ports, name, FileList())
    told, (extra,) = run(builder())
    assert (told["completed"], told["files"], len(extra["plans"])) == (2, 32, 2)
    assert index_of(flights, "a").current
    assert index_of(flights, "b").current
    assert run(builder())[0]["plans"] == []


@pytest.fixture
def hours(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Give a table of three hours, of which a piece of a build has one."""
    import pyarrow as pa

    table = Table.create(
        str(flights.root / "hours"),
        schema=SCHEMA,
        time_column="time_hour",
        granularity="hour",
        zookeeper=flights.zookeeper,
    )
    times = [JANUARY + timedelta(hours=hour) for hour in range(3)]
    table.append(pa.table([times, range(3)], schema=SCHEMA))
    request_index(table.ports, "files", FileList())
    monkeypatch.setattr("airflow_provider_segtable.core.catch_up.next_piece.__defaults__", (1,))
    return table


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_pause_is_no_failure_and_the_task_comes_back(hours: Table, engine: str) -> None:
    """Each stretch builds a piece and is rescheduled; the last one ends, and emits."""
    arguments: dict[str, Any] = {"engine": engine, "table": "hours", "index": "files"}
    launcher = InThisProcess()
    task = builder(**arguments, launcher=launcher, timeout=timedelta(0))
    for left in (2, 1):
        with pytest.raises(Rescheduled):
            run(task)
        (lack,) = hours.index("files").lacks
        start = hours.state().timeline.visible_chunks()[0].interval.start
        assert lack.interval == Interval(start + (3 - left) * HOUR_US, start + 3 * HOUR_US)
    told, (extra,) = run(task)
    assert (told["completed"], told["files"], extra["kind"]) == (1, 1, "index")
    assert hours.index("files").current
    assert len({event.plan_id for event in _inflight(hours)}) == 1


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_plan_that_ends_in_a_stretch_before_a_pause_is_known_by_its_task(
    hours: Table, engine: str
) -> None:
    """Airflow records no asset event of a task that comes back, so its last stretch emits all."""
    request_index(hours.ports, "other", FileList())
    pausing = {"engine": engine, "table": "hours", "timeout": timedelta(0)}
    for _ in range(2):
        with pytest.raises(Rescheduled):
            run(builder(**pausing, index="other", launcher=InThisProcess()))
    with pytest.raises(Rescheduled):
        run(builder(**pausing, launcher=InThisProcess()))
    (done,) = (known for known in hours.state().plans.values() if known.completed)
    assert done.plan.facts()["index"] == "other"
    found = completed_by(hours.state(), "d/run/t")
    assert completions(hours.state(), found) == [done.last_n]


def _inflight(table: Table) -> list[Any]:
    events = (event.action for event in table.ports.log.events(1))
    return [action for action in events if type(action).__name__ == "PlanInflight"]


@pytest.mark.usefixtures("flights")
def test_a_plan_that_is_not_there_fails_the_task() -> None:
    """With its id; a retry asks again."""
    with pytest.raises(AirflowException, match="no plan index-nothing"):
        run(builder(plans=["index-nothing"]))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"index": "other"}, "no index 'other': its indexes are none"),
        ({"index": "files", "plans": ["index-1"]}, "exclude each other: leave out one"),
        ({"engine": "cluster"}, "engine = 'cluster' is unknown"),
    ],
)
@pytest.mark.usefixtures("flights")
def test_wrong_arguments_fail_at_once(overrides: dict[str, Any], said: str) -> None:
    """Before anything is written."""
    with pytest.raises(AirflowFailException, match=said):
        run(builder(**overrides))


def test_the_planner_emits_a_run_for_each_index_of_the_policy(flights: Flights) -> None:
    """It requests the index, and its run builds what is there, as compactions are run."""
    flights.table.alter(set={"index.by_row": "column_stats(row)", "compaction.min_segments": "99"})
    ids = {"minor": "m", "index": "segtable_index__flights"}
    task = SegtablePlanOperator(task_id="t", table="flights", trigger_dag_ids=ids)
    runs, _ = run(task)
    (emitted,) = (each for each in runs if each["trigger_dag_id"] == ids["index"])
    assert emitted["trigger_run_id"].startswith("index__flights__")
    (plan_id,) = emitted["conf"]["plans"]
    told, _ = run(builder(plans=emitted["conf"]["plans"]))
    assert [each["plan_id"] for each in told["plans"]] == [plan_id]
    assert index_of(flights).available_n is not None
    none = SegtablePlanOperator(task_id="t", table="flights", trigger_dag_ids={"minor": "m"})
    assert {each["trigger_dag_id"] for each in run(none)[0]} <= {"m"}
