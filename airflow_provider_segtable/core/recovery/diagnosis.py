"""Diagnosis: findings about a table, and the checks that need its log alone.

1. A *finding* names the problem, its place, why it matters, and the way out. Its ``code`` is a
   stable word for scripts. Its ``where`` is a path below the table's root, or a version.
2. Severities, from harmless to worst: INFO (no action needed), WARNING (costs time, space or
   speed), UNCHECKED (could not be checked), CRITICAL (rows or commits are affected).
3. An event changes only the intervals that it touches. ``violations_since`` checks the invariants
   there on a newly built timeline, and compares its visible segments with the incremental one's.
4. A file and the log agree if the footer's descriptor equals the log's. A carried-over segment may
   have another id and shard in the log.
5. Each finding about damage has one function here (``damaged_file``), which names its meaning, why
   it matters, and the way out. ``segtable verify`` reports them.

Source of the idea: ``fsck`` and ZFS' scrub; invariants by window as in incremental view checks.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from shlex import quote

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.events import Event, touched
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, with_base_of
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Timeline

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

    def facts(self) -> Facts:
        """Return the finding as plain JSON values."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "where": self.where,
            "what": self.what,
            "why": self.why,
            "do": self.do,
        }

    def of_table(self, uri: str) -> "Finding":
        """Return the finding with a table's address, as a shell takes it, for ``TABLE``."""
        return replace(self, do=re.sub(rf"\b{TABLE}\b", lambda _: quote(uri), self.do))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if there are no findings."""
    return max((f.severity for f in findings), key=lambda each: each.rank, default=None)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, the worst first; equal severities keep their order."""
    return sorted(findings, key=lambda finding: -finding.severity.rank)


# Checks of the log
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
    pieces = list(whole_chunks(state.timeline, intervals))
    present = [s for piece in pieces for s in state.timeline.segments(piece)]
    part = Timeline.empty().with_changes(add=present)
    for piece in pieces:
        if part.visible_segments(piece) != state.timeline.visible_segments(piece):
            yield f"visible segments of {piece} differ from those of a rebuilt timeline"
    yield from violations(replace(state, timeline=part))


def whole_chunks(timeline: Timeline, touched: Iterable[Interval]) -> Iterator[Interval]:
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


# Findings about damage
_critical = partial(Finding, severity=Severity.CRITICAL)

_BUG = "stop compaction of this table, keep its log, and report this as a bug of segtable"
_BACKUP = "restore this file from a backup or another replica of the storage"
_CONTINUE = (
    f"{_BACKUP}; without one, stop all writers, and let the log go on without it: segtable repair "
    "TABLE shows the recovered rows, and writes nothing without --yes"
)


def damaged_file(segment: Segment, code: str, what: str) -> Finding:
    """Report a data file that differs from its descriptor in the log."""
    size = segment.shard.group_size
    group = f", one of {size} in an atomic update group" if size > 1 else ""
    return _critical(
        code=code,
        where=segment.path,
        what=f"file of segment {segment.id} ({counted(segment.rows, 'row')}{group}): {what}",
        why="scans of its time chunk fail, or give other rows than were committed",
        do=_restore(segment),
    )


def _restore(segment: Segment) -> str:
    wrote = segment.file_id  # restored and carried-over segments have other ids
    made = segment.shard.base or wrote.partition in wrote.chunk.numbering.later
    away = f"restore {segment.path} from a backup; without one, move it away and"
    return (
        f"{away} fall back to its inputs: segtable repair TABLE"
        if made
        else f"{away} continue without its rows: segtable repair TABLE --accept-loss"
    )


def unread_file(segment: Segment, error: SegtableError) -> Finding:
    """Report a data file that could not be checked because storage failed."""
    problem = f"file of segment {segment.id} could not be read: {error}"
    return unread(segment.path, problem, code="unread")


def damaged_vectors(path: str, code: str, what: str, rows: int) -> Finding:
    """Report a file of deletion vectors that is missing or differs from the log."""
    return _critical(
        code=code,
        where=path,
        what=f"deletion vectors of {counted(rows, 'row')}: {what}",
        why="scans of segments that may have these rows fail; no other file records the deletions",
        do=f"restore {path} from a backup; without one, move _segtable away, and rebuild the log "
        "with the remaining deletions: segtable repair TABLE --deletes apply",
    )


def unread_settlement(path: str, code: str, what: str) -> Finding:
    """Report a file of settled rows that cannot be read: its groups are merged at read."""
    return Finding(
        code=code,
        severity=Severity.WARNING,
        where=path,
        what=f"settled rows: {what}",
        why="reads of its file groups merge all their files, so they are slower",
        do="segtable settle TABLE",
    )


def wrong_settlement(path: str, what: str) -> Finding:
    """Report a file of settled rows that contradicts the rows of the files."""
    return _critical(
        code="wrong-settled-rows",
        where=path,
        what=f"settled rows: {what}",
        why="reads show other rows than the records of their keys make",
        do=f"delete {path}: reads merge all files then; and run segtable settle TABLE",
    )


def unread_vectors(path: str, error: SegtableError) -> Finding:
    """Report a file of deletion vectors that could not be checked because storage failed."""
    return unread(path, f"deletion vectors could not be read: {error}", code="unread")


def unread(where: str, what: str, *, code: str) -> Finding:
    """Report an object that could not be checked because storage failed."""
    return Finding(
        code=code,
        severity=Severity.UNCHECKED,
        where=where,
        what=what,
        why="damage there is unknown until the check is repeated",
        do="make the storage readable from this host, then run the check again",
    )


def broken_log_range(where: str, code: str, what: str) -> Finding:
    """Report committed records of the log store that differ from the log."""
    return _critical(
        code=code,
        where=where,
        what=what,
        why="readers of the log store stop there, or miss records; scans do not depend on it",
        do="let readers begin again after a scan of the table; restore the files from a backup if "
        "records are needed by their offsets",
    )


def broken_event(where: str, what: str) -> Finding:
    """Report an event that is torn, misplaced, or cannot follow its predecessor."""
    return _critical(
        code="broken-event",
        where=where,
        what=what,
        why="the table cannot be read past this event, unless a later checkpoint exists",
        do=_CONTINUE,
    )


def broken_invariant(n: int, what: str) -> Finding:
    """Report a state of the log that breaks an invariant."""
    return _critical(
        code="invariant",
        where=f"version {n}",
        what=what,
        why="the log contradicts itself: readers see too many or too few rows",
        do=_BUG,
    )


def doubled_file(path: str, segments: tuple[Segment, ...]) -> Finding:
    """Report a file that several visible segments share."""
    names = ", ".join(str(segment.id) for segment in segments)
    return _critical(
        code="doubled-file",
        where=path,
        what=f"visible segments {names} share this file",
        why="its rows are read more than once",
        do=_BUG,
    )


def wrong_checkpoint(where: str, n: int) -> Finding:
    """Report a readable checkpoint that differs from the fold of the log."""
    return _critical(
        code="wrong-checkpoint",
        where=where,
        what=f"the checkpoint of version {n} differs from the log's events",
        why="readers and compactions that open the table by it work on a wrong state",
        do=f"delete {where}: the log can be read without it",
    )


def bad_checkpoint(path: str, error: str, *, other_format: bool) -> Finding:
    """Report a checkpoint that cannot be read."""
    return Finding(
        code="old-checkpoint" if other_format else "bad-checkpoint",
        severity=Severity.INFO if other_format else Severity.WARNING,
        where=path,
        what=error,
        why="without this checkpoint, opening the table takes longer",
        do=f"delete {path}; a writer writes the next one",
    )


def log_gap(where: str, n: int, last: int) -> Finding:
    """Report a missing event in the middle of the log."""
    return _critical(
        code="log-gap",
        where=where,
        what=f"event {n} is missing, but later events exist (up to {last})",
        why="for every reader the log ends before the gap, without the later commits",
        do=_CONTINUE,
    )


def log_without_base(where: str, first: int) -> Finding:
    """Report a log whose start expired, without a readable checkpoint to continue from."""
    return _critical(
        code="log-without-base",
        where=where,
        what=f"the log begins with event {first}, and no later checkpoint can be read",
        why="the table cannot be opened",
        do=f"restore {where} from a backup, or rebuild the log from the files: "
        "segtable repair TABLE",
    )


def bad_tag(where: str, name: str, what: str, *, lost: bool) -> Finding:
    """Report a missing or wrong checkpoint of a tagged version."""
    return Finding(
        code="bad-tag",
        severity=Severity.CRITICAL if lost else Severity.WARNING,
        where=where,
        what=f"tag {name!r}: {what}",
        why="the tagged version cannot be read"
        if lost
        else "the version is lost as soon as the events that lead to it expire",
        do=_BACKUP if lost else f"delete {where}, and tag the version again",
    )
