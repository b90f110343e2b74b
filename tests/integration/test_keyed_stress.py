"""Writers of the same keys as real processes, beside everything else, under kills.

``tests/stress/keyed/run`` says what goes on, and ``tests/stress/keyed/verdict`` what must hold.
The short run has half of the writers: each process more makes all others slower. The long one has
all eight.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed import merge_job
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import open_context
from tests.stress.keyed import run, worker
from tests.stress.keyed.observer import Observer
from tests.stress.keyed.verdict import Verdict

SECONDS, LONG_SECONDS = 3.0, 300.0
SPARED = ("upserter2", "upserter3", "changer5", "stream7")
FEW = {name: mode for name, mode in run.CREW.items() if name not in SPARED}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of its own: nobody else's sessions end with those of the killed."""
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        yield server.address


def finished(begun: run.Run) -> run.Run:
    """Report a run, and let go of its session."""
    begun.ports.coordinator.close()
    sys.stdout.write("\n".join(begun.report()))
    return begun


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.zookeeper
@pytest.mark.timeout(600)
def test_writers_are_never_refused(tmp_path: Path, address: str) -> None:
    """No writer is aborted or begins again but by a kill, and every version is the model's."""
    begun = run.begin(tmp_path, address)
    begun.carry_out(FEW, SECONDS)
    assert finished(begun).problems == []


def ordering_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a compaction that lets the later write win, whatever the ordering column says."""
    right = merge_job.merge_runs

    def wrong(runs: Any, rules: MergeRules, *others: Any, **named: Any) -> Any:
        return right(runs, replace(rules, ordering=""), *others, **named)

    monkeypatch.setattr(merge_job, "merge_runs", wrong)


def in_turns(folder: Path) -> list[str]:
    """Let the crew work in this process, one after another; return what is wrong then."""
    service = MemoryService(SystemClock())
    ports = open_context(str(folder / "table"))
    ports = replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, service))
    run.create(ports)
    seen = Observer(ports, folder / "kept")
    for name, mode in run.CREW.items():
        own = worker.with_clock(replace(ports, author=name), mode, name)
        worker.serve(mode, own, name, folder, iter([None, None]))
        seen.look()
    return [*Verdict(ports, folder, seen.events).problems()]


@pytest.mark.long
def test_a_wrong_merge_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict finds nothing wrong, unless compactions ignore the ordering column."""
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    assert in_turns(tmp_path / "right") == []
    ordering_is_ignored(monkeypatch)
    problems = in_turns(tmp_path / "wrong")
    assert any("is not version" in each for each in problems), problems


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.spark
@pytest.mark.timeout(LONG_SECONDS * 4)
@pytest.mark.parametrize("merge", ["latest", "partial_update"])
def test_five_minutes_with_a_spark_stream(tmp_path: Path, address: str, merge: str) -> None:
    """Five minutes, with a stream of Spark beside the others: the same holds."""
    begun = run.begin(tmp_path, address, merge=merge)
    begun.carry_out({**run.CREW, run.SPARK_WRITERS[0]: "spark"}, LONG_SECONDS)
    assert finished(begun).problems == []
