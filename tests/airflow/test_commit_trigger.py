"""The trigger that tells of commits by anyone."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.triggers.base import TriggerEvent

from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.triggers import watcher
from airflow_provider_segtable.triggers.commits import SegtableCommitTrigger, commits_asset

from .conftest import CONNECTION, JANUARY, SCHEMA, Flights

TIMEOUT_S = 30.0
Payload = Callable[[], Coroutine[Any, Any, Any]]


def trigger(flights: Flights, **more: Any) -> SegtableCommitTrigger:
    """Return a trigger of a table, which looks and tells often."""
    settings = {"poll_interval": 0.05, "at_most_every": 0.01, **more}
    return SegtableCommitTrigger(table=str(flights.root / flights.name), **settings)


def played(one: SegtableCommitTrigger, script: Callable[[Payload], Awaitable[None]]) -> None:
    """Run a trigger beside a script, which awaits its payloads."""

    async def both() -> None:
        events = one.run()

        async def payload() -> Any:
            found: TriggerEvent = await asyncio.wait_for(anext(events), TIMEOUT_S)
            return found.payload

        try:
            await script(payload)
        finally:
            await closed(events)

    asyncio.run(both())


async def closed(events: AsyncIterator[TriggerEvent]) -> None:
    """End a trigger as a triggerer does."""
    await events.aclose()  # type: ignore[attr-defined]


async def looked(seconds: float = 0.4) -> None:
    """Wait for some looks of the trigger."""
    await asyncio.sleep(seconds)


def test_commits_of_anyone_are_told_once(flights: Flights) -> None:
    """Several ones as one, with their versions and rows; nothing that was there before."""
    before = flights.table.state().n

    async def script(payload: Payload) -> None:
        task = asyncio.create_task(payload())
        await looked()
        assert not task.done()
        flights.append(1, rows=7)
        told = await task
        assert (told["after"], told["version"]) == (before, before + 1)
        assert (told["commits"], told["rows"]) == (1, 7)
        flights.append(3, rows=2)
        later = await payload()
        while later["version"] < before + 4:
            assert later["after"] >= told["version"]
            told, later = later, await payload()
        assert later["version"] == before + 4

    played(trigger(flights), script)


def test_what_changes_no_row_is_not_told(flights: Flights) -> None:
    """A plan, a compaction and a setting pass; the next rows are told with their own number."""
    before = flights.table.state().n

    async def script(payload: Payload) -> None:
        task = asyncio.create_task(payload())
        await looked()
        asked = request(flights.table.ports, "minor")
        compact(flights.table.ports, [known.plan.id for known in asked], in_process())
        flights.table.create_index("files", kind="files")
        await looked()
        assert not task.done()
        flights.append(1)
        told = await task
        assert told["commits"] == 1
        assert told["after"] > before

    played(trigger(flights), script)


def test_a_trigger_outlives_errors_and_waits_for_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is not there yet, and a connection that is missing at first."""
    monkeypatch.setattr(watcher, "OUTAGE_S", 0.05)
    flights = Flights(tmp_path, f"memory://{uuid.uuid4().hex}")

    async def script(payload: Payload) -> None:
        task = asyncio.create_task(payload())
        await looked()
        monkeypatch.setenv(CONNECTION, flights.connection)
        await looked()
        place = str(tmp_path / flights.name)
        Table.create(place, schema=SCHEMA, time_column="time_hour", zookeeper=flights.zookeeper)
        await looked()
        assert not task.done()
        flights.table.append(pa.table([[JANUARY], [1]], schema=SCHEMA))
        assert (await task)["rows"] == 1

    played(trigger(flights), script)


def test_a_table_that_was_dropped_and_made_again_is_followed(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are told as those of any other commit."""
    monkeypatch.setattr(watcher, "OUTAGE_S", 0.05)

    async def script(payload: Payload) -> None:
        task = asyncio.create_task(payload())
        await looked()
        drop(flights.table.ports)
        await looked()
        place = str(flights.root / flights.name)
        Table.create(place, schema=SCHEMA, time_column="time_hour", zookeeper=flights.zookeeper)
        await looked()
        assert not task.done()
        flights.append(1, rows=3)
        told = await task
        assert (told["commits"], told["rows"]) == (1, 3)

    played(trigger(flights), script)


class Store:
    """What Airflow keeps for an asset."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    async def aget(self, key: str) -> Any:
        """Return a value."""
        return self.values.get(key)

    async def aset(self, key: str, value: Any) -> None:
        """Keep a value."""
        self.values[key] = value


def test_another_triggerer_goes_on_where_the_last_one_told(flights: Flights) -> None:
    """Commits in between are told, if Airflow kept the version."""
    told_before = flights.table.state().n - 2
    one = trigger(flights)
    store = Store(version=told_before)
    one.asset_state_store = store  # type: ignore[assignment]

    async def script(payload: Payload) -> None:
        told = await payload()
        assert (told["after"], told["commits"]) == (told_before, 2)
        flights.append(1)
        await payload()
        assert store.values["version"] == told["version"]  # kept once the next one is asked for

    played(one, script)


def test_the_asset_is_watched_and_is_not_the_tables_own() -> None:
    """Its trigger survives Airflow's database; equal settings of two tables stay apart."""
    asset = commits_asset("s3://lake/trips", at_most_every=60)
    (watcher,) = asset.watchers
    assert asset.name == asset.uri == "segtable://s3/lake/trips/commits"
    assert isinstance(watcher.trigger, SegtableCommitTrigger)
    path, arguments = watcher.trigger.serialize()
    assert path.endswith("commits.SegtableCommitTrigger")
    rebuilt = SegtableCommitTrigger(**json.loads(json.dumps(arguments)))
    assert rebuilt.serialize() == (path, arguments)
    assert arguments["asset"] == asset.name
    with pytest.raises(InvalidName, match="the root of a connection"):
        commits_asset("trips")
