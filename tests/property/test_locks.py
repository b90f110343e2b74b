"""``decide`` against an oracle that knows nothing but sets, over small random histories."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.locks import (
    Allocation,
    AlreadyGranted,
    Counters,
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockRequest,
    Refused,
    Waits,
    decide,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from tests.support.builders import BASE, CHUNK

CHUNKS = (CHUNK, ChunkKey(CHUNK.interval, BASE + 1))
PARTITIONS = (0, 1, 2, 32768, 32769)

segments = st.frozensets(
    st.builds(
        lambda chunk, p: chunk.segment(p), st.sampled_from(CHUNKS), st.sampled_from(PARTITIONS)
    ),
    max_size=3,
)
allocations = st.builds(
    Allocation,
    chunk=st.sampled_from(CHUNKS),
    generation=st.sampled_from(Generation),
    count=st.integers(1, 2),
    at_least=st.sampled_from((0, 1, 2, 3, 32769, 32770)),
).map(lambda ask: replace(ask, at_least=_in_range(ask)))
requests = st.builds(
    LockRequest,
    table=st.just("t"),
    group=st.sampled_from("abcd"),
    purpose=st.sampled_from("pq"),
    holder=st.just("h"),
    segments=segments,
    allocate=st.lists(allocations, max_size=2).map(tuple),
)
histories = st.lists(st.one_of(requests, st.sampled_from("abcd")), max_size=12)
"""A request, or the name of a group that lets go."""


def _in_range(ask: Allocation) -> int:
    ids = ask.generation.ids(ask.chunk)
    return ask.at_least if ask.at_least in ids else ids.start


def asked(request: LockRequest) -> set[SegmentId | str]:
    """Return the segments that a request names, or its purpose if it asks for nothing else."""
    return {*request.segments} if request.segments or request.allocate else {request.purpose}


class Oracle:
    """Who holds which segment or purpose, and every id ever handed out: sets, and no rules."""

    def __init__(self) -> None:
        self.owners: dict[SegmentId | str, set[str]] = {}
        self.holding: set[str] = set()
        self.used: set[SegmentId] = set()
        self.named_too_early: set[SegmentId] = set()

    def rivals(self, request: LockRequest) -> set[str]:
        """Return who holds what is asked."""
        return set().union(*(self.owners.get(each, set()) for each in asked(request)))

    def take(self, request: LockRequest, allocated: tuple[SegmentId, ...]) -> None:
        """Note a grant."""
        self.named_too_early |= request.segments - self.used
        self.holding.add(request.group)
        self.used |= set(allocated)
        for each in asked(request) | set(allocated):
            self.owners.setdefault(each, set()).add(request.group)

    def let_go(self, group: str) -> None:
        """Note a release."""
        self.holding.discard(group)
        for owners in self.owners.values():
            owners.discard(group)

    def check(self) -> None:
        """A segment has two holders only if it was locked as existing before it was allocated.

        Requests name segments of the log, and counters start above the log, so that needs a
        wiped coordinator and an asker whose view of the log is old: its commit is refused,
        because the log knows the id.
        """
        shared = {segment for segment, owners in self.owners.items() if len(owners) > 1}
        assert shared <= self.named_too_early


def lock_of(request: LockRequest, allocated: tuple[SegmentId, ...], number: int) -> Lock:
    return Lock(
        group=request.group,
        purpose=request.purpose,
        holder=request.holder,
        priority=request.priority,
        segments=request.segments,
        allocated=allocated,
        since=BASE,
        token=FencingToken("e", number),
    )


def check_allocated(
    request: LockRequest, allocated: tuple[SegmentId, ...], used: set[SegmentId]
) -> None:
    """New ids are as many as asked, in order, in range, above ``at_least``, and truly new."""
    assert not set(allocated) & used
    assert len(set(allocated)) == len(allocated)
    rest = list(allocated)
    for ask in request.allocate:
        mine, rest = rest[: ask.count], rest[ask.count :]
        numbers = [each.partition for each in mine]
        assert numbers == list(range(numbers[0], numbers[0] + ask.count))
        assert numbers[0] >= ask.at_least
        assert all(each.chunk == ask.chunk for each in mine)
        assert all(each.partition in ask.generation.ids(ask.chunk) for each in mine)
    assert rest == []


@given(histories)
def test_decide_agrees_with_the_oracle(history: list[LockRequest | str]) -> None:
    """Along any history decide grants exactly what the oracle finds free, and no id twice."""
    oracle, locks = Oracle(), dict[str, Lock]()
    counters: Counters = {}
    for number, step in enumerate(history):
        oracle.check()
        if isinstance(step, str):
            locks.pop(step, None)
            oracle.let_go(step)
            continue
        match decide(step, locks.values(), counters):
            case Granted(allocated=allocated, counters=changed):
                assert step.group not in oracle.holding
                assert not oracle.rivals(step)
                check_allocated(step, allocated, oracle.used)
                oracle.take(step, allocated)
                locks[step.group] = lock_of(step, allocated, number)
                counters = {**counters, **changed}
            case AlreadyGranted(lock=lock):
                assert step.group in oracle.holding
                assert lock is locks[step.group]
            case Refused():
                assert step.group in oracle.holding
            case Waits(on=on):
                assert step.group not in oracle.holding
                assert {lock.group for lock in on} == oracle.rivals(step)
                assert on


@given(requests, st.lists(requests, max_size=3))
def test_decide_changes_nothing(request: LockRequest, before: list[LockRequest]) -> None:
    """The decision is a value: asking twice gives the same, and the counters stay untouched."""
    locks = [lock_of(each, (), n) for n, each in enumerate(before)]
    counters = {(CHUNK, Generation.FIRST): 2}
    once = decide(request, locks, counters)
    assert decide(request, locks, counters) == once
    assert counters == {(CHUNK, Generation.FIRST): 2}
