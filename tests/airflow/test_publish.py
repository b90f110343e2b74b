"""Publishing as a task, in the planner's run, and the sensor that waits for it."""

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from deltalake import DeltaTable, write_deltalake

from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.sensors.published import SegtablePublishedSensor
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.triggers.published import PublishedThrough
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import Flights


def publisher(**overrides: Any) -> SegtablePublishOperator:
    return SegtablePublishOperator(task_id="publish", **{"table": "flights", **overrides})


def sensor(**overrides: Any) -> SegtablePublishedSensor:
    return SegtablePublishedSensor(task_id="shown", **{"table": "flights", **overrides})


def shown(flights: Flights) -> int:
    """Return the number of rows that another reader sees."""
    return int(DeltaTable(flights.table.published()["delta"].address).to_pyarrow_table().num_rows)


def test_a_task_publishes_and_a_retry_finds_it_done(flights: Flights) -> None:
    """Its result says which event is shown, and where; the second try puts nothing."""
    done = publisher(formats=[*FORMATS]).execute({})
    assert done["event"] == flights.table.state().n
    assert [each["new"] for each in done["formats"].values()] == [True] * len(FORMATS)
    assert done["formats"]["delta"]["address"].endswith("/flights")
    again = publisher(formats=[*FORMATS]).execute({})
    assert [each["new"] for each in again["formats"].values()] == [False] * len(FORMATS)
    assert shown(flights) == len(flights.rows())


@pytest.mark.parametrize(
    ("overrides", "said"),
    [({}, "published in no format"), ({"formats": "hudi"}, "hudi"), ({"table": "no"}, "no")],
)
@pytest.mark.usefixtures("flights")
def test_what_no_retry_can_mend_fails_at_once(overrides: dict[str, Any], said: str) -> None:
    """No format is on, there is no such one, or no such table."""
    with pytest.raises(AirflowFailException, match=said):
        publisher(**overrides).execute({})


def test_a_format_that_cannot_show_the_table_fails_at_once(flights: Flights) -> None:
    """A retry would meet the same; the reason names the column."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.uint64())])
    Table.create(str(flights.root / "odd"), schema=schema, time_column="at")
    with pytest.raises(AirflowFailException, match=r"cannot be published as delta: .*\bn\b"):
        publisher(table="odd", formats="delta").execute({})


def test_the_planner_publishes_what_its_writers_do_not(flights: Flights) -> None:
    """With ``publish.on_commit=off`` an append is not shown before the planner's next run."""
    flights.table.alter(set={"publish.delta": "on", "publish.on_commit": "off"})
    plan = SegtablePlanOperator(task_id="plan", table="flights", trigger_dag_ids={"minor": "m"})
    plan.execute({})
    before = shown(flights)
    flights.append(1)
    assert (shown(flights), len(flights.rows())) == (before, before + 50)
    plan.execute({})
    assert shown(flights) == before + 50


def test_the_planner_plans_although_nothing_can_be_published(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another tool's table in the way is a warning; its message has the way out."""
    flights.table.alter(set={"publish.delta": "on", "publish.on_commit": "off"})
    write_deltalake(flights.root / "flights", pa.table({"x": [1]}))
    plan = SegtablePlanOperator(task_id="plan", table="flights", trigger_dag_ids={"minor": "m"})
    assert plan.execute({})
    assert "not published as delta: ForeignTable" in capsys.readouterr().out


def test_every_mode_waits_until_the_first_look_is_shown(flights: Flights) -> None:
    """Poke says no, deferrable defers; after publishing all go on, later commits or not."""
    flights.table.alter(set={"publish.delta": "on", "publish.on_commit": "off"})
    waiting = sensor()
    assert waiting.poke({}) is False
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True, poke_interval=7).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, TableTrigger)
    assert isinstance(trigger.question, PublishedThrough)
    assert trigger.poll_interval == 7
    path, arguments = trigger.serialize()
    assert path == "airflow_provider_segtable.triggers.watch.TableTrigger"
    assert arguments["question"].endswith("triggers.published.PublishedThrough")
    publisher().execute({})
    flights.append(1)
    assert waiting.poke({}) is True
    assert sensor().poke({}) is False
    assert sensor(at_most_seconds=600).poke({}) is True
    again = TableTrigger(**arguments)
    assert again.serialize() == (path, arguments)

    async def first() -> Any:
        return (await anext(aiter(again.run()))).payload

    told = asyncio.run(first())
    assert (told["status"], told["events"]["delta"]) == ("success", flights.table.state().n - 1)


def test_a_goal_may_be_a_version(flights: Flights) -> None:
    """What a load returned is waited for, and nothing after it."""
    publisher(formats="delta").execute({})
    version = flights.table.state().n
    flights.append(1)
    assert sensor(formats="delta", version=str(version)).poke({}) is True
    assert sensor(formats="delta", version=version + 1).poke({}) is False
    with pytest.raises(AirflowFailException, match="not a version of the table"):
        sensor(formats="delta", version=version + 2).poke({})


@pytest.mark.usefixtures("flights")
def test_waiting_for_a_format_that_is_off_is_of_no_use() -> None:
    """The task fails at once, and says so; so does one for a format that there is not."""
    with pytest.raises(AirflowFailException, match="no format is switched on"):
        sensor().poke({})
    with pytest.raises(AirflowFailException, match="choose among"):
        sensor(formats="hudi").poke({})
