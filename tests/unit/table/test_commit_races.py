"""The commit loop when races are lost: bounds, pauses, and turns in the queue."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.fold import Conflict
from airflow_provider_segtable.table.committer import (
    TURN_WAIT_S,
    Committed,
    Retry,
    commit,
    commit_or_raise,
)
from airflow_provider_segtable.table.context import TableContext
from tests.support.builders import DEFINITION
from tests.unit.table.committing import append, load, lost_reply, memory_context, rival, traps


@pytest.fixture
def ports() -> TableContext:
    return memory_context()


def test_races_lost_for_ever_end_in_a_conflict(ports: TableContext) -> None:
    """Retries are bounded; nothing of ours landed, so its files go, and the winner is named."""
    traps(ports).extend(rival(ports, partition) for partition in (5, 6, 7))
    outcome = commit(ports, load(ports), append(0), Retry(attempts=3))
    reason = "lost the race for the next event 3 times; try again"
    assert outcome == Conflict(reason=reason, winner=3)


def test_a_put_that_landed_in_the_last_attempt_is_committed(ports: TableContext) -> None:
    """The event is read once more before an outcome is told."""
    traps(ports).append(lost_reply(ports, landed=True))
    outcome = commit(ports, load(ports), append(0), Retry(attempts=1))
    assert isinstance(outcome, Committed)
    assert outcome.n == 1


def test_pauses_grow_up_to_a_bound_and_have_jitter() -> None:
    """Writers that collided spread out between half the pause and all of it."""
    retry = Retry(first_s=0.01, longest_s=0.05)
    assert [retry.pause_s(n, 0.0) for n in range(5)] == [0.005, 0.01, 0.02, 0.025, 0.025]
    assert retry.pause_s(1, 0.5) == pytest.approx(0.015)


def test_a_committer_pauses_only_while_the_log_stands_still(ports: TableContext) -> None:
    """Each time longer; once there is a new event, the first pause is the short one again."""
    lost = lost_reply(ports, landed=False)
    traps(ports).extend((lost, lost, rival(ports, 7), lost, lost))
    retry = Retry(first_s=0.01, longest_s=1.0)
    outcome = commit(ports, load(ports), append(0), retry)
    assert isinstance(outcome, Committed)
    slept = ports.clock.slept  # type: ignore[attr-defined]
    for pause_s, most_s in zip(slept, (0.01, 0.02, 0.01), strict=True):
        assert most_s / 2 <= pause_s < most_s


class Queue:
    """A coordinator that notes who takes a turn in front of the commit, and whether it is over."""

    def __init__(self) -> None:
        self.turns: list[object] = []
        self.inside = 0

    @contextmanager
    def commit_turn(self, table: str, *, wait_s: float) -> Iterator[None]:
        """Note the turn."""
        self.turns.append((table, wait_s))
        self.inside += 1
        yield
        self.inside -= 1

    def announce(self, *_: object) -> None:
        """Do nothing."""


def test_a_committer_that_lost_a_race_takes_its_turn(ports: TableContext) -> None:
    """Once, for all that it tries from then on; who wins at once does not wait for others."""
    queue = Queue()
    queued = replace(ports, optional_coordinator=queue)  # type: ignore[arg-type]
    commit_or_raise(queued, load(ports), append(0))
    assert queue.turns == []
    inside: list[int] = []

    def noted(path: str, data: bytes) -> None:
        inside.append(queue.inside)
        rival(ports, 5 + len(inside))(path, data)

    traps(ports).extend((noted, noted, noted))
    commit_or_raise(queued, load(ports), append(1, "other"))
    assert inside == [0, 1, 1]
    assert queue.turns == [(DEFINITION.table_id, TURN_WAIT_S)]
    assert queue.inside == 0
    assert ports.clock.slept == []  # type: ignore[attr-defined]
