"""The trigger that wakes a fleet's planner."""

import asyncio
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.fleet_memory_file import write_memory
from airflow_provider_segtable.services.fleet_tables import load_fleet, tables_again
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.triggers import watcher
from airflow_provider_segtable.triggers.fleet import SegtableFleetTrigger, wake_asset

from .conftest import CONNECTION, Flights, make_flights
from .test_commit_trigger import Payload, looked, played


@dataclass(frozen=True)
class Lake:
    """A root of tables, a fleet file over some of them, and a way to make tables."""

    root: Path
    zookeeper: str

    def table(self, name: str) -> Flights:
        """Make a table with two segments; its name in the fleet is ``<name>/flights``."""
        return make_flights(self.root / name, self.zookeeper, 2)

    def searched(self) -> None:
        """Search for tables as the planner does, and remember them."""
        fleet, storage = load_fleet(str(self.root / "fleet.toml")), open_storage(str(self.root))
        found = tables_again(fleet, lambda _: storage, None, SystemClock().now())
        write_memory(storage, fleet.name, FleetMemory(found=found))

    def trigger(self) -> SegtableFleetTrigger:
        """Return a trigger that looks, fires and searches often."""
        often = {"poll_interval": 0.05, "at_most_every": 0.01, "find_every": 0.1}
        return SegtableFleetTrigger(fleet=str(self.root / "fleet.toml"), **often)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Give a root, and the connection to it."""
    made = Lake(tmp_path, f"memory://{uuid.uuid4().hex}")
    extra = {"zookeeper": made.zookeeper}
    place = {"conn_type": "segtable", "host": str(tmp_path), "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(place))
    monkeypatch.setattr(watcher, "OUTAGE_S", 0.05)
    (tmp_path / "fleet.toml").write_text('[groups.all]\ntables = ["*/flights"]\n')
    return made


def test_commits_to_any_table_wake_and_the_planners_own_do_not(lake: Lake) -> None:
    """One at the start, for all; then for rows, and for a completed plan, but not for a request."""
    one, two = lake.table("one"), lake.table("two")

    async def script(payload: Payload) -> None:
        assert await payload() == {"tables": ["one/flights", "two/flights"], "count": 2}
        two.append(1)
        assert await payload() == {"tables": ["two/flights"], "count": 1}
        waiting = asyncio.create_task(payload())
        asked = request(one.table.ports, "minor")
        await looked()
        assert not waiting.done()
        compact(one.table.ports, [known.plan.id for known in asked], in_process())
        assert await waiting == {"tables": ["one/flights"], "count": 1}

    played(lake.trigger(), script)


def test_tables_come_and_go_and_a_broken_one_delays_none(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new table wakes once the planner's search has found it, and so does one made again."""
    lake.table("one")
    broken = lake.root / "broken" / "flights" / "_segtable" / "timeline"
    broken.mkdir(parents=True)
    (broken / f"{0:020d}.json").write_text("no event")

    async def script(payload: Payload) -> None:
        assert (await payload())["tables"] == ["one/flights"]
        two, waiting = lake.table("two"), asyncio.create_task(payload())
        await looked()
        assert not waiting.done(), "the folders were listed a moment ago"
        lake.searched()
        assert (await waiting)["tables"] == ["two/flights"]
        drop(two.table.ports)
        await looked()
        lake.table("two")
        assert (await payload())["tables"] == ["two/flights"]

    played(lake.trigger(), script)
    told = capsys.readouterr()
    assert (told.out + told.err).count("broken/flights: its commits wake no planner: ") == 1


def test_a_trigger_outlives_what_is_missing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet file that is not there, and a connection without ZooKeeper."""
    one = lake.table("one")
    file = lake.root / "fleet.toml"
    text = file.read_text()
    file.unlink()
    place = json.loads(os.environ[CONNECTION])
    monkeypatch.setenv(CONNECTION, json.dumps({**place, "extra": {}}))

    async def script(payload: Payload) -> None:
        waiting = payload()
        await looked(0.2)
        file.write_text(text)
        monkeypatch.setenv(CONNECTION, json.dumps(place))
        assert (await waiting)["tables"] == ["one/flights"]
        one.append(1)
        assert (await payload())["count"] == 1

    played(lake.trigger(), script)


def test_the_asset_is_watched_by_one_trigger_of_the_fleet() -> None:
    """Its trigger survives Airflow's database; equal settings of two planners stay apart."""
    asset = wake_asset("planner/wake", "fleet.toml", segtable_conn_id="lake")
    (watched,) = asset.watchers
    assert isinstance(watched.trigger, SegtableFleetTrigger)
    path, arguments = watched.trigger.serialize()
    assert path.endswith("triggers.fleet.SegtableFleetTrigger")
    rebuilt: Any = SegtableFleetTrigger(**json.loads(json.dumps(arguments)))
    assert rebuilt.serialize() == (path, arguments)
    assert arguments["asset"] == asset.name == "planner/wake"
