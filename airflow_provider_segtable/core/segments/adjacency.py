"""Adjacency: which groups of a chunk may be compacted together.

Druid's three restrictions, which keep a compacted segment's ancestry one contiguous root range:

1. First-generation segments are adjacent if their partition ids are consecutive; ids that were
   *voided* are skipped, so a writer that gave up does not separate its neighbours for ever.
2. Groups of later generations are adjacent if their root ranges are consecutive.
3. All segments of a group (made from the same roots) are compacted together.
"""

from collections.abc import Collection, Sequence

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segments.segment import SegmentId
from airflow_provider_segtable.core.segments.timeline import Group


def adjacent(left_end: int, right_start: int, voided: Collection[int]) -> bool:
    """Return whether all partition ids between two root ranges are voided."""
    return all(partition in voided for partition in range(left_end, right_start))


def check_contiguous(
    plan_id: str,
    inputs: Collection[SegmentId],
    roots: tuple[int, int],
    groups: Sequence[Group],
    voided: Collection[int],
) -> None:
    """Refuse a plan that breaks a restriction.

    Args:
        plan_id: the plan, for the message.
        inputs: its input segments.
        roots: the first root that its outputs stand for, and the first after them.
        groups: the visible groups of its chunk, in root order.
        voided: the chunk's voided first-generation ids.

    Raises:
        InvalidInput: with the plan and the restriction that it breaks.
    """
    wanted = set(inputs)
    chosen = [g for g in groups if wanted & {s.id for s in g.segments}]
    whole = {segment.id for group in chosen for segment in group.segments}
    if whole != wanted:
        torn = sorted(map(str, whole ^ wanted))
        raise InvalidInput(f"plan {plan_id} takes groups apart or names strangers: {torn}")
    start, end = roots
    edges = [start, *(e for g in chosen for e in (g.key.root_start, g.key.root_end)), end]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    if not all(adjacent(left, right, voided) for left, right in gaps):
        raise InvalidInput(
            f"plan {plan_id} is not contiguous over [{start}, {end}): "
            f"its groups cover {[(g.key.root_start, g.key.root_end) for g in chosen]}"
        )
