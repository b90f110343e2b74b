"""Waiting for an objective: all modes agree, and say what is missed and until when."""

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_provider_segtable.sensors.objective import SegtableObjectiveSensor
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.triggers.objective import MeetsObjective
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import Flights, Rescheduled

FILE = """\
[groups.all]
tables = ["*"]
objective = {files_read = 4, deleted = 0.1}
"""


class FirstLook:
    """The task instance of a rescheduled sensor that looks for the first time."""

    def get_first_reschedule_date(self, _: object) -> None:
        """Return no time."""


def sensor(**overrides: Any) -> SegtableObjectiveSensor:
    """Return the sensor's task."""
    arguments = {"table": "flights", "objective": {"files_read": 4}, **overrides}
    return SegtableObjectiveSensor(task_id="wait", **arguments)


def run_compaction(flights: Flights) -> None:
    """Compact the table."""
    ports = flights.table.ports
    compact(ports, [launch.plan_id for launch in plan_table(ports).launches], in_process())


def trigger_of(task: SegtableObjectiveSensor) -> TableTrigger:
    """Return the trigger of a deferred task, as the triggerer rebuilds it."""
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    _, stored = deferred.value.trigger.serialize()
    return TableTrigger(**stored)


async def first(waiting: TableTrigger) -> dict[str, Any]:
    """Return a trigger's event."""
    return dict((await anext(aiter(waiting.run()))).payload)


def test_every_mode_waits_for_the_objective(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """One question; what is missed is said with numbers, and what is known of its end."""
    assert sensor().poke({}) is False
    logged = capsys.readouterr().out
    assert "files_read is 16, of 4; expected to be met at 20" in logged
    assert "at the earliest: 1 plan to begin now" in logged
    with pytest.raises(Rescheduled):
        sensor(mode="reschedule").execute({"ti": FirstLook()})
    waiting = trigger_of(sensor(deferrable=True))
    assert isinstance(waiting.question, MeetsObjective)
    run_compaction(flights)
    told_by_trigger = asyncio.run(first(waiting))
    assert told_by_trigger["status"] == "success"
    assert told_by_trigger["version"] == flights.table.state().n
    task = sensor()
    assert task.poke({}) is True
    assert task.execute_complete({}, told_by_trigger) is None


def test_the_fleet_file_has_the_objective(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given aims win over its own; its freezes and windows say how long it takes."""
    file = flights.root / "fleet.toml"
    file.write_text(FILE + "freeze = true\n")
    waiting = trigger_of(sensor(objective=None, fleet=str(file), deferrable=True))
    assert waiting.question.fields()["aims"] == {"files_read": 4, "deleted": 0.1}
    file.unlink()  # the triggerer needs none
    assert sensor(fleet=None).poke({}) is False
    answer = waiting.question.answer(flights.table.ports, flights.table.state())
    assert "waits (frozen): flights is frozen until the file says otherwise" in answer.message
    file.write_text(FILE)
    assert sensor(objective='{"files_read": 16}', fleet=str(file)).poke({}) is True
    assert "it meets its objective" in capsys.readouterr().out


def test_an_aim_that_cannot_be_judged_is_not_met(flights: Flights) -> None:
    """Nothing is published: that is no lag of nothing."""
    ports, state = flights.table.ports, flights.table.state()
    asked = sensor(objective={"publish_lag": "5m"}).question({}, ports, state)
    answer = asked.answer(ports, state)
    assert answer.event is None
    assert answer.message.startswith("publish_lag is unknown: no format is switched on")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"objective": None}, "has no aim: give one"),
        ({"objective": {"files_reads": 3}}, "'files_reads' is not an aim: did you mean"),
        ({"objective": {"files_read": 0}}, "files_read: 0 is too low"),
        ({"objective": "[3]"}, "is not a mapping of aims"),
        ({"fleet": "nowhere.toml"}, "there is no fleet file nowhere.toml"),
    ],
)
@pytest.mark.usefixtures("flights")
def test_a_malformed_objective_fails_at_once(given: dict[str, Any], why: str) -> None:
    """A retry would meet the same."""
    with pytest.raises(AirflowFailException, match=why):
        sensor(**given).poke({})


def test_a_table_outside_of_the_fleet_is_refused(flights: Flights) -> None:
    """By its name in the fleet, also if it was named by its URI."""
    file = flights.root / "fleet.toml"
    file.write_text(FILE.replace('"*"', '"other/*"'))
    with pytest.raises(AirflowFailException, match="table flights is not in the fleet"):
        sensor(fleet=str(file), table=str(flights.root / "flights")).poke({})
