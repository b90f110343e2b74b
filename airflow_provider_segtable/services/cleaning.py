"""Cleaning: what nobody can need any more is taken away, the name first and the data last.

1. ``Cleaned`` takes hidden segments from the timeline and dooms their files (``core.log.cleanable``
   decides which); then the doomed files are deleted; then ``Swept`` forgets them. After a crash
   in between, the next run deletes the doomed again: it does no harm to delete a file twice.
   Deletions that no present segment needs are forgotten by ``Cleaned``, and doom their files.
2. *Orphans* are files below ``data/`` and ``deletes/`` that nobody names: not a segment, not a
   deletion, not the list of the doomed. They go when they are older than ``orphan_hours``, and than
   every attempt in flight.
3. The *log expires* behind the newest readable checkpoint that is no newer than the oldest kept
   version: marker first, then events from the oldest on, then checkpoints
   (``table.log.event_log``).
4. On any doubt nothing is deleted: a listing, tag or checkpoint that cannot be read is an error
   before the first deletion. So is a clock that differs from the storage's own, which is measured
   by an object that is put and listed. Ages go by the earlier of the two.
5. Any number of cleaners may run at once, beside anybody. There is no lock: the log decides what
   may go, and a deletion is of a file that nobody can name again.
6. What is deleted rests on names that others wrote, and that a power cut may take back: the folders
   of the log, its checkpoints and its markers are settled first (``Storage.settle``).
7. The dry run is the same object; it does everything up to the first write.

Source of the idea: Hudi's cleaner and Paimon's snapshot expiry and orphan cleaning.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletes.deletion import paths
from airflow_provider_segtable.core.errors import AlreadyExists, ClockSkew, CommitConflict
from airflow_provider_segtable.core.log.cleanable import Cleanable, Keep, cleanable
from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import Cleaned, Event, Swept, TableRepaired
from airflow_provider_segtable.core.log.state import State, apply, forgettable
from airflow_provider_segtable.core.plans.plan_state import PlanStatus
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.deletes.vector_file import FOLDER as DELETES
from airflow_provider_segtable.planning.retention import HOUR_US, Retention
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, Committed, commit_or_raise
from airflow_provider_segtable.table.log.committer import commit as try_commit
from airflow_provider_segtable.table.log.event_log import (
    CHECKPOINTS,
    EXPIRED,
    TAGS,
    TIMELINE,
    EventLog,
    expired_path,
    number,
)

DATA = "data"
MOST_SKEW_US = 300_000_000
LOOKS = 10
"""How often a cleaner looks again because a version was tagged under its hands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRun:
    """What a run took away, or, of a dry run, would.

    Attributes:
        version: the newest version that was looked at.
        retained_from: the oldest version kept for its age or number.
        segments: removed from the timeline.
        kept: why each other hidden segment stays.
        files: data files deleted because no segment names them any more.
        vectors: files of deletion vectors deleted: no present segment has rows that they name.
        vectors_kept: how many others stay, as present segments need them.
        orphans: files deleted that nobody ever named, or not for long.
        young: how many files without a name are too young to be called orphans.
        log_from: events below this number are deleted; 0 if the log is whole.
        log_files: events, checkpoints and markers deleted.
    """

    version: int
    retained_from: int
    segments: tuple[Segment, ...] = ()
    kept: Mapping[SegmentId, Keep] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    vectors: tuple[Entry, ...] = ()
    vectors_kept: int = 0
    orphans: tuple[Entry, ...] = ()
    young: int = 0
    log_from: int = 0
    log_files: tuple[str, ...] = ()

    @property
    def bytes_freed(self) -> int:
        """Return the size of the files that go, as far as it is known."""
        entries = (*self.orphans, *self.vectors)
        sizes = {s.path: s.size for s in self.segments} | {e.path: e.size for e in entries}
        going = {*self.files, *(entry.path for entry in entries)}
        return sum(size for path, size in sizes.items() if path in going)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What one look at the table found."""

    head: State
    found: Cleanable
    run: CleaningRun

    @property
    def worth_an_event(self) -> bool:
        later = self.found.retained_from > self.head.retained_from
        gone = bool(self.found.segments) or forgettable(self.head)
        return gone or bool(later and self.run.log_files)


def clean(
    ports: TableContext, *, retention: Retention | None = None, dry_run: bool = False
) -> CleaningRun:
    """Clean a table.

    Args:
        ports: the table's ports; no coordinator is needed.
        retention: how long what is kept; the table's own by default.
        dry_run: find out, and take away nothing.

    Raises:
        ClockSkew: this host's clock and the storage's differ; nothing was deleted.
        StorageError, CorruptTable: nothing that may be needed was deleted; run it again.
        CommitConflict: versions were tagged all the time; run it again.
    """
    now = ports.clock.now() if dry_run else _earlier_now(ports)
    for _ in range(LOOKS):
        look = _look(ports, retention, now)
        if dry_run:
            return look.run
        head = _cleaned(ports, look)
        if head is not None:
            break
    else:
        raise CommitConflict(f"{ports.uri}: versions were tagged all the time; clean it again")
    head = _sweep(ports, head)
    _delete_orphans(ports, look.run, head)
    _expire(ports, look.run)
    return look.run


def _earlier_now(ports: TableContext) -> Instant:
    """Return the storage's time or ours, whichever is earlier, if they agree at all."""
    try:
        reading = ports.check_storage_clock()
    except ClockSkew as error:
        raise ClockSkew(f"{ports.uri}: nothing was cleaned: {error}") from None
    return min(reading.at, reading.theirs)


def _look(ports: TableContext, retention: Retention | None, now: Instant) -> _Look:
    """Find out what may go. Files are listed first, so that who commits meanwhile is seen."""
    listed = (*ports.storage.list(DATA), *ports.storage.list(DELETES))
    log = ports.log
    newest = log.load()
    keep = retention or Retention.read(newest.table.properties)
    retained, head = _walk(log, newest, keep, now)
    older = {n for n in head.tags.values() if n < retained[0].n}
    found = cleanable(
        head, retained=retained, tagged=tuple(log.version(n, head) for n in sorted(older))
    )
    after = _foreseen(head, found)
    orphans, young = _orphans(listed, after, now - int(keep.orphan_hours * HOUR_US))
    log_from, log_files = _expirable(log, after)
    run = CleaningRun(
        version=head.n,
        retained_from=found.retained_from,
        segments=found.segments,
        kept=found.kept,
        files=tuple(sorted(path for path in after.pending_delete if not _of_deletions(path))),
        vectors=tuple(
            e for e in listed if e.path in after.pending_delete and _of_deletions(e.path)
        ),
        vectors_kept=len(paths(after.vectors)),
        orphans=orphans,
        young=young,
        log_from=log_from,
        log_files=log_files,
    )
    return _Look(head=head, found=found, run=run)


def _walk(log: EventLog, newest: State, keep: Retention, now: Instant) -> tuple[list[State], State]:
    """Return the states that ``cleanable`` asks for, oldest first, and the newest."""
    until, most = now - int(keep.hours * HOUR_US), max(newest.n - keep.versions + 1, 0)
    retained: list[State] = []
    head = newest
    for event, state in log.history(until, max(most, newest.retained_from)):
        old = state.time <= until and state.n <= most
        if old or state.n <= newest.retained_from or not retained:
            retained = [state]
        elif event is not None and isinstance(event.action, TableRepaired):
            retained.append(state)  # without what was lost, hidden segments may show again
        head = state
    return retained, head


def _foreseen(head: State, found: Cleanable) -> State:
    """Return the state as the cleaning will leave it."""
    action = Cleaned(retained_from=found.retained_from, ids=found.ids, tags=head.tags)
    event = Event(n=head.n + 1, time=head.time + 1, commit="", author="", action=action)
    return apply(head, event)


def _orphans(
    listed: tuple[Entry, ...], after: State, before: Instant
) -> tuple[tuple[Entry, ...], int]:
    """Return the files that nobody names and that are old enough, and the number of the others."""
    running = (p.changed_at for p in after.pending_plans() if p.status is PlanStatus.INFLIGHT)
    oldest = min((before, *(begun - MOST_SKEW_US for begun in running)))
    named = _named(after)
    nameless = [entry for entry in listed if entry.path not in named]
    old = tuple(entry for entry in nameless if entry.modified <= oldest)
    return old, len(nameless) - len(old)


def _named(state: State) -> frozenset[str]:
    segments = {segment.path for segment in state.timeline.segments()}
    return state.pending_delete | segments | paths(state.vectors)


def _of_deletions(path: str) -> bool:
    return path.startswith(f"{DELETES}/")


def _expirable(log: EventLog, after: State) -> tuple[int, tuple[str, ...]]:
    """Return up to where the log may expire, and its files that go."""
    fit = [n for n in log.checkpoints() if 0 < n <= after.retained_from]
    log_from, going = 0, tuple(_unnamed_tags(log, after))
    for n in fit:
        behind = tuple(_behind(log, n))
        if not behind:
            log_from = n
            break
        if log.readable(n):
            log_from, going = n, (*behind, *going)
            break
    return max(log_from, log.first()), going


def _behind(log: EventLog, n: int) -> Iterator[str]:
    """Yield the files behind a checkpoint, in the order in which they may be deleted."""
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):
        for entry in log.storage.list(folder):
            at = number(entry.path)
            if at is not None and at >= n:
                break
            if at is not None:
                yield entry.path


def _unnamed_tags(log: EventLog, after: State) -> Iterator[str]:
    """Yield checkpoints of versions that are not kept: no tag can name them any more."""
    for entry in log.storage.list(TAGS):
        digits = entry.path.removesuffix(".parquet").rpartition("-")[2]
        if digits.isdigit() and not after.keeps(int(digits)) and int(digits) < after.n:
            yield entry.path


def _cleaned(ports: TableContext, look: _Look) -> State | None:
    """Commit what is to go; None if the cleaner has to look again."""
    if not look.worth_an_event:
        return look.head
    head, found = look.head, look.found
    action = Cleaned(retained_from=found.retained_from, ids=found.ids, tags=head.tags)
    change = Change(action=action, commit_id=ports.randomness.token())
    match try_commit(ports, head, change):
        case Committed(state=state):
            return state
        case Conflict():
            return None
        case _:
            return commit_or_raise(ports, head, change).state


def _sweep(ports: TableContext, head: State) -> State:
    """Delete what is doomed, by whomever, then say so."""
    if not head.pending_delete:
        return head
    ports.storage.settle(TIMELINE)  # `Cleaned` may be another's, who stopped before its sync
    for path in sorted(head.pending_delete):
        ports.files.delete(path)
    action = Swept(paths=tuple(sorted(head.pending_delete)))
    outcome = try_commit(ports, head, Change(action=action, commit_id=ports.randomness.token()))
    return outcome.state if isinstance(outcome, Committed) else head


def _delete_orphans(ports: TableContext, run: CleaningRun, head: State) -> None:
    if not run.orphans:
        return
    named = _named(ports.log.refresh(head))
    ports.storage.settle(TIMELINE)
    for entry in run.orphans:
        if entry.path not in named:
            ports.files.delete(entry.path)


def _expire(ports: TableContext, run: CleaningRun) -> None:
    if not run.log_files:
        return
    if run.log_from:
        with contextlib.suppress(AlreadyExists):
            ports.storage.create(expired_path(run.log_from), b"")
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):  # before what they stand for is gone
        ports.storage.settle(folder)
    for path in run.log_files:
        ports.storage.delete(path)
