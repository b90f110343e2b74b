"""Judge whether an interval is compact enough: one verdict for all sensor modes."""

from dataclasses import dataclass

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.properties.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a wait is over, with a status message."""

    satisfied: bool
    message: str
    small_segments: int
    version: int


def judge_small_segments(
    state: State, policy: Policy, interval: Interval | None, at_most: int | None
) -> Verdict:
    """Judge whether ``interval`` has at most ``at_most`` visible small segments in each chunk.

    By default at most as many as the policy leaves uncompacted: one less than ``min_segments``.
    The policy defines small segments; tombstones do not count. Pending plans do not count as done.
    """
    wanted = policy.min_segments - 1 if at_most is None else at_most
    counts: dict[str, int] = {}
    for found in state.timeline.lookup(interval):
        small = sum(1 for s in found.segments if s.rows and s.size < policy.small_size)
        counts[str(found.chunk.interval)] = counts.get(str(found.chunk.interval), 0) + small
    worst = max(counts, key=lambda name: counts[name], default=None)
    found_most = counts[worst] if worst else 0
    where = f", most in {worst}" if worst else ""
    return Verdict(
        satisfied=found_most <= wanted,
        message=f"{counted(found_most, 'small segment')} a chunk (at most {wanted} wanted){where}",
        small_segments=found_most,
        version=state.n,
    )
