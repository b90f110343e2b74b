"""Waiting for an index: all modes agree, and an index that is gone ends the wait at once."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    TaskDeferred,
)
from airflow.sdk import Asset
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.sensors.index_available import SegtableIndexAvailableSensor
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor
from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.table.index_lifecycle import drop_index, rebuild_index, request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.triggers.index import CaughtUp
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import CONNECTION, Flights, Rescheduled, build_index

OF_INDEX: dict[str, Any] = {"task_id": "wait", "table": "flights", "index": "files"}


@pytest.fixture
def building(flights: Flights) -> Flights:
    """Give a table with an index that lacks everything."""
    request_index(flights.table.ports, "files", FileList())
    return flights


@pytest.fixture
def lagging(building: Flights, monkeypatch: pytest.MonkeyPatch) -> Flights:
    """Give a table with an index that lacks the newest event alone."""
    build_index(building.table)
    with monkeypatch.context() as patch:
        patch.setattr(feeding, "MOST_WAITING", 0)
        building.append(1)
    return building


def caught_up(**overrides: Any) -> SegtableIndexCatchupSensor:
    return SegtableIndexCatchupSensor(**{**OF_INDEX, **overrides})


def available(**overrides: Any) -> SegtableIndexAvailableSensor:
    return SegtableIndexAvailableSensor(**{**OF_INDEX, **overrides})


def deferred(sensor: SegtableTableSensor, context: Any = None) -> TableTrigger:
    """Return the trigger of a wait as the triggerer has it: made anew from plain values."""
    with pytest.raises(TaskDeferred) as raised:
        sensor.execute(context or {})
    assert raised.value.method_name == "execute_complete"
    path, arguments = raised.value.trigger.serialize()
    assert path == "airflow_provider_segtable.triggers.watch.TableTrigger"
    trigger = TableTrigger(**json.loads(json.dumps(arguments)))
    assert isinstance(trigger.question, CaughtUp)
    return trigger


def event_of(trigger: TableTrigger) -> dict[str, Any]:
    async def first() -> Any:
        return (await asyncio.wait_for(anext(aiter(trigger.run())), 60)).payload

    return dict(asyncio.run(first()))


@pytest.mark.usefixtures("building")
@pytest.mark.parametrize("make", [caught_up, available])
def test_every_mode_waits_for_an_index_that_is_being_built(make: Any) -> None:
    """Poke says no, reschedule comes back, deferrable defers; its storage is read seldom."""
    assert make().poke({}) is False
    rescheduled = SimpleNamespace(get_first_reschedule_date=lambda _: None)
    with pytest.raises(Rescheduled):
        make(mode="reschedule").execute({"ti": rescheduled})
    assert deferred(make(deferrable=True, poke_interval=1)).poll_interval == 30
    assert deferred(make(deferrable=True, poke_interval=90)).poll_interval == 90


def test_every_mode_goes_on_when_the_index_is_available(building: Flights) -> None:
    """A wait that began before is woken by the event; one that begins later does not begin."""
    waiting = [deferred(make(deferrable=True)) for make in (caught_up, available)]
    done = build_index(building.table)
    for trigger, make in zip(waiting, (caught_up, available), strict=True):
        told = event_of(trigger)
        assert (told["status"], told["version"]) == ("success", done)
        make().execute_complete({}, told)
        assert make().poke({}) is True
        assert make(deferrable=True).execute({}) is None


def test_the_trigger_is_woken_by_the_build(building: Flights) -> None:
    """Long before its next look, because the commit was announced."""

    async def wait() -> Any:
        trigger = deferred(caught_up(deferrable=True, poke_interval=600))
        waiting = asyncio.ensure_future(anext(aiter(trigger.run())))
        await asyncio.to_thread(build_index, building.table)
        return (await asyncio.wait_for(waiting, 60)).payload

    assert asyncio.run(wait())["status"] == "success"


def test_an_available_index_that_lags_is_waited_for_by_its_goal(
    lagging: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest event is lacking, those before are not; the log has the lag and the reason."""
    state = lagging.table.state()
    before, newest = lagging.table.ports.log.event(state.n - 1), state.n
    assert before is not None
    assert available().poke({}) is True
    for reached in (before.n, str(before.n), iso(before.time), "2013-01-01"):
        assert caught_up(upto=reached).poke({}) is True, reached
    at = datetime.fromtimestamp(state.time / 1e6, UTC) + timedelta(milliseconds=1)
    for missed in (newest, "", None, at, at.replace(tzinfo=None).isoformat(), newest + 5):
        assert caught_up(upto=missed).poke({}) is False, missed
    said = capsys.readouterr().out
    assert f"waiting until index files has caught up with event {newest}" in said
    assert f"has no entries of some files since event {newest} of {iso(state.time)}" in said
    assert "lag: 1 commit, " in said


def test_now_is_the_version_of_the_first_look(
    lagging: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that come later are not waited for, in no mode."""
    now = datetime.now(UTC)
    poking, trigger = caught_up(), deferred(caught_up(deferrable=True))
    assert poking.poke({}) is False
    build_index(lagging.table)
    with monkeypatch.context() as patch:
        patch.setattr(feeding, "MOST_WAITING", 0)
        lagging.append(1)
    assert poking.poke({}) is True
    assert event_of(trigger)["status"] == "success"
    assert caught_up().poke({}) is False
    for looked, reached in ((now - timedelta(minutes=5), True), (now + timedelta(days=1), False)):
        ti = SimpleNamespace(get_first_reschedule_date=lambda _, looked=looked: looked)
        assert caught_up(mode="reschedule").poke({"ti": ti}) is reached


def test_an_asset_events_number_is_a_goal(lagging: Flights) -> None:
    """Of the table's own asset; a run that was triggered by something else waits for now."""
    table, newest = segtable_asset(str(lagging.root / "flights")), lagging.table.state().n

    def poked(asset: Asset, *numbers: int) -> bool:
        events: Any = [SimpleNamespace(extra={"event": n}) for n in numbers]
        triggering: Any = TriggeringAssetEventsAccessor({AssetUniqueKey.from_asset(asset): events})
        return caught_up(upto="asset event").poke({"triggering_asset_events": triggering})

    assert poked(table, newest - 2, newest - 1) is True
    assert poked(table, newest, newest - 1) is False
    assert poked(segtable_asset("/elsewhere"), newest - 1) is False
    assert caught_up(upto="asset event").poke({}) is False


def test_an_index_that_is_gone_ends_every_wait_without_a_retry(building: Flights) -> None:
    """Dropped before, or while a trigger waits; a rebuilt index is waited for as before."""
    trigger = deferred(available(deferrable=True))
    rebuild_index(building.table.ports, "files")
    assert available().poke({}) is False
    drop_index(building.table.ports, "files")
    told = event_of(trigger)
    for attempt in (
        lambda: available().execute_complete({}, told),
        lambda: caught_up().poke({}),
        lambda: available(deferrable=True).execute({}),
        lambda: available(table="nowhere").poke({}),
    ):
        with pytest.raises(AirflowFailException, match=r"no index 'files'|nowhere"):
            attempt()


@pytest.mark.usefixtures("building")
def test_a_goal_that_is_none_is_refused_at_once() -> None:
    """The message shows it, and what to write."""
    with pytest.raises(
        AirflowFailException, match=r"upto = 'soon' is not an event number.*write e.g"
    ):
        caught_up(upto="soon").poke({})


@pytest.mark.usefixtures("building")
def test_a_trigger_tells_errors_and_raises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task fails with its message, and may be tried again."""
    trigger = deferred(available(deferrable=True))
    monkeypatch.delenv(CONNECTION)
    told = event_of(trigger)
    assert told["status"] == "error"
    with pytest.raises(AirflowException, match="segtable_default"):
        available().execute_complete({}, told)
