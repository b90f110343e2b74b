"""What a planner remembers, as one object: whole, or not used at all."""

import logging
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.planning.fleet.fleet_memory import (
    FleetMemory,
    FoundTables,
    Remembered,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import Begun, Offer, TableLook
from airflow_provider_segtable.planning.fleet.objectives import Measure, Miss
from airflow_provider_segtable.services import fleet_memory_file
from airflow_provider_segtable.services.fleet_memory_file import (
    encode_memory,
    last_search,
    memory_path,
    read_memory,
    write_memory,
)
from airflow_provider_segtable.storage.memory_storage import MemoryStorage

OFFER = Offer(
    plan_id="minor-1",
    kind="minor",
    interval=Interval(0, HOUR_US),
    inputs=12,
    size=1 << 40,
    outputs=1,
    reason="12 small segments, öäü",
    gain=11.5,
    since=5,
    rests_until=7,
)
LOOK = TableLook(
    name="a/t",
    offers=(OFFER, replace(OFFER, rests_until=None)),
    begun=(Begun(at=1, size=2, pending=True),),
    misses=(Miss(name="overlap", found=4, aim=3),),
    measure=Measure(overlap=4.0),
    table_id="id",
    version=9,
)
MEMORY = FleetMemory(
    tables={
        "a/t": Remembered(look=LOOK, at=3, settings="x", due=4),
        "b": Remembered(look=TableLook(name="b"), at=3, settings="y", unsettled=True),
    },
    found=FoundTables(names=("a/t", "b"), listings=3, at=3, globs="z"),
)


def test_a_memory_is_read_as_it_was_written() -> None:
    """By one request each; another fleet has another object."""
    storage = MemoryStorage("memory://lake")
    assert read_memory(storage, "f") == FleetMemory()
    assert last_search(storage, "f") is last_search(None, "f") is None
    write_memory(storage, "f", MEMORY)
    assert read_memory(storage, "f") == MEMORY
    assert last_search(storage, "f") == MEMORY.found
    assert read_memory(storage, "g") == FleetMemory()
    write_memory(storage, "f", replace(MEMORY, found=None))
    assert last_search(storage, "f") is None


@pytest.mark.parametrize("wrong", ["truncated", "flipped", "other fleet", "other code", "types"])
def test_what_is_no_memory_of_this_fleet_is_ignored(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a line in the log."""
    good = encode_memory(MEMORY, "f")
    if wrong == "other code":
        monkeypatch.setattr(fleet_memory_file, "__version__", "0.0.0")
    damaged = replace(MEMORY, tables={"b": replace(MEMORY.tables["b"], at="noon")})  # type: ignore[arg-type]
    data = {
        "truncated": good[:-9],
        "flipped": good[:40] + bytes([good[40] ^ 255]) + good[41:],
        "other fleet": encode_memory(MEMORY, "g"),
        "other code": encode_memory(MEMORY, "f"),
        "types": encode_memory(damaged, "f"),
    }[wrong]
    monkeypatch.undo()
    storage = MemoryStorage("memory://lake")
    storage.replace(memory_path("f"), data)
    with caplog.at_level(logging.WARNING):
        assert read_memory(storage, "f") == FleetMemory()
    assert last_search(storage, "f") == (MEMORY.found if wrong == "types" else None)
    assert "memory://lake/_segtable_fleet/f/memory is not used" in caplog.text
