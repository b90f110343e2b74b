"""The queue in front of a table's commits: one thread puts for those that wait."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import pytest

from airflow_provider_segtable.core.log.events import MOST_JOINED
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.commit_queue import CommitQueue
from airflow_provider_segtable.table.committer import Committed, commit
from tests.support.clock import FakeClock
from tests.unit.table.committing import append, load, memory_context

CLOCK = FakeClock()


@dataclass(eq=False)
class Change:
    """A change that notes how it was put."""

    joins: bool = True
    durable: bool = False
    put_with: list[int] = field(default_factory=list)

    def wait_durable(self) -> None:
        """Note that its files are durable."""
        self.durable = True


def noted(members: Sequence[Change]) -> bool:
    for each in members:
        each.put_with.append(len(members))
    return False


def waiting(queue: CommitQueue, number: int) -> None:
    """Wait until so many changes wait."""
    while len(queue._waiting) < number:
        os.sched_yield()


def put_beside(queue: CommitQueue, others: Sequence[Change], put: object = noted) -> Change:
    """Attempt a change while others come; return it."""
    lead, pool = Change(), ThreadPoolExecutor(len(others))

    def hold(members: Sequence[Change]) -> bool:
        for number, each in enumerate(others, 1):
            pool.submit(queue.attempt, each, put, CLOCK)
            waiting(queue, number)
        return noted(members)

    with pool:
        queue.attempt(lead, hold, CLOCK)
    return lead


def test_those_that_wait_are_put_together() -> None:
    """The first one alone; the others, whose files are durable, with one put."""
    others = [Change() for _ in range(5)]
    lead = put_beside(CommitQueue(), others)
    assert lead.put_with == [1]
    assert not lead.durable
    assert [each.put_with for each in others] == [[5]] * 5
    assert all(each.durable for each in others)


def test_a_change_of_its_own_file_is_put_alone() -> None:
    """It waits until it leads; those that join pass it by, but do not keep it waiting."""
    others = [Change(), Change(joins=False), Change()]
    put_beside(CommitQueue(), others)
    assert [each.put_with for each in others] == [[2], [1], [2]]


def test_a_file_has_a_bound() -> None:
    """The rest is in the next one."""
    others = [Change() for _ in range(MOST_JOINED + 3)]
    put_beside(CommitQueue(), others)
    sizes = sorted(each.put_with[0] for each in others)
    assert sizes == [3] * 3 + [MOST_JOINED] * MOST_JOINED


def test_a_leader_that_fails_frees_the_others() -> None:
    """They go on without an outcome, and the next one leads."""
    queue, others, puts = CommitQueue(), [Change(), Change()], list[int]()

    def fail_once(members: Sequence[Change]) -> bool:
        puts.append(len(members))
        if len(puts) == 1:
            raise KeyboardInterrupt
        return noted(members)

    put_beside(queue, others, fail_once)
    assert puts == [2]
    again = Change()
    queue.attempt(again, noted, CLOCK)
    assert again.put_with == [1]


def test_a_leader_that_lost_a_race_leads_until_it_leaves() -> None:
    """Others that come meanwhile are put by it, or wait."""
    queue, lead, other = CommitQueue(), Change(), Change()
    queue.attempt(lead, lambda members: not noted(members), CLOCK)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(queue.attempt, other, noted, CLOCK)
        waiting(queue, 1)
        queue.attempt(lead, noted, CLOCK)
        queue.leave(lead)
    assert lead.put_with == [1, 2]
    assert other.put_with == [2]


def test_a_forked_child_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that led is not in it."""
    queue, child = CommitQueue(), Change()
    queue.attempt(Change(), lambda members: not noted(members), CLOCK)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    queue.attempt(child, noted, CLOCK)
    assert child.put_with == [1]


def test_a_leader_gathers_after_an_attempt_of_several() -> None:
    """It waits for as many as there were; a single writer never does."""
    clock = FakeClock()
    queue = CommitQueue()
    queue.attempt(Change(), noted, clock)
    assert clock.slept == []
    queue._active, queue._gather_s, queue._ended_s = 3, 1.0, clock.monotonic()
    queue.attempt(Change(), noted, clock)
    assert sum(clock.slept) == pytest.approx(1.0)
    queue.attempt(Change(), noted, clock)
    assert sum(clock.slept) == pytest.approx(1.0)


def test_many_threads_need_few_puts() -> None:
    """Sixteen commits that come during one put are one more; a guard of the number of requests."""
    ports = memory_context()
    begun, come = Event(), Event()
    inner: MemoryStorage = ports.storage.inner  # type: ignore[attr-defined]

    def slow(path: str, data: bytes) -> None:
        begun.set()
        come.wait()
        inner.create(path, data)

    ports.storage.traps.append(slow)  # type: ignore[attr-defined]
    state, before = load(ports), ports.storage.creates  # type: ignore[attr-defined]
    with ThreadPoolExecutor(17) as pool:
        first = pool.submit(commit, ports, state, append(0, "c0"))
        begun.wait()
        rest = [pool.submit(commit, ports, state, append(n, f"c{n}")) for n in range(1, 17)]
        waiting(ports.commits, 16)
        come.set()
        outcomes = [first.result(), *(each.result() for each in rest)]
    numbers = sorted(each.n for each in outcomes if isinstance(each, Committed))
    assert numbers == [*range(1, 18)]
    assert ports.storage.creates - before == 2  # type: ignore[attr-defined]
