"""A follower of windows beside everybody who writes, compacts, restores and cleans."""

from collections.abc import Callable
from random import Random

import pytest

from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.services import cleaning
from airflow_provider_segtable.table import windows
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.scenario import build, run
from tests.simulation.seeds import beginning_with
from tests.simulation.world import Shape

pytestmark = pytest.mark.usefixtures("frequent_checkpoints")

FOLLOWED = Shape(
    appenders=2,
    appends_each=3,
    compactors=2,
    chunks=1,
    asks=1,
    cleaners=1,
    changers=2,
    changes_each=2,
    overwriters=1,
    overwrites_each=2,
    alterers=1,
    alterations_each=2,
    restorers=1,
    restores_each=2,
    followers=1,
)


def mixed(seed: int) -> Faults:
    """Crashes, locks that get lost, requests that arrive late, replies that do not arrive."""
    return Faults(random=Random(seed), delay=0.1, expiry=0.1, lost_reply=0.05, late=0.05)


def test_a_copy_by_changes_is_the_table() -> None:
    """After each window, whatever was compacted, cleaned and restored meanwhile."""
    for seed in range(2):
        run(build(seed, FOLLOWED, mixed(seed)))


def restores_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore is taken for an event that changes no row."""
    right = windows.effects
    monkeypatch.setattr(
        windows,
        "effects",
        lambda action: () if isinstance(action, VersionRestored) else right(action),
    )


def consumers_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleaners do not ask for consumers."""
    monkeypatch.setattr(cleaning, "_held", lambda *_: ())


def everything_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed begins an event too early."""
    right = windows.start_read

    def early(log: EventLog, request: ReadRequest, end: State) -> State | None:
        start = right(log, request, end)
        return log.at(start.n - 1) if start and start.n > end.retained_from else start

    monkeypatch.setattr("airflow_provider_segtable.table.windows.start_read", early)


@pytest.mark.parametrize(
    ("plant", "message", "first"),
    [
        (restores_unnoticed, "by its changes", 0),
        (consumers_unnoticed, "yet to read was cleaned", 0),
        (everything_added, "by its changes", 6),
    ],
)
def test_planted_errors_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    message: str,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The follower finds each of them, in one of a few seeds."""
    plant(monkeypatch)
    found = []
    for seed in beginning_with(first, 4):
        try:
            run(build(seed, FOLLOWED, mixed(seed)))
        except AssertionError as error:
            found.append(str(error))
            break
    assert any(message in text for text in found), found
