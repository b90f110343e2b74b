"""Measure a table's backlog as numbers, for metrics and ``describe``.

1. Every number follows from the state of the log, the policy and the time: no file is opened.
2. The numbers come from the summaries of chunks. A chunk is decoded only if the limit of small
   segments lies within the sizes of one count of its summary.
3. An index lags behind while it lacks entries of committed files (``core.catch_up``).
"""

from collections import Counter
from collections.abc import Iterator

from airflow_provider_segtable.core.catch_up import catch_up
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.planning.properties import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A number of a table; ``part`` names the index or format that it is about.

    An age has ``since`` instead of a value, because it grows while the table stays as it is.
    """

    name: str
    value: float = 0.0
    part: str = ""
    since: Instant | None = None

    def at(self, now: Instant) -> float:
        """Return the number at a time; an age in seconds."""
        return self.value if self.since is None else max(0.0, (now - self.since) / SECOND_US)


def gauges(state: State, policy: Policy, now: Instant) -> Iterator[Gauge]:
    """Yield a table's size, its backlog, and the lag of each of its indexes."""
    shown, pending = state.timeline.visible_summaries().values(), state.pending_plans()
    visible = sum(summary.visible for summary in shown)
    oldest = min((known.requested_at for known in pending), default=None)
    small = sum(number for _, number in _small(state.timeline, policy))
    yield Gauge(name="table.segments", value=sum(summary.files for summary in shown))
    yield Gauge(name="table.bytes", value=sum(summary.size for summary in shown))
    yield Gauge(name="backlog.small_segments", value=small)
    yield Gauge(name="backlog.hidden_segments", value=len(state.timeline) - visible)
    yield Gauge(name="plans.pending", value=len(pending))
    yield Gauge(name="plans.oldest_seconds", since=oldest)
    for name in state.indexes:
        lag = catch_up(state, name, now=now)
        yield Gauge(name="index.lag_commits", value=lag.lag_commits, part=name)
        since = now - round(lag.lag_s * SECOND_US) if lag.lag_s else None
        yield Gauge(name="index.lag_seconds", since=since, part=name)


def small_segments(timeline: Timeline, policy: Policy) -> Counter[Interval]:
    """Return the number of visible small segments of each time chunk."""
    chunks: Counter[Interval] = Counter()
    for chunk, number in _small(timeline, policy):
        chunks[chunk.interval] += number
    return chunks


def _small(timeline: Timeline, policy: Policy) -> Iterator[tuple[ChunkKey, int]]:
    """Yield the number of visible small segments of each chunk."""
    limit = policy.small_size
    for chunk, summary in timeline.visible_summaries().items():
        small = summary.smaller_files(limit)
        yield chunk, _decoded(timeline, chunk, policy) if small is None else small


def _decoded(timeline: Timeline, chunk: ChunkKey, policy: Policy) -> int:
    found = (s for group in timeline.visible_groups(chunk) for s in group.segments)
    return sum(segment.size < policy.small_size for segment in found if not segment.tombstone)
