"""``decide`` agrees with a brute-force model: exhaustively for few hours, at random for more."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
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
    Mode,
    Refused,
    Revokes,
    Waits,
    ahead,
    decide,
    in_turn,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import HOUR_US, Interval
from tests.property.lock_model import ANY, Cell, Model, hours

FIRST_NEW = 10


def span(start: int, end: int) -> Interval:
    return Interval(start * HOUR_US, end * HOUR_US)


def segment(start: int, end: int, partition: int = 0) -> SegmentId:
    return SegmentId(span(start, end), 1, partition)


def asking(group: str, mode: Mode = Mode.EXCLUSIVE, **what: Any) -> LockRequest:
    return LockRequest(table="t", group=group, purpose="p", holder="h", mode=mode, **what)


def new(start: int, end: int, generation: Generation = Generation.FIRST) -> tuple[Allocation, ...]:
    chunk = ChunkKey(span(start, end), 1)
    first = FIRST_NEW + generation.ids(chunk).start
    return (Allocation(chunk=chunk, generation=generation, count=1, at_least=first),)


def shapes() -> list[LockRequest]:
    """Return every kind of request over two hours."""
    hour, next_hour, both = segment(0, 1), segment(1, 2), segment(0, 2)
    of_segments = [{hour}, {both}, {hour, next_hour}, {both, hour}]
    spans = [(span(0, 1),), (span(0, 2),), (span(0, 1), span(1, 2))]
    found = [
        asking("", mode, segments=frozenset(each))
        for each in of_segments
        for mode in (Mode.EXCLUSIVE, Mode.SHARED)
    ]
    later = new(0, 1, Generation.LATER)
    found.append(asking("", segments=frozenset({hour}), allocate=later))
    found += [
        asking("", mode, allocate=ids)
        for ids in (new(0, 1), new(0, 2), new(1, 2) + new(0, 1))
        for mode in (Mode.EXCLUSIVE, Mode.APPEND)
    ]
    found += [
        asking("", mode, intervals=each)
        for each in spans
        for mode in (Mode.EXCLUSIVE, Mode.SHARED, Mode.REPLACE)
    ]
    return found


class Twin:
    """Real locks beside the model, asserted equal at every step."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        self.counters: Counters = {}
        self.model = Model()
        self.last_version = 0

    def ask(self, request: LockRequest) -> str:
        """Let both decide; return what the model says."""
        decision = decide(
            request, self.locks.values(), self.counters, now=7, last_version=self.last_version
        )
        if request.group in self.model.holders:
            assert isinstance(decision, AlreadyGranted | Refused)
            return "again"
        expected, groups = self.model.verdict(request)
        match decision:
            case Granted():
                assert (expected, groups) == ("granted", set())
                self.take(request, decision)
            case Waits(on=on):
                assert (expected, groups) == ("waits", {lock.group for lock in on})
            case Revokes(whom=whom, granted=granted):
                assert (expected, groups) == ("revokes", {lock.group for lock in whom})
                self.locks |= {lock.group: lock for lock in whom}
                self.take(request, granted)
            case _:
                pytest.fail(f"{decision}")
        return expected

    def take(self, request: LockRequest, granted: Granted) -> None:
        """Note a grant on both sides."""
        if request.version_above is not None:
            assert granted.version is not None
            assert granted.version > max(request.version_above, self.last_version)
            assert granted.version >= 7
            self.last_version = granted.version
        self.counters = {**self.counters, **granted.counters}
        self.model.take(request, granted.allocated)
        self.locks[request.group] = Lock(
            group=request.group,
            purpose="p",
            holder="h",
            priority=request.priority,
            segments=request.segments,
            allocated=granted.allocated,
            since=0,
            token=FencingToken("e", len(self.counters)),
            mode=request.mode,
            intervals=request.intervals,
            version=granted.version,
            yields=request.yields,
        )
        for group, lock in self.locks.items():
            holder = self.model.holders[group]
            assert excluded(lock) == holder.cells
            assert bool(lock.revoked) == holder.revoked
        self.model.check()

    def publish(self, group: str) -> None:
        """Let a holder begin to publish."""
        if group in self.locks and not self.locks[group].revoked:
            self.locks[group] = replace(self.locks[group], irrevocable=True)
            self.model.holders[group].irrevocable = True

    def let_go(self, group: str) -> None:
        """Let a holder release."""
        self.locks.pop(group, None)
        self.model.holders.pop(group, None)


def excluded(lock: Lock) -> set[Cell]:
    left = lock.excludes
    cells: set[Cell] = {(h, ANY) for interval in left.intervals for h in hours(interval)}
    return cells | {(h, each) for each in left.segments for h in hours(each.interval)}


def test_every_pair_of_locks_and_third_request_agrees() -> None:
    """All triples of kinds of request, of rising priority, some of them publishing or firm."""
    met: set[str] = set()
    for one, two, three in product(shapes(), repeat=3):
        for how in ("plain", "publishing", "firm"):
            twin = Twin()
            yields = 3 if how == "firm" else 0
            twin.ask(replace(one, group="a", yields=yields))
            if how == "publishing":
                twin.publish("a")
            twin.ask(replace(two, group="b", priority=50))
            met.add(twin.ask(replace(three, group="c", priority=75)))
    assert met == {"granted", "waits", "revokes"}


def test_equal_and_lower_priorities_revoke_nobody() -> None:
    """All pairs of kinds of request: without a higher priority nobody has to yield."""
    for (one, two), priority in product(product(shapes(), repeat=2), (0, 25)):
        twin = Twin()
        twin.ask(replace(one, group="a"))
        assert twin.ask(replace(two, group="b", priority=priority)) in {"granted", "waits"}


spans = st.tuples(st.integers(0, 3), st.integers(1, 2)).map(lambda at: span(at[0], sum(at)))
segments = st.builds(SegmentId, spans, st.just(1), st.sampled_from((0, 1, 32768)))
allocations = st.builds(
    Allocation,
    chunk=st.builds(ChunkKey, spans, st.just(1)),
    generation=st.just(Generation.FIRST),
    count=st.integers(1, 2),
    at_least=st.just(FIRST_NEW),
)
common = {
    "table": st.just("t"),
    "group": st.sampled_from("abcde"),
    "purpose": st.just("p"),
    "holder": st.just("h"),
    "priority": st.sampled_from((0, 25, 50, 75)),
    "yields": st.sampled_from((0, 0, 0, 2, 3)),
}
some_allocations = st.lists(allocations, min_size=1, max_size=2).map(tuple)
requests = st.one_of(
    st.builds(
        LockRequest,
        segments=st.frozensets(segments, min_size=1, max_size=3),
        allocate=st.lists(allocations, max_size=1).map(tuple),
        mode=st.sampled_from((Mode.EXCLUSIVE, Mode.SHARED)),
        **common,
    ),
    st.builds(LockRequest, allocate=some_allocations, mode=st.just(Mode.APPEND), **common),
    st.builds(
        LockRequest,
        intervals=st.lists(spans, min_size=1, max_size=2, unique=True).map(tuple),
        version_above=st.one_of(st.none(), st.integers(0, 20)),
        mode=st.sampled_from((Mode.EXCLUSIVE, Mode.SHARED, Mode.REPLACE)),
        **common,
    ),
)
steps = st.one_of(
    requests,
    requests,
    st.tuples(st.sampled_from(("publish", "let_go")), st.sampled_from("abcde")),
)


@given(st.lists(steps, max_size=15))
def test_histories_agree_with_the_model(history: list[LockRequest | tuple[str, str]]) -> None:
    """Along any history of requests, publishing and releases, decide and model say the same."""
    twin = Twin()
    for step in history:
        if isinstance(step, tuple):
            getattr(twin, step[0])(step[1])
        else:
            twin.ask(step)


@given(st.lists(requests, max_size=7), st.data())
def test_places_are_served_in_one_order(queue: list[LockRequest], data: st.DataObject) -> None:
    """Of two places exactly one goes before the other, without circles; newcomers come last."""
    places = [place(request, n) for n, request in enumerate(queue)]
    firm = [request.yields >= 3 for request in queue]
    ranks = [(not firm[n], 0 if firm[n] else -each.priority, n) for n, each in enumerate(queue)]
    order = [places[n] for *_, n in sorted(ranks)]
    assert list(in_turn(places)) == order
    for n, request in enumerate(queue):
        before = ahead(request, places, n)
        assert sorted(before, key=order.index) == order[: order.index(places[n])]
    late = data.draw(requests)
    soft = late.yields < 3
    expected = [p for p in places if p.firm or (soft and p.priority >= late.priority)]
    assert ahead(late, places) == expected


def place(request: LockRequest, n: int) -> Lock:
    return Lock(
        group=f"{request.group}-{n}",
        purpose="p",
        holder="h",
        priority=request.priority,
        segments=request.segments,
        allocated=(),
        since=n,
        token=FencingToken("e", n),
        intervals=request.intervals,
        yields=request.yields,
        waiting=True,
    )
