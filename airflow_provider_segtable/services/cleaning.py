"""Cleaning: remove unneeded segments from the log first, then delete their files.

1. ``Cleaned`` removes hidden segments from the timeline and marks their files as pending delete
   (``core.log.families.cleaning_events`` selects them). Then the cleaner deletes these files, and
   ``Swept`` clears the marks. After a crash in between, the next run deletes the files again,
   which is harmless. ``Cleaned`` also prunes deletion vectors that no present segment needs.
2. *Orphans* are files below ``data/`` and ``deletes/`` that no segment, deletion or pending delete
   names. They are deleted when they are older than ``orphan_hours`` and older than every attempt
   in flight.
3. The *log expires* before the newest readable checkpoint that is no newer than the oldest kept
   version: first the marker is put, then events are deleted from the oldest on, then checkpoints
   (``table.log.event_log``).
4. In doubt, the cleaner deletes nothing: an unreadable listing, tag or checkpoint is an error
   before the first deletion. So is a clock that differs from the storage's, which is measured
   with a probe object. Ages use the earlier of the two times.
5. Any number of cleaners and writers may run concurrently, without a lock: the log decides which
   files may be deleted, and no later event can name a deleted file.
6. Deletions rely on files that other processes wrote and that a power failure may revert. So the
   folders of the log, its checkpoints and its markers are settled first (``Storage.settle``).
7. A dry run returns the same ``CleaningRun``; it performs all steps before the first write.

Source of the idea: Hudi's cleaner and Paimon's snapshot expiry and orphan cleaning.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletes.deletion import paths
from airflow_provider_segtable.core.errors import AlreadyExists, ClockSkew, CommitConflict
from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import Cleaned, Event, Swept, TableRepaired
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleanable,
    Keep,
    cleanable,
    forgettable,
    passed_over,
)
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.plan_state import PlanStatus
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.deletes.vector_file import FOLDER as DELETES
from airflow_provider_segtable.planning.properties.retention import HOUR_US, Retention
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
from airflow_provider_segtable.table.unnamed_files import unnamed, unnamed_before
from airflow_provider_segtable.table.versions.consumers import unread_since

DATA = "data"
MOST_SKEW_US = 300_000_000
LOOKS = 10
"""Number of retries after versions were tagged during a cleaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRun:
    """The deletions of a cleaning run; of a dry run, the deletions it would make.

    Attributes:
        version: the newest version read.
        retained_from: the oldest version kept for its age or number.
        segments: segments removed from the timeline.
        kept: the reason why each other hidden segment stays.
        files: deleted data files that no segment names any more.
        vectors: deleted vector files that no present segment needs.
        vectors_kept: number of vector files that present segments need.
        orphans: deleted files that the log does not name.
        young: number of unnamed files that are too young to be orphans.
        log_from: events below this number are deleted; 0 if none are.
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

    def __repr__(self) -> str:
        """Return the counts, on one line."""
        found = (self.segments, self.files, self.vectors, self.orphans, self.log_files)
        names = ("segments", "files", "vectors", "orphans", "log_files")
        counts = (f"{name}={len(each)}" for name, each in zip(names, found, strict=True))
        return f"CleaningRun(version={self.version}, {', '.join(counts)})"

    @property
    def bytes_freed(self) -> int:
        """Return the total known size of the deleted files."""
        entries = (*self.orphans, *self.vectors)
        sizes = {s.path: s.size for s in self.segments} | {e.path: e.size for e in entries}
        going = {*self.files, *(entry.path for entry in entries)}
        return sum(size for path, size in sizes.items() if path in going)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The findings of one read of the table.

    ``given_up`` are the consumers whose positions were read and found too old: versions by name.
    The head may have others, which came while the log was read.
    """

    head: State
    found: Cleanable
    run: CleaningRun
    given_up: Mapping[str, int]

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
        retention: retention settings; the table's own by default. Versions that a consumer has yet
            to read are kept, too.
        dry_run: compute the deletions without making them.

    Raises:
        ClockSkew: this host's clock and the storage's differ; nothing was deleted.
        StorageError, CorruptTable: the read or a deletion failed; no needed file was deleted.
        CommitConflict: versions were tagged in each of ``LOOKS`` tries; run it again.
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
        raise CommitConflict(
            f"{ports.uri}: cleaning conflicted with new tags at each try: run it again"
        )
    head = _sweep(ports, head)
    _delete_orphans(ports, look.run, head)
    _expire(ports, look.run)
    return look.run


def _earlier_now(ports: TableContext) -> Instant:
    """Return the earlier of the storage's time and ours, after checking that they agree."""
    try:
        reading = ports.check_storage_clock()
    except ClockSkew as error:
        raise ClockSkew(f"{ports.uri}: nothing was cleaned: {error}") from None
    return min(reading.at, reading.theirs)


def _look(ports: TableContext, retention: Retention | None, now: Instant) -> _Look:
    """Find the deletable files. List files before the log, to include concurrent commits."""
    log = ports.log
    data = [*unnamed_before(ports.storage.list(DATA), log.load())]
    deletes = [*ports.storage.list(DELETES)]
    newest = log.load()
    keep = retention or Retention.read(newest.table.properties)
    retained, head = _walk(log, newest, keep, now)
    older = {n for n in head.tags.values() if n < retained[0].n}
    found = cleanable(
        head, retained=retained, tagged=tuple(log.version(n, head) for n in sorted(older))
    )
    after = _foreseen(head, found)
    orphans, young = _orphans([*data, *deletes], after, now - int(keep.orphan_hours * HOUR_US))
    log_from, log_files = _expirable(log, after)
    run = CleaningRun(
        version=head.n,
        retained_from=found.retained_from,
        segments=found.segments,
        kept=found.kept,
        files=tuple(sorted(path for path in after.pending_delete if not _of_deletions(path))),
        vectors=tuple(e for e in deletes if e.path in after.pending_delete),
        vectors_kept=len(paths(after.vectors)),
        orphans=orphans,
        young=young,
        log_from=log_from,
        log_files=log_files,
    )
    given_up = passed_over(newest, found.retained_from)
    return _Look(head=head, found=found, run=run, given_up=given_up)


def _walk(log: EventLog, newest: State, keep: Retention, now: Instant) -> tuple[list[State], State]:
    """Return the retained states that ``cleanable`` needs, oldest first, and the newest state."""
    until, most = now - int(keep.hours * HOUR_US), max(newest.n - keep.versions + 1, 0)
    most = min(most, *_held(log, newest, now - int(keep.consumer_hours * HOUR_US)), newest.n)
    retained: list[State] = []
    head = newest
    for event, state in log.history(until, max(most, newest.retained_from)):
        old = state.time <= until and state.n <= most
        if old or state.n <= newest.retained_from or not retained:
            retained = [state]
        elif event is not None and isinstance(event.action, TableRepaired):
            retained.append(state)  # the repair may make hidden segments visible again
        head = state
    return retained, head


def _held(log: EventLog, newest: State, until: Instant) -> Iterator[int]:
    """Yield the consumers' positions that have been waiting to be read since ``until`` at most."""
    for consumer in newest.consumers.values():
        if consumer.version >= newest.retained_from:
            unread = unread_since(log, consumer)
            if unread is None or unread > until:
                yield consumer.version


def _foreseen(head: State, found: Cleanable) -> State:
    """Return the state after the cleaning."""
    action = Cleaned(retained_from=found.retained_from, ids=found.ids, tags=head.tags)
    event = Event(n=head.n + 1, time=head.time + 1, commit="", author="", action=action)
    return apply(head, event)


def _orphans(
    listed: Iterable[Entry], after: State, before: Instant
) -> tuple[tuple[Entry, ...], int]:
    """Return the unnamed files that are old enough, and the number of younger ones."""
    running = (p.changed_at for p in after.pending_plans() if p.status is PlanStatus.INFLIGHT)
    oldest = min((before, *(begun - MOST_SKEW_US for begun in running)))
    nameless = unnamed(listed, after)
    old = tuple(entry for entry in nameless if entry.modified <= oldest)
    return old, len(nameless) - len(old)


def _of_deletions(path: str) -> bool:
    return path.startswith(f"{DELETES}/")


def _expirable(log: EventLog, after: State) -> tuple[int, tuple[str, ...]]:
    """Return the number before which the log may expire, and the log files to delete."""
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
    """Yield the log files before checkpoint ``n``, in the order of deletion."""
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):
        for entry in log.storage.list(folder):
            at = number(entry.path)
            if at is not None and at >= n:
                break
            if at is not None:
                yield entry.path


def _unnamed_tags(log: EventLog, after: State) -> Iterator[str]:
    """Yield tag checkpoints of versions that are not kept: no later tag can name them."""
    for entry in log.storage.list(TAGS):
        digits = entry.path.removesuffix(".parquet").rpartition("-")[2]
        if digits.isdigit() and not after.keeps(int(digits)) and int(digits) < after.n:
            yield entry.path


def _cleaned(ports: TableContext, look: _Look) -> State | None:
    """Commit ``Cleaned``; None if a conflict requires another look."""
    if not look.worth_an_event:
        return look.head
    head, found = look.head, look.found
    action = Cleaned(
        retained_from=found.retained_from,
        ids=found.ids,
        tags=head.tags,
        consumers=look.given_up,
    )
    change = Change(action=action, commit_id=ports.randomness.token())
    match try_commit(ports, head, change):
        case Committed(state=state):
            return state
        case Conflict():
            return None
        case _:
            return commit_or_raise(ports, head, change).state


def _sweep(ports: TableContext, head: State) -> State:
    """Delete all files with a pending delete, then commit ``Swept``."""
    if not head.pending_delete:
        return head
    ports.storage.settle(TIMELINE)  # another cleaner may have put `Cleaned` without a sync
    for path in sorted(head.pending_delete):
        ports.files.delete(path)
    action = Swept(paths=tuple(sorted(head.pending_delete)))
    outcome = try_commit(ports, head, Change(action=action, commit_id=ports.randomness.token()))
    return outcome.state if isinstance(outcome, Committed) else head


def _delete_orphans(ports: TableContext, run: CleaningRun, head: State) -> None:
    if not run.orphans:
        return
    going = unnamed(run.orphans, ports.log.refresh(head))
    ports.storage.settle(TIMELINE)
    for entry in going:
        ports.files.delete(entry.path)


def _expire(ports: TableContext, run: CleaningRun) -> None:
    if not run.log_files:
        return
    if run.log_from:
        with contextlib.suppress(AlreadyExists):
            ports.storage.create(expired_path(run.log_from), b"")
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):  # before any deletion
        ports.storage.settle(folder)
    for path in run.log_files:
        ports.storage.delete(path)
