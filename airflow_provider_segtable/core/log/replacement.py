"""Replacement: a new version of a region carries over appended segments, and rows balance.

1. A major compaction writes the *core set* of each chunk of its region at a new version. Where
   the region has no rows, tombstones hide the segments of older versions.
2. Segments appended to the region while the compaction ran (visible, but not inputs) are *carried
   over*: each gets the next partition of its chunk at the new version. Its file is not changed.
3. An append that commits after the version changed is carried over in the same way, by its own
   commit.
4. A segment can be carried over if all its rows lie in one chunk of the layout, and were divided
   by the number of buckets that the layout has there. This is certain if granularity stays or gets
   coarser in all of the region: appends continue beside such a compaction and wait for any other
   (``core.log.major_plan``). If an append slips in because locks were lost, the commit is a
   conflict; no row is lost. Writers of primary-key tables hold no locks: the later committer,
   writer or compaction, divides the rows of the log file again.
5. Chunks of one version do not hide rows of each other.
6. *Row balance*, at every commit: a plan's outputs account for all rows of its inputs. They have
   as many events (ingested rows, before rollup) as the inputs, less the rows deleted through the
   outputs' ``deletes_applied_through``. If the log records how many deleted rows the inputs had,
   that number is exact, else an upper bound.
7. The table's kind adds what outputs owe to their inputs besides (``TableKind.unaccounted``): an
   append table's have as many rows, under roots that the inputs may hold.
8. Each kind of plan adds what it requires of the outputs' ids and places (``Plan.imbalance``).

Source of the idea: Druid's concurrent append and replace (``upgrade_segments``). Here the log
decides in one place; in Druid each appender records it.
"""

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_segtable.core.deletion import roots_among
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    Place,
    Segment,
    SegmentId,
    tombstone,
)
from airflow_provider_segtable.core.time import Granularity, Instant, Interval, Layout


def moved(segment: Segment, state: State) -> ChunkKey | Conflict:
    """Return the chunk that an appended segment belongs to now."""
    place = home(segment, state.layout)
    return place if isinstance(place, Conflict) else state.append_chunk(*place)


def home(segment: Segment, layout: Layout) -> Place | Conflict:
    """Return the place of a segment's rows in a layout, or the conflict if they have several."""
    interval = layout.holds(segment.time_min, segment.time_max)
    if interval is None:
        return torn(segment, layout)
    buckets = layout.own_buckets(segment.time_min)
    if segment.buckets != buckets:
        was, now = segment.buckets or layout.buckets, buckets or layout.buckets
        return Conflict(
            reason=f"buckets were divided anew: rows of {segment.id} are in one of {was}, but "
            f"{interval} has {now} now; write them again"
        )
    return Place(interval, segment.id.bucket)


def tombstones(
    region: Interval,
    covered: Iterable[Interval],
    version: Instant,
    created: Instant,
    bucket: int = NO_BUCKET,
) -> Iterator[Segment]:
    """Yield a tombstone for every part of the region that no chunk (of the bucket) covers."""
    at = region.start
    for interval in sorted(covered):
        if at < interval.start:
            yield tombstone(ChunkKey(Interval(at, interval.start), version, bucket), created)
        at = max(at, interval.end)
    if at < region.end:
        yield tombstone(ChunkKey(Interval(at, region.end), version, bucket), created)


def closed_region(region: Interval, granularity: Granularity | None, state: State) -> Interval:
    """Return the smallest enclosing region that splits no chunk, old or new."""
    before: Interval | None = None
    while region != before:
        before = region
        for chunk in state.timeline.visible_chunks(region):
            region = Interval(
                min(region.start, chunk.interval.start), max(region.end, chunk.interval.end)
            )
        for edge in (region.start, region.end - 1):
            cut = granularity.chunk(edge) if granularity else state.layout.chunk(edge)
            region = Interval(min(region.start, cut.start), max(region.end, cut.end))
    return region


def hidden_by_equals(segments: Iterable[Segment]) -> Iterator[tuple[Segment, ChunkKey]]:
    """Yield each segment with a first or last row in a winning chunk of its version, and the chunk.

    Among chunks of one version, the later start wins, then the earlier end.
    """
    members: dict[ChunkKey, list[Segment]] = {}
    for segment in segments:
        members.setdefault(segment.id.chunk, []).append(segment)
    begun: dict[tuple[Instant, int], list[ChunkKey]] = {}
    for chunk in sorted(members, key=lambda c: (c.interval.start, -c.interval.end)):
        here = begun.setdefault((chunk.version, chunk.bucket), [])
        here[:] = [other for other in here if other.interval.end > chunk.interval.start]
        for segment in (s for other in here for s in members[other] if s.rows):
            inside = (chunk.interval.holds(at) for at in (segment.time_min, segment.time_max))
            if any(inside):
                yield segment, chunk
        here.append(chunk)


def torn(segment: Segment, layout: Layout) -> Conflict:
    """Return the conflict of a segment with rows in two chunks of the layout."""
    first, last = layout.chunk(segment.time_min), layout.chunk(segment.time_max)
    return Conflict(
        reason=f"time was repartitioned: {segment.id} has rows in {first} and {last}; "
        "write it again"
    )


def present(ids: Iterable[SegmentId], state: State) -> tuple[Segment, ...]:
    """Return the segments that are in the table, in the order of their ids."""
    return tuple(segment for i in ids if (segment := state.timeline.get(i)))


# Row balance of outputs and inputs
def unaccounted(
    inputs: Sequence[Segment], segments: Sequence[Segment], state: State
) -> Iterable[str]:
    """Report every difference between the rows of outputs and those of the inputs.

    Args:
        inputs: the inputs of the attempt.
        segments: the outputs of the attempt.
        state: the table before the commit.
    """
    yield from _purged(inputs, segments, state)
    yield from _amounts(inputs, segments, state)


def unequal(what: str, found: object, expected: object) -> Iterable[str]:
    """Report a value that differs from the expected one."""
    if found != expected:
        yield f"{what}: expected {expected}, found {found}"


def _amounts(inputs: Sequence[Segment], segments: Sequence[Segment], state: State) -> Iterable[str]:
    least, most = _deleted(inputs, segments, state)
    given, made = _events(inputs), _events(segments)
    yield from _outside("events", made, given - most, given - least)
    yield from state.table.kind.unaccounted(inputs, segments)


def _purged(inputs: Sequence[Segment], segments: Sequence[Segment], state: State) -> Iterable[str]:
    found = {segment.deletes_applied_through for segment in segments}
    least = max((segment.deletes_applied_through for segment in inputs), default=0)
    if len(found) > 1:
        yield f"outputs are purged up to different events: {sorted(found)}"
    for n in found:
        if not least <= n <= state.n:
            yield f"outputs are purged up to event {n}: expected {least} to {state.n}"


def _deleted(
    inputs: Sequence[Segment], segments: Sequence[Segment], state: State
) -> tuple[int, int]:
    """Return the least and the most rows that the outputs may leave out."""
    upto = max((segment.deletes_applied_through for segment in segments), default=state.n)
    if any(each.n <= upto for segment in inputs for each in state.erased(segment)):
        return 0, _events(inputs)
    due = {
        (root, each)
        for segment in inputs
        for root, some in state.deletions(segment).items()
        for each in some
        if each.n <= upto
    }
    deletes_applied_through = _purged_whole({root for root, _ in due}, inputs, state)
    exactly = sum(each.rows for root, each in due if deletes_applied_through[root] < each.n)
    return exactly, sum(each.rows for _, each in due)


def _purged_whole(
    roots: set[SegmentId], inputs: Sequence[Segment], state: State
) -> dict[SegmentId, int]:
    """Return, by root, the latest event whose deletes may be applied already in a part of its rows.

    For rows outside the inputs that is ``state.n``. A tombstone counts for every root, because it
    does not name the roots that it replaced.
    """
    given = {segment.id for segment in inputs}
    deletes_applied_through = dict.fromkeys(roots, 0)
    for interval in {root.interval for root in roots}:
        here = {root for root in roots if root.interval == interval}
        for segment in state.timeline.visible_segments(interval):
            for root in here if segment.tombstone else roots_among(segment, here):
                inside = segment.id in given
                deletes_applied_through[root] = max(
                    deletes_applied_through[root],
                    segment.deletes_applied_through if inside else state.n,
                )
    return deletes_applied_through


def _events(segments: Iterable[Segment]) -> int:
    return sum(segment.events for segment in segments)


def _outside(what: str, found: int, least: int, most: int) -> Iterable[str]:
    if not least <= found <= most:
        expected = most if least == most else f"{least} to {most}"
        yield f"{what}: expected {expected}, found {found}"
