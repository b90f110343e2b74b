"""Waiting for compaction: all modes agree, and nothing raises in the triggerer."""

import asyncio
import json
import time
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.triggers import watch
from airflow_provider_segtable.triggers.table import SmallSegments

from .conftest import CONNECTION, Flights, Rescheduled

YEAR = "2013-01-01/2014-01-01"
LONG_S = 600.0


def sensor(**overrides: Any) -> SegtableSmallSegmentsSensor:
    arguments = {"table": "flights", "interval": YEAR, "at_most": 1, **overrides}
    return SegtableSmallSegmentsSensor(task_id="wait", **arguments)


def trigger(**overrides: Any) -> watch.TableTrigger:
    own = {"segtable_conn_id": "segtable_default", "poll_interval": LONG_S}
    own |= {name: overrides.pop(name) for name in own if name in overrides}
    fields = {"table": "flights", "interval": YEAR, "at_most": 1, **overrides}
    return watch.TableTrigger(SmallSegments(**fields), **own)


def event_of(waiting: watch.TableTrigger) -> dict[str, Any]:
    async def first() -> Any:
        return (await anext(aiter(waiting.run()))).payload

    return dict(asyncio.run(first()))


def run_compaction(flights: Flights) -> None:
    ports = flights.table.ports
    compact(ports, [launch.plan_id for launch in plan_table(ports).launches], in_process())


@pytest.mark.usefixtures("flights")
def test_every_mode_waits_while_there_are_small_segments() -> None:
    """Poke says no, reschedule asks for another time, deferrable defers."""
    assert sensor().poke({}) is False
    assert sensor(at_most=15).poke({}) is False
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True, poke_interval=7, timeout=60).execute({})
    assert isinstance(deferred.value.trigger, watch.TableTrigger)
    asked = SmallSegments(table="flights", interval=YEAR, at_most=1)
    assert deferred.value.trigger.question == asked
    assert deferred.value.trigger.poll_interval == 7
    assert deferred.value.method_name == "execute_complete"


@pytest.mark.parametrize("at_most", [1, 16])
@pytest.mark.usefixtures("flights")
def test_a_trigger_does_not_fire_before_its_task_is_heard_of(
    at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers and errors are held back until the scheduler knows that the first process ended."""
    monkeypatch.setattr(watch, "HEARD_S", 0.3)
    table = "flights" if at_most == 16 else "nowhere"
    start = time.monotonic()
    told = event_of(trigger(at_most=at_most, table=table))
    assert time.monotonic() - start >= 0.3
    assert told["status"] == ("success" if at_most == 16 else "error")


@pytest.mark.usefixtures("flights")
def test_reschedule_mode_frees_its_worker() -> None:
    """It comes back later instead of sleeping."""

    class Task:
        def get_first_reschedule_date(self, _: object) -> None:
            return None

    with pytest.raises(Rescheduled):
        sensor(mode="reschedule").execute({"ti": Task()})


def test_every_mode_goes_on_after_compaction(flights: Flights) -> None:
    """The same table satisfies all of them; nothing is deferred that need not be."""
    run_compaction(flights)
    assert sensor().poke({}) is True
    assert sensor(deferrable=True).execute({}) is None
    assert event_of(trigger())["status"] == "success"


def test_by_default_the_policy_says_how_many_small_segments_may_stay(flights: Flights) -> None:
    """Sixteen are to be compacted, and with twelve the next plan is due: eleven may stay."""
    assert sensor(at_most=None).poke({}) is False
    run_compaction(flights)
    flights.append(10)
    assert sensor(at_most=None).poke({}) is True
    assert event_of(trigger(at_most=None))["status"] == "success"
    flights.append(1)
    assert sensor(at_most=None).poke({}) is False


@pytest.mark.usefixtures("flights")
def test_an_interval_without_segments_is_compact() -> None:
    """Only what the interval touches counts."""
    assert sensor(interval="2012-01-01/2013-01-01").poke({}) is True
    assert sensor(interval=None, at_most=16).poke({}) is True


def test_the_trigger_is_woken_by_the_event_it_waits_for(flights: Flights) -> None:
    """Long before its next look, because the commit was announced."""

    async def wait() -> Any:
        waiting = asyncio.ensure_future(anext(aiter(trigger().run())))
        await asyncio.to_thread(run_compaction, flights)
        return (await asyncio.wait_for(waiting, 60)).payload

    told = asyncio.run(wait())
    assert told["status"] == "success"
    assert told["version"] == flights.table.state().n


def test_the_trigger_looks_by_itself_without_a_coordinator(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection without ZooKeeper can wait too."""
    alone = json.dumps({"conn_type": "segtable", "host": str(flights.root)})
    monkeypatch.setenv(CONNECTION, alone)

    async def wait() -> Any:
        waiting = asyncio.ensure_future(anext(aiter(trigger(poll_interval=0.05).run())))
        await asyncio.to_thread(run_compaction, flights)
        return (await asyncio.wait_for(waiting, 60)).payload

    assert asyncio.run(wait())["status"] == "success"


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"table": "nowhere"}, "NotATable"),
        ({"interval": "yesterday"}, "InvalidInput"),
        ({"segtable_conn_id": "missing"}, "missing"),
    ],
)
@pytest.mark.usefixtures("flights")
def test_the_trigger_tells_errors_and_raises_none(overrides: dict[str, Any], wanted: str) -> None:
    """An event with the error's name and message; the task then fails with it."""
    told = event_of(trigger(**overrides))
    assert told["status"] == "error"
    assert wanted in told["message"]
    with pytest.raises(AirflowException, match=wanted):
        sensor().execute_complete({}, told)


def test_the_task_goes_on_after_a_good_event() -> None:
    """And fails if there was none."""
    sensor().execute_complete({}, {"status": "success", "message": "well"})
    with pytest.raises(AirflowException, match="without an event"):
        sensor().execute_complete({}, None)


def test_a_trigger_survives_serialization() -> None:
    """What the triggerer makes of it is the same trigger."""
    path, arguments = trigger(at_most=3).serialize()
    assert path == "airflow_provider_segtable.triggers.watch.TableTrigger"
    assert arguments["question"] == "airflow_provider_segtable.triggers.table.SmallSegments"
    assert watch.TableTrigger(**arguments).serialize() == (path, arguments)
    assert json.loads(json.dumps(arguments)) == arguments
