"""Diagnosis: findings, and the checks of a table that need its log alone.

1. A *finding* names the problem, its place, why it matters, and the way out. Its ``code`` is a
   stable word for scripts.
2. Severities, from harmless to worst: INFO (no action needed), WARNING (costs time, space or
   speed), UNCHECKED (could not be checked), CRITICAL (rows or commits are affected).
3. An event changes only the intervals that it touches. ``violations_since`` checks the invariants
   there on a newly built timeline, and compares its visible segments with the incremental one's.
4. A file and the log agree if the footer's descriptor equals the log's. A carried-over segment may
   have another id and shard in the log.

Source of the idea: ``fsck`` and ZFS' scrub; invariants by window as in incremental view checks.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote

from airflow_provider_segtable.core.log.events import Event, touched
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.base import with_base_of
from airflow_provider_segtable.core.segments.invariants import violations
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Interval

TABLE = "TABLE"
"""Stands for the table's address in the commands of findings."""


class Severity(StrEnum):
    """The severity of a finding; see the module."""

    INFO = "info"
    WARNING = "warning"
    UNCHECKED = "unchecked"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Return the rank, from 0 for the most harmless."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem: ``what`` it is, ``why`` it matters, and what to ``do``."""

    code: str
    severity: Severity
    where: str
    what: str
    why: str
    do: str

    def of_table(self, uri: str) -> "Finding":
        """Return the finding with a table's address, as a shell takes it, for ``TABLE``."""
        return replace(self, do=re.sub(rf"\b{TABLE}\b", lambda _: quote(uri), self.do))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if there are no findings."""
    return max((f.severity for f in findings), key=lambda each: each.rank, default=None)


def violations_since(state: State, event: Event) -> Iterator[str]:
    """Yield the violations in the intervals that the last event touched.

    Args:
        state: the state right after ``event``.
        event: the last event.
    """
    intervals = touched(event.action)
    if intervals is None:
        yield from violations(state)
        return
    pieces = list(_whole_chunks(state.timeline, intervals))
    present = [s for piece in pieces for s in state.timeline.segments(piece)]
    part = Timeline.empty().with_changes(add=present)
    for piece in pieces:
        if part.visible_segments(piece) != state.timeline.visible_segments(piece):
            yield f"visible segments of {piece} differ from those of a rebuilt timeline"
    yield from violations(replace(state, timeline=part))


def _whole_chunks(timeline: Timeline, touched: Iterable[Interval]) -> Iterator[Interval]:
    """Widen intervals until no chunk extends beyond them, and join overlapping ones."""
    held: Interval | None = None
    for wanted in sorted(touched):
        interval = wanted
        while True:
            chunks = [interval, *(key.interval for key in timeline.chunk_keys(interval))]
            wider = Interval(min(c.start for c in chunks), max(c.end for c in chunks))
            if wider == interval:
                break
            interval = wider
        if held and held.overlaps(interval):
            held = Interval(min(held.start, interval.start), max(held.end, interval.end))
            continue
        if held:
            yield held
        held = interval
    if held:
        yield held


def shared_files(state: State) -> Iterator[tuple[str, tuple[Segment, ...]]]:
    """Yield files with more than one visible segment, with these: their rows are doubled."""
    seen: set[int] = set()
    twice: dict[str, list[Segment]] = {}
    for segment in state.timeline.each_visible():  # hashes, as a million paths need much memory
        if segment.path and hash(segment.path) in seen:
            twice[segment.path] = []
        seen.add(hash(segment.path))
    for segment in state.timeline.each_visible() if twice else ():
        if segment.path in twice:
            twice[segment.path].append(segment)
    yield from ((path, tuple(some)) for path, some in twice.items() if len(some) > 1)


_OF_THE_FILE = (
    *("rows", "row_groups", "time_min", "time_max"),
    *("created", "events", "clustering", "schema"),
)
_OF_THE_SEGMENT = ("shard", "lineage", "replaces")


def disagreements(segment: Segment, footer: Segment) -> Iterator[str]:
    """Yield the differences between a segment's descriptors in the log and in the file's footer.

    A carried segment's place, and so its base, is not that of its file.
    """
    names = _OF_THE_FILE if segment.origin else (*_OF_THE_FILE, *_OF_THE_SEGMENT)
    footer = footer if segment.origin else with_base_of(footer, segment)
    for name in names:
        logged, found = getattr(segment, name), getattr(footer, name)
        if logged != found:
            yield f"{name}: the log says {logged!r}, the footer {found!r}"
