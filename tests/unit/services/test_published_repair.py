"""A published table whose log is lost, or that is dropped: its readers see whole versions only."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.publishing.publisher import PublishedNow
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.unit.services.repairing import World

NOTHING = Retention(hours=0, versions=1, orphan_hours=0)
FORMATS = ("delta", "iceberg")


def published(world: World) -> list[int]:
    """Publish in all formats; return the events that they show."""
    return [each.event for each in Table(world.ports).publish(formats=FORMATS)]  # type: ignore[union-attr]


def shown(world: World) -> list[list[int]]:
    """Return the rows that readers of each format see."""
    hint = world.folder / "_iceberg" / "metadata" / "version-hint.text"
    metadata = hint.parent / f"v{hint.read_text()}.metadata.json"
    frames = pl.scan_delta(str(world.folder)), pl.scan_iceberg(str(metadata))
    return [sorted(each.collect()["row"].to_list()) for each in frames]


def test_a_rebuilt_log_is_published_anew(tmp_path: Path) -> None:
    """Its events have lower numbers than what is published, which stays readable until then."""
    world = World.begin(tmp_path, 1).live(9)
    (before, _) = published(world)
    world.append()
    world.lose_log()
    repair(world.ports, plan_repair(world.ports))
    old = shown(world)
    clean(world.ports, retention=NOTHING)
    assert shown(world) == old
    assert published(world)[0] < before
    assert shown(world) == [world.rows] * 2
    clean(world.ports, retention=NOTHING)
    world.check_alive()
    published(world)
    assert shown(world) == [world.rows] * 2
    assert not verify(world.ports).findings


def test_a_log_that_has_expired_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher whose last event is gone from the log catches up by the keys of files."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)
    world = World.begin(tmp_path, 5).live(4)
    Table(world.ports).delete("row % 3 = 0")
    (event, _) = published(world)
    Table(world.ports).delete("row % 2 = 0")
    world.append()
    world.compact("major")
    assert isinstance(world.ports.clock, FakeClock)
    world.ports.clock.advance(3600)
    clean(world.ports, retention=NOTHING)
    assert world.ports.log.first() > event
    fresh = replace(world, ports=replace(world.ports))
    done = Table(fresh.ports).publish(formats=FORMATS)
    assert all(isinstance(each, PublishedNow) for each in done)
    rows = sorted(row for _, row in world.contents())
    assert shown(fresh) == [rows] * 2


def test_a_table_in_the_place_of_a_dropped_one_is_published_from_scratch(tmp_path: Path) -> None:
    """Nothing of what was published of the other one is left, not even its numbers."""
    world = World.begin(tmp_path, 1).live(3)
    Table(world.ports).delete("row = 0")
    published(world)
    definition: TableDefinition = Table(world.ports).state().table
    assert drop(world.ports).kept == ()
    left = {each.name for each in world.folder.iterdir()}
    assert left == {"_segtable"}
    world.restart()
    other = World(ports=replace(world.ports), random=world.random)
    create_table(other.ports, replace(definition, table_id="u"))
    other.append(1)
    published(other)
    assert shown(other) == [other.rows] * 2
    assert (other.folder / "_delta_log" / f"{0:020d}.json").exists()
