"""Row balance: a plan's outputs account for all rows of its inputs, at every commit.

1. The outputs have as many events (ingested rows, before rollup) as the inputs, less the rows
   deleted through the outputs' ``deletes_applied_through``. If the log records how many deleted
   rows the inputs had, that number is exact, else an upper bound.
2. The table's kind adds what outputs owe to their inputs besides (``TableKind.unaccounted``): an
   append table's have as many rows, under roots that the inputs may hold.

Each kind of plan adds what it requires of the outputs' ids and places (``Plan.imbalance``).
"""

from collections.abc import Iterable, Sequence

from airflow_provider_segtable.core.deletes.deletion import roots_among
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId


def present(ids: Iterable[SegmentId], state: State) -> tuple[Segment, ...]:
    """Return the segments that are in the table, in the order of their ids."""
    return tuple(segment for i in ids if (segment := state.timeline.get(i)))


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
