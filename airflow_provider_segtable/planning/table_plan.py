"""Plan all kinds of a table's plans together, area by area.

1. An *area* is a time interval that is planned independently. It splits no chunk, neither of the
   current nor of the policy's granularity. So no plan of any kind spans two areas.
2. An area's *bound* is at least the urgency (``selection``) of every plan in it. It is computed
   from chunk summaries only: a plan of k segments removes at most k - 1, copies at least the k
   smallest, and tidies each copied byte at most once for each cause: it is unsorted or replaced,
   or rows in it are deleted.
3. The bound is 0 if no plan can be due: no finder expects a plan (``Finder.may_be_due``), and no
   row is deleted.
   A brief run asks first whether the bound of the whole table is 0, as it mostly is, and in an
   area it asks the finders alone that expect a plan. It remembers in which areas around a block of
   chunks a plan may be due, deleted rows aside: that holds as long as these blocks do
   (``Finder.may_be_due``). So after a commit it looks at the blocks that changed. What it
   remembers of stored blocks can be given to another process (``known_windows``).
4. A large table is examined area by area, the highest bound first, until the budget is used up, or
   the limit of one run is reached (``planning.selection``).
5. If a plan of a larger kind is due, it replaces the smaller ones that it makes unnecessary; if it
   does not fit the budget, the smaller ones are considered (``planning.selection``).
6. If a plan of a larger kind is due but others are pending, no new plan is made there: the area
   drains, so that continuous appends do not starve the larger kind.
7. No plan is made in an interval that a pending plan claims, or over segments of a pending plan.
8. The remaining candidates of all kinds are ranked by gain per cost and chosen within the budget.
9. Plans over the whole table come last, and outside of the budget (``Finder.in_table``).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from types import MappingProxyType
from typing import Any

from airflow_provider_segtable.core.chunk import ChunkSummary, least_size
from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.spans import AnyBlock
from airflow_provider_segtable.core.time import Instant, Interval, united
from airflow_provider_segtable.core.timeline import AnyChunk, Timeline
from airflow_provider_segtable.planning.finders.finder import Finder, finders
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    looking_at,
    planner_context,
    regions,
)
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import (
    BRIEFLY,
    Area,
    Candidate,
    Draining,
    Planned,
    Skipped,
    choose,
)


# Areas and their bounds
def areas(found: PlannerContext, *, due: bool = False) -> Iterator[Area]:
    """Yield the areas of a table, earliest first; or only those in which a plan may be due."""
    known = sorted(found.summaries(), key=_times)
    bound = _Bounds(found)
    at = 0
    for interval in _intervals(found, tuple([chunk for chunk, _ in known])):
        first = at
        while at < len(known) and known[at][0].interval.start < interval.end:
            at += 1
        inside = known[first:at]
        most = bound.of(interval, inside)
        if most or not due:
            segments = sum([summary.visible for _, summary in inside])
            yield Area(interval=interval, known=inside, segments=segments, bound=most)


def nothing_due(found: PlannerContext) -> bool:
    """Return whether no plan of any area can be due, asked of all chunks at once.

    What no finder expects of a whole table, it expects of no part of it.
    """
    known = found.summaries()
    if not known:
        return True
    whole = Interval(
        min([chunk.interval.start for chunk, _ in known]),
        max([chunk.interval.end for chunk, _ in known]),
    )
    return _Bounds(found).of(whole, known) == 0


def with_windows(found: PlannerContext) -> PlannerContext:
    """Limit a context to the times in which a plan may be due, asking no block of chunks twice."""
    bounds, state = _Bounds(found), found.state
    settings = _settings(state, found.policy, found.blocking)
    due = [each for b in state.timeline.blocks() for each in _due_in(found, bounds, b, settings)]
    return replace(found, windows=tuple(united(due)))


def _due_in(
    found: PlannerContext, bounds: "_Bounds", block: AnyBlock[AnyChunk], settings: tuple[Any, ...]
) -> Sequence[Interval]:
    """Return the areas around a block's chunks in which a plan may be due.

    The block's notes have them, with what they depend on: the settings, and the blocks there.
    """
    timeline, notes = found.state.timeline, block.notes
    if not (notes and notes[0] == settings and _same(notes[1], _beside(timeline, block, notes[2]))):
        around = _closed(found, Interval(block.start, block.end))
        inside = replace(found, windows=(around,))
        without = replace(inside, state=replace(found.state, vectors={}, predicate_deletes=()))
        due = [area.interval for area in areas(without, due=True)]
        notes[:] = [settings, _beside(timeline, block, around), around, due]
    return [notes[2]] if bounds.may_have_deleted(notes[2]) else notes[3]


def _settings(state: State, policy: Policy, blocking: Mapping[int, str]) -> tuple[Any, ...]:
    """Return what the windows of a block depend on, beside the blocks there."""
    return policy, state.table, state.overrides, dict(blocking)


def windows_basis(state: State, policy: Policy, blocking: Mapping[int, str]) -> str:
    """Return a digest of what known windows depend on, beside the blocks there."""
    return digest(repr(_settings(state, policy, blocking)).encode())


def known_windows(state: State) -> Mapping[str, Any] | None:
    """Return what brief runs remember of stored blocks, as JSON by name; None if one is not known.

    A block beside one without a name is left out: the latter may be another one elsewhere.
    """
    found: dict[str, Any] = {}
    for block in state.timeline.blocks():
        if block.name is None:
            continue
        if not block.notes:
            return None
        _, beside, around, due = block.notes
        names = [each.name for each in beside]
        if None not in names:
            some = due if len(due) <= MOST_WINDOWS else [around]
            found[block.name] = [_ends(around), names, [*map(_ends, some)]]
    return found


def remember_windows(
    state: State, policy: Policy, blocking: Mapping[int, str], known: Mapping[str, Any]
) -> None:
    """Note in stored blocks what another process knew of them, by the same basis."""
    settings, timeline = _settings(state, policy, blocking), state.timeline
    for block in timeline.blocks():
        name = block.name
        if block.notes or name is None or name not in known:
            continue
        around, names, due = known[name]
        beside = _beside(timeline, block, Interval(*around))
        if [each.name for each in beside] == names:
            block.notes[:] = [settings, beside, Interval(*around), [Interval(*d) for d in due]]


MOST_WINDOWS = 64
"""Most windows that are remembered of a stored block; if it has more, all of it is one."""


def _ends(interval: Interval) -> tuple[Instant, Instant]:
    return interval.start, interval.end


def _beside(
    timeline: Timeline, block: AnyBlock[AnyChunk], around: Interval
) -> Sequence[AnyBlock[AnyChunk]]:
    """Return the other blocks around; a block's notes are about itself in any case."""
    return [each for each in timeline.blocks(around) if each is not block]


def _same(some: Sequence[AnyBlock[AnyChunk]], other: Sequence[AnyBlock[AnyChunk]]) -> bool:
    return len(some) == len(other) and all(map(is_, some, other))


def _closed(found: PlannerContext, interval: Interval) -> Interval:
    """Return the interval widened until its ends split no chunk, of any granularity."""
    cut, layout = found.policy.cut.granularity, found.state.layout
    dividers = [layout.chunk, cut.chunk] if cut else [layout.chunk]
    wide, before = interval, None
    while wide != before:
        before = wide
        edges = [divide(at) for divide in dividers for at in (wide.start, wide.end - 1)]
        wide = Interval(
            min(wide.start, *(edge.start for edge in edges)),
            max(wide.end, *(edge.end for edge in edges)),
        )
        wide = found.state.timeline.closed(wide)
    return wide


_Known = Sequence[tuple[ChunkKey, ChunkSummary]]


def _times(known: tuple[ChunkKey, ChunkSummary]) -> tuple[int, int]:
    interval = known[0].interval
    return interval.start, interval.end


LEAST_BOUND = 1e-12
"""The bound of an area that gains nothing now, and may later without an event of the log."""


class _Bounds:
    """Computes the bounds of areas; equal sizes are computed once."""

    def __init__(self, found: PlannerContext) -> None:
        self._found = found
        self._deleted = _Deleted(found.state)
        self._finders = finders()
        self._most: dict[tuple[_Sizes, int], float] = {}

    def of(self, interval: Interval, inside: _Known) -> float:
        """Return the bound of an area."""
        dirty = self._deleted.may_hold(interval)
        if not (dirty or any(self._due(interval, inside))):
            return 0.0
        key = _sizes(inside), dirty + self._may_tidy(inside)
        if key not in self._most:
            sizes, causes = key
            self._most[key] = _most(sizes, self._found.policy, causes=causes)
        # Nothing to gain yet, as what may be tidied is not cold: its reason says until when.
        return self._most[key] or LEAST_BOUND

    def may_have_deleted(self, interval: Interval) -> bool:
        """Return whether the interval may have deleted rows."""
        return self._deleted.may_hold(interval)

    def finders(self, area: Area) -> list[Finder]:
        """Return the finders whose plans may be due in an area, the largest kind first."""
        if self._deleted.may_hold(area.interval):
            return [*self._finders[::-1]]
        due = zip(self._finders, self._due(area.interval, area.known), strict=True)
        return [finder for finder, may_be in due if may_be][::-1]

    def _due(self, interval: Interval, inside: _Known) -> Iterator[bool]:
        """Yield of each finder whether its plans may be due, deleted rows aside."""
        found, summaries = self._found, [summary for _, summary in inside]
        return (finder.may_be_due(found, interval, summaries) for finder in self._finders)

    def _may_tidy(self, inside: _Known) -> bool:
        return any(finder.may_tidy(self._found, inside) for finder in self._finders)


def _intervals(found: PlannerContext, chunks: tuple[ChunkKey, ...]) -> Iterator[Interval]:
    """Yield disjoint closed intervals around all chunks.

    Most chunks match the layout and overlap no other chunk; they need no search.
    """
    cut, layout = found.policy.cut.granularity, found.state.layout
    intervals = [chunk.interval for chunk in chunks]
    wide = []
    for interval in intervals:
        edges = [layout.chunk(interval.start)]
        if edges[0] == interval and cut is None:
            wide.append(interval)
            continue
        if edges[0] != interval:
            edges.append(layout.chunk(interval.end - 1))
        if cut:
            edges += [cut.chunk(interval.start), cut.chunk(interval.end - 1)]
        start = min(interval.start, *(edge.start for edge in edges))
        end = max(interval.end, *(edge.end for edge in edges))
        wide.append(Interval(start, end))
    joined = united(wide)
    if len(joined) == len(chunks) and all(map(is_, joined, intervals)):
        yield from joined
        return
    simple = set(intervals)
    starts = [chunk.interval.start for chunk in chunks]
    every: list[Interval] = []
    for one in joined:
        if one in simple:
            every.append(one)
            continue
        inside = chunks[bisect_left(starts, one.start) : bisect_left(starts, one.end)]
        every += [one, *regions(found, inside, found.policy.cut)]
    yield from united(every)


_Sizes = tuple[tuple[int, int], ...]


def _sizes(inside: _Known) -> _Sizes:
    """Return the number of segments by the bit length of their size; without a file it is 0."""
    sizes: dict[int, int] = {}
    for _, summary in inside:
        without_file = summary.visible
        for bits, count in summary.sizes.items():
            sizes[bits] = sizes.get(bits, 0) + count
            without_file -= count
        if without_file:
            sizes[0] = sizes.get(0, 0) + without_file
    return tuple(sorted(sizes.items()))


def _most(sizes: _Sizes, policy: Policy, *, causes: int) -> float:
    """Return an upper bound of gain per cost over all sets of segments (rule 2).

    Among segments of equal size the quotient is monotone in k, so only both ends are computed. It
    falls with the size, unless tidying a MiB gains more than a segment. Tidying alone gains no
    more than the first value.
    """
    tidying = causes * MIB / policy.target_size
    together = tidying <= 1
    best, count, size = tidying, 0, 0
    for bits, n in sizes:
        for more in (1, n):
            taken, copied = count + more, size + more * least_size(bits)
            if taken > 1:
                tidied = causes * copied / policy.target_size if together else 0
                best = max(best, (taken - 1 + tidied) / (1 + copied / MIB))
        count, size = count + n, size + n * least_size(bits)
    return best if together else best + tidying


class _Deleted:
    """The times that may have deleted rows, from the log alone, without decoding segments."""

    def __init__(self, state: State) -> None:
        self._erased = bool(state.predicate_deletes)
        self._roots = united({root.interval for root in state.vectors})
        self._starts = [interval.start for interval in self._roots]

    def may_hold(self, interval: Interval) -> bool:
        """Return whether the interval may have deleted rows."""
        if self._erased or not self._roots:
            return self._erased
        at = bisect_left(self._starts, interval.end)
        return at > 0 and self._roots[at - 1].overlaps(interval)


# Plans of every kind
def plan_all(
    state: State,
    policy: Policy,
    now: Instant,
    blocking: Mapping[int, str] = MappingProxyType({}),
    explain: int | None = None,
) -> Planned:
    """Return the plans of every kind for a table.

    Args:
        state: the table at one version.
        policy: the conditions for each kind of plan.
        now: the wall clock, for ages.
        blocking: schemas whose files keep the table from being published, each with the reason.
        explain: a table of more segments (``selection.LOOKS``) is not examined further for the
            sake of its reasons; ``BRIEFLY``: what has nothing to gain gets none.

    Returns:
        The chosen plans, best first, and a reason for everything skipped.
    """
    found = replace(planner_context(state, policy, now), blocking=blocking)
    brief = explain == BRIEFLY
    found = with_windows(found) if brief else found
    bounds = _Bounds(found)
    skipped: list[Skipped] = []

    def look(area: Area) -> list[Candidate]:
        largest_first = bounds.finders(area) if brief else finders()[::-1]
        return candidates_in(looking_at(found, area.interval), largest_first, skipped)

    some = () if brief and nothing_due(found) else areas(found, due=brief)
    chosen = _with_tables(found, choose((), policy, skipped, some, look, explain))
    return replace(chosen, due=_due(found, chosen))


def _due(found: PlannerContext, planned: Planned) -> Instant | None:
    """Return when the plans may be others without an event of the log; None: never."""
    if not planned.whole:
        return found.now
    times = [*found.rests_end, *(each.until for each in planned.skipped)]
    return min((at for at in times if at is not None), default=None)


def _with_tables(found: PlannerContext, planned: Planned) -> Planned:
    """Add the plans over the whole table, which know the others of the run."""
    skipped: list[Skipped] = []
    added = (finder.in_table(found, planned.chosen, skipped) for finder in finders())
    more = tuple(plan for some in added for plan in some)
    return replace(planned, chosen=planned.chosen + more, skipped=planned.skipped + tuple(skipped))


def candidates_in(
    found: PlannerContext, largest_first: Sequence[Finder], skipped: list[Skipped]
) -> list[Candidate]:
    """Return the candidates of some kinds in the context's interval; add reasons for the rest."""
    due = [finder.in_interval(found, skipped) for finder in largest_first]
    draining = [one for some in due for one in some if isinstance(one, Draining)]
    ranked: list[Candidate] = []
    for chunk in found.open_chunks(skipped):
        drain = _holding(draining, chunk)
        if drain is None:
            ranked += _of_chunk(found, chunk, largest_first, skipped)
        else:
            skipped.append(_waiting(drain, chunk))
    for some in reversed(due):
        ranked = _ranked([one for one in some if isinstance(one, Candidate)], ranked)
    return ranked


def _of_chunk(
    found: PlannerContext,
    chunk: ChunkKey,
    largest_first: Sequence[Finder],
    skipped: list[Skipped],
) -> list[Candidate]:
    ranked: list[Candidate] = []
    for finder in largest_first:
        smaller: list[Candidate] = []
        for one in finder.in_chunk(found, chunk, skipped):
            if isinstance(one, Draining):
                skipped.append(_waiting(one, chunk))
                return ranked
            smaller.append(one)
        ranked = _placed(ranked, smaller)
    return ranked


def _placed(larger: Sequence[Candidate], smaller: Sequence[Candidate]) -> list[Candidate]:
    """Put each smaller candidate behind the larger one that contests its segments, if any."""
    if not larger:
        return list(smaller)
    claims = [one.plan.claim for one in larger]
    behind: list[list[Candidate]] = [[] for _ in larger]
    beside: list[Candidate] = []
    for one in smaller:
        own = one.plan.claim
        at = next((at for at, claim in enumerate(claims) if claim.excludes(own)), None)
        (beside if at is None else behind[at]).append(one)
    return [
        *(
            _before(one, _placed(one.instead, some))
            for one, some in zip(larger, behind, strict=True)
        ),
        *beside,
    ]


def _ranked(larger: Sequence[Candidate], smaller: Sequence[Candidate]) -> list[Candidate]:
    """Put each smaller candidate behind the one over an interval that overlaps it, if any."""
    behind: dict[str, list[Candidate]] = {one.plan.id: [] for one in larger}
    ranked: list[Candidate] = []
    by_start = sorted(larger, key=lambda one: one.plan.interval)
    for one in smaller:
        over = _covering(by_start, one)
        (behind[over.plan.id] if over else ranked).append(one)
    return [*(_before(one, behind[one.plan.id]) for one in larger), *ranked]


def _covering(larger: Sequence[Candidate], one: Candidate) -> Candidate | None:
    """Return the overlapping candidate; ``larger`` are sorted and disjoint in time."""
    interval = one.plan.interval
    at = bisect_right(larger, interval.start, key=lambda other: other.plan.interval.start) - 1
    near = larger[max(at, 0) : at + 2]
    return next((other for other in near if other.plan.interval.overlaps(interval)), None)


def _before(larger: Candidate, smaller: Sequence[Candidate]) -> Candidate:
    return replace(larger, instead=tuple(smaller))


def _waiting(one: Draining, chunk: ChunkKey) -> Skipped:
    return Skipped(chunk=chunk, partitions=(), reason=one.reason, kind=one.kind)


def _holding(draining: Sequence[Draining], chunk: ChunkKey) -> Draining | None:
    return next((one for one in draining if one.interval.overlaps(chunk.interval)), None)
