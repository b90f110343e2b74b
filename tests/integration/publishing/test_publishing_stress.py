"""Publishers, writers, cleaners and readers of a published table as real processes, under kills.

``tests/stress/publishing/run`` says what goes on, and what must hold.
"""

import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from tests.stress.publishing import run

SECONDS, LONG_SECONDS = 2.0, 300.0


def problems(folder: Path, seconds: float, retention_s: float) -> list[str]:
    """Return what is wrong after a run of some seconds; print what was done."""
    with EmbeddedZooKeeper(folder / "server") as server:
        begun = run.begin(folder, server.address, retention_s=retention_s)
        found = begun.carry_out(seconds)
        begun.table.ports.coordinator.close()
    sys.stdout.write("\n".join(begun.report()))
    return found


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.zookeeper
@pytest.mark.timeout(300)
def test_readers_of_the_last_version_never_miss_a_file(tmp_path: Path) -> None:
    """Each look at the last version shows the log's rows at its event, and no older event."""
    assert problems(tmp_path, SECONDS, retention_s=1.0) == []


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.zookeeper
@pytest.mark.timeout(LONG_SECONDS * 4)
def test_five_minutes(tmp_path: Path) -> None:
    """Five minutes: the same holds."""
    assert problems(tmp_path, LONG_SECONDS, retention_s=10.0) == []
