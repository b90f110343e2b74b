"""Cleaning: remove unneeded segments from the log first, then delete their files.

Segments:

1. ``Cleaned`` removes hidden segments from the timeline and marks their files as pending delete
   (``core.log.families.cleaning_events`` selects them). Then the cleaner deletes these files, and
   ``Swept`` clears the marks. After a crash in between, the next run deletes the files again,
   which is harmless. ``Cleaned`` also prunes deletion vectors that no present segment needs.
   Whether a segment is hidden is asked of each sidecar once: the cleaner notes for the next run
   which of them have none (``table.log.sidecar_notes``).
2. *Orphans* are files below ``data/`` and ``deletes/`` that no segment, deletion or pending delete
   names, and files in folders of indexes that the table does not have. They are deleted when they
   are older than ``orphan_hours`` and older than every attempt in flight.

Expiry of the log:

3. What of the log expires, and in which order, is said in ``services.log_expiry``.
4. *Sidecars* of checkpoints are deleted when no kept checkpoint lists them.
5. *Records of adoptions* are marked when the log names none of their files, and deleted when the
   mark is as old as orphans have to be (``table.adopted_files``). Outside of ``data/`` and
   ``deletes/`` only adopted files that the log gave up are deleted, while they are the ones that
   were adopted: others are never looked at. *Facts about reads* are deleted by their age
   (``table.read_recorder``).

Safety:

6. In doubt, the cleaner deletes nothing: an unreadable listing, tag or checkpoint is an error
   before the first deletion. So is a clock that differs from the storage's, which is measured
   with a probe object. Ages use the earlier of the two times.
7. Any number of cleaners and writers may run concurrently, without a lock: the log decides which
   files may be deleted, and no later event can name a deleted file.
8. Deletions rely on files that other processes wrote and that a power failure may revert. So the
   folders of the log, its checkpoints and its markers are flushed first (``Storage.flush``).
9. A dry run performs all steps before the first write, and returns the same ``CleaningRun``.

Neighbours of the table:

10. *Published versions*: files that their readers need stay (``table.publishing.targets``). Targets
    are read before the first write if any file is to go, and again before files are deleted. A
    version that is put in between shows an event that the log no longer keeps, and its publisher
    publishes a newer one. With a retention of 0 hours its readers may miss files until then.
    Obsolete files of targets are deleted last. Files that a publisher may be about to name are too
    young, as orphans are.
11. *Indexes*: ``Swept`` brings tombstones of the entries about deleted files
    (``table.indexes.index_entries``). Then the feeds are copied, and the indexes' own tables are
    cleaned by the same steps. Their failures are listed in the run, and stop no other table.
12. *Full storage*: a cleaned table has a reserve, a file of ``RESERVE_BYTES``. If there is no space
    for an event, the reserve is deleted, and the cleaning begins again with the deletions that need
    no event: orphans, and leftovers of an earlier cleaning. The next cleaning without such an error
    makes the reserve anew.

Source of the idea: Hudi's cleaner and Paimon's snapshot expiry and orphan cleaning.
"""

import contextlib
import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count, islice

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import (
    ClockSkew,
    CommitConflict,
    LogExpired,
    SegtableError,
    StorageFull,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import INDEXES, IndexState
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleanable,
    Cleaned,
    Keep,
    Swept,
    cleanable,
    forgettable,
    passed_over,
)
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_adopted
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import HOUR_US, Instant, iso
from airflow_provider_segtable.core.timeline_blocks import blocks_without, hidden_beside
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.vector_file import FOLDER as DELETES
from airflow_provider_segtable.planning.properties import Retention, StatisticsSettings
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.services.cleaning_turns import Notes, listed_files
from airflow_provider_segtable.services.log_expiry import delete_sidecars, expirable, expire
from airflow_provider_segtable.table.adopted_files import (
    mark_obsolete,
    marked_records,
    still_adopted,
)
from airflow_provider_segtable.table.committer import Change, Committed, commit_or_raise
from airflow_provider_segtable.table.committer import commit as try_commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import (
    files_of_feeds,
    forward_all,
    inner_tables,
)
from airflow_provider_segtable.table.indexes.index_entries import gone_entries, tombstones
from airflow_provider_segtable.table.kept_versions import unread_since
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_files import unlisted_sidecars
from airflow_provider_segtable.table.publishing.targets import published_paths, sweep_targets
from airflow_provider_segtable.table.read_recorder import expired_reads
from airflow_provider_segtable.table.unnamed_files import unnamed, unnamed_nearby


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
        sidecars: deleted sidecars of checkpoints.
        published: files that stay because published versions show them; the log names them no more.
        records: deleted records of adoptions.
        reads: deleted facts about reads.
        partly: whether orphans were looked for among a part of the data files.
        targets: by format, the deleted files of its target.
        entries: by index, the number of entries deleted, because their files are gone.
        indexes: by index, the cleaning of its own table.
        failed: by index, the error that kept its own table from being cleaned.
        dry_run: whether nothing was deleted.
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
    sidecars: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    partly: bool = False
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    indexes: Mapping[str, "CleaningRun"] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = field(default=False, compare=False)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "version": self.version,
            "dry_run": self.dry_run,
            "retained_from": self.retained_from,
            "bytes": self.bytes_freed,
            "segments": [
                {"id": str(each.id), "path": each.path, "rows": each.rows, "bytes": each.size}
                for each in self.segments
            ],
            "kept": [{"id": str(key), "reason": why.value} for key, why in self.kept.items()],
            "files": list(self.files),
            "vectors": [{"path": each.path, "bytes": each.size} for each in self.vectors],
            "vectors_kept": self.vectors_kept,
            "orphans": [
                {"path": each.path, "bytes": each.size, "modified": iso(each.modified)}
                for each in self.orphans
            ],
            "young": self.young,
            "partly": self.partly,
            "published": list(self.published),
            "records": list(self.records),
            "reads": list(self.reads),
            "targets": {name: list(paths) for name, paths in self.targets.items()},
            "log_from": self.log_from,
            "log_files": list(self.log_files),
            "sidecars": list(self.sidecars),
            "entries": dict(self.entries),
            "indexes": {
                name: {"table": f"index {name}", **run.facts()}
                for name, run in self.indexes.items()
            },
            "failed": dict(self.failed),
        }

    def __repr__(self) -> str:
        """Return the counts, on one line."""
        found = (self.segments, self.files, self.vectors, self.orphans, self.log_files)
        names = ("segments", "files", "vectors", "orphans", "log_files")
        counts = (f"{name}={len(each)}" for name, each in zip(names, found, strict=True))
        return f"CleaningRun(version={self.version}, {', '.join(counts)})"

    @property
    def bytes_freed(self) -> int:
        """Return the total known size of the deleted files, also of the indexes' tables."""
        entries = (*self.orphans, *self.vectors)
        sizes = {s.path: s.size for s in self.segments} | {e.path: e.size for e in entries}
        going = {*self.files, *(entry.path for entry in entries)}
        inner = sum(each.bytes_freed for each in self.indexes.values())
        return inner + sum(size for path, size in sizes.items() if path in going)


DATA = "data"
MOST_SKEW_US = 300_000_000
RESERVE = "_segtable/reserve/space"
RESERVE_BYTES = 65_536
"""Room for the events and markers of a cleaning: some thousand segments."""
LOOKS = 10
"""Number of looks if versions are tagged, or the log expires, during a cleaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The findings of one read of the table; ``after`` is the state after the cleaning.

    ``keep`` is the retention, ``going`` are the files that the log gives up and no published
    version shows. ``given_up`` are the consumers whose positions were read and found too old:
    versions by name. The head may have others, which were registered while the log was read.
    ``noted`` are the notes of the run before, ``notes`` those for the next one.
    """

    head: State
    after: State
    found: Cleanable
    run: CleaningRun
    keep: Retention
    going: frozenset[str]
    given_up: Mapping[str, int]
    noted: Notes
    notes: Notes

    @property
    def worth_an_event(self) -> bool:
        later = self.found.retained_from > self.head.retained_from
        gone = bool(self.found.segments) or forgettable(self.head, self.found.retained_from)
        return gone or bool(later and self.run.log_files)


def clean(
    ports: TableContext,
    *,
    retention: Retention | None = None,
    dry_run: bool = False,
    whole: bool = True,
) -> CleaningRun:
    """Clean a table.

    Args:
        ports: the table's ports; no coordinator is needed.
        retention: retention settings; the table's own by default. Versions that a consumer has yet
            to read are kept, too.
        dry_run: compute the deletions without making them.
        whole: look for orphans among all data files. If False, and the table has sidecars, a run
            looks at the next of them alone, so that its cost does not grow with the table.

    Raises:
        ClockSkew: this host's clock and the storage's differ; nothing was deleted.
        StorageError, CorruptTable: the read or a deletion failed; no needed file was deleted.
        CommitConflict: versions were tagged in each of ``LOOKS`` tries; run it again.
    """
    if dry_run:
        return _clean_all(ports, retention, _foreseen_run, whole=whole)
    try:
        run = _clean_all(ports, retention, _clean_one, whole=whole)
    except StorageFull:
        ports.storage.delete(RESERVE)
        return _clean_all(ports, retention, _clean_full, whole=True)
    _reserve(ports)
    return run


def _reserve(ports: TableContext) -> None:
    """Make the reserve, if there is space for it; its bytes are random, so none compresses them."""
    if [*ports.storage.list(posixpath.dirname(RESERVE))]:
        return
    token = ports.randomness.token().encode()
    blocks = (hashlib.sha512(token + bytes([n // 256, n % 256])).digest() for n in count())
    with contextlib.suppress(StorageFull):
        data = b"".join(islice(blocks, RESERVE_BYTES // hashlib.sha512().digest_size))
        ports.storage.replace(RESERVE, data)


def _clean_all(
    ports: TableContext,
    retention: Retention | None,
    clean_one: "Callable[[_Cleaning], CleaningRun]",
    *,
    whole: bool,
) -> CleaningRun:
    """Clean a table and its indexes' tables."""
    dry_run = clean_one is _foreseen_run
    now = ports.clock.now() if dry_run else _earlier_now(ports)
    run = clean_one(_Cleaning(ports=ports, retention=retention, now=now, whole=whole))
    if not dry_run:
        forward_all(ports, ports.log.load())
    indexes: dict[str, CleaningRun] = {}
    failed: dict[str, str] = {}
    for index, own in inner_tables(ports, ports.log.load()):
        name = index.definition.name
        try:
            inner = _of_index(ports, index, own, retention, now)
            indexes[name] = clean_one(replace(inner, whole=whole))
        except (SegtableError, OSError) as error:
            failed[name] = str(error)
    return replace(run, indexes=indexes, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleaning:
    """The cleaning of one table; ``named`` returns the files that another table's log names."""

    ports: TableContext
    retention: Retention | None
    now: Instant
    whole: bool = True
    named: Callable[[], frozenset[str]] = frozenset


def _of_index(
    ports: TableContext,
    index: IndexState,
    own: TableContext,
    retention: Retention | None,
    now: Instant,
) -> _Cleaning:
    """Return the cleaning of the table of an index: files of feeds to be copied are no orphans."""
    outer = retention or Retention.read(ports.log.load().table.properties)
    inner = Retention.read(own.log.load().table.properties)
    return _Cleaning(
        ports=own,
        retention=replace(inner, orphan_hours=outer.orphan_hours),
        now=now,
        named=lambda: files_of_feeds(ports.log.load(), index.definition.id),
    )


def _foreseen_run(cleaning: _Cleaning) -> CleaningRun:
    """Return the deletions that a cleaning of one table would make."""
    look = _look(cleaning)
    going = look.going
    entries = gone_entries(cleaning.ports, look.head, going) if going else ()
    counts = {index.definition.name: gone.num_rows for index, gone in entries}
    targets = _swept(cleaning, look.keep, dry_run=True)
    return replace(look.run, entries=counts, targets=targets, dry_run=True)


def _clean_one(cleaning: _Cleaning) -> CleaningRun:
    """Clean one table; return its deletions."""
    ports = cleaning.ports
    for _ in range(LOOKS):
        look = _look(cleaning)
        head = _cleaned(ports, look)
        if head is not None:
            break
    else:
        raise CommitConflict(
            f"{ports.uri}: cleaning conflicted with new tags at each try: run it again"
        )
    head, entries = _sweep(cleaning, look.keep, head)
    _delete_orphans(cleaning, look, head)
    expire(ports, look.run.log_from, look.run.log_files)
    delete_sidecars(ports, look.run.sidecars, orphaned_before(cleaning.now, look.keep))
    for path in (*look.run.records, *look.run.reads):
        ports.storage.delete(path)
    if head.adopts:
        mark_obsolete(ports.storage, head)
    targets = _swept(cleaning, look.keep, dry_run=False)
    if look.notes != look.noted:
        look.notes.write(ports.storage)
    return replace(look.run, entries=entries, targets=targets)


def _clean_full(cleaning: _Cleaning) -> CleaningRun:
    """Clean one table in a full storage: first make the deletions that need no event."""
    look = _look(cleaning)
    _delete_pending(cleaning, look.keep, look.head)
    _delete_orphans(cleaning, look, look.head)
    run = _clean_one(cleaning)
    return replace(run, orphans=look.run.orphans)


def _earlier_now(ports: TableContext) -> Instant:
    """Return the earlier of the storage's time and ours, after checking that they agree."""
    try:
        reading = ports.check_storage_clock()
    except ClockSkew as error:
        raise ClockSkew(f"{ports.uri}: nothing was cleaned: {error}") from None
    return min(reading.at, reading.theirs)


def _look(cleaning: _Cleaning) -> _Look:
    """Find the deletable files; look again if another cleaning expires the log meanwhile."""
    for _ in range(LOOKS):
        with contextlib.suppress(LogExpired):
            return _look_once(cleaning)
    return _look_once(cleaning)


def _look_once(cleaning: _Cleaning) -> _Look:
    """Find the deletable files. List files before the log, to include concurrent commits."""
    ports = cleaning.ports
    earlier = ports.log.load()
    noted = Notes.read(ports.storage, earlier)
    data, listed = listed_files(ports.storage, earlier, noted, whole=cleaning.whole)
    deletes = [*ports.storage.list(DELETES)]
    data = _not_in(data, cleaning.named())
    newest = ports.log.load()
    keep = cleaning.retention or Retention.read(newest.table.properties)
    chosen = _chosen(cleaning, keep, newest, noted, [*data, *deletes])
    run = replace(
        _run(cleaning, keep, chosen, deletes),
        reads=_reads(ports, newest, cleaning.now),
        partly=listed is not None,
    )
    return _Look(
        head=chosen.head,
        after=chosen.after,
        found=chosen.found,
        run=run,
        keep=keep,
        going=chosen.going,
        given_up=passed_over(newest, chosen.found.retained_from),
        noted=noted,
        notes=Notes(listed=listed or "", unhidden=chosen.unhidden),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """What may leave the table: ``found``, and ``nameless`` files.

    ``published`` are the files that readers of published versions need, if any file is to go;
    ``unhidden`` the sidecars without hidden segments.
    """

    head: State
    after: State
    found: Cleanable
    nameless: Sequence[Entry]
    published: frozenset[str]
    unhidden: frozenset[str]

    @property
    def going(self) -> frozenset[str]:
        """Return the files that the log gives up and no published version shows."""
        return self.after.pending_delete - self.published


def _chosen(
    cleaning: _Cleaning, keep: Retention, newest: State, noted: Notes, files: Sequence[Entry]
) -> _Chosen:
    """Choose among the segments, and among files that an earlier state did not name."""
    log = cleaning.ports.log
    retained, head = _walk(log, newest, keep, cleaning.now)
    older = {n for n in head.tags.values() if n < retained[0].n}
    tagged = tuple(log.version(n, head) for n in sorted(older))
    hidden = [*hidden_beside(head.timeline, noted.unhidden)]
    choose = partial(cleanable, head, retained=retained, tagged=tagged, hidden=hidden)
    found = choose()
    after = _foreseen(head, found)
    nameless = unnamed_nearby(files, after)
    published = frozenset[str]()
    if found.segments or after.pending_delete or nameless:  # else nothing can be needed
        published = _published(cleaning, keep)
        found = choose(published=published)
        after = _foreseen(head, found)
    return _Chosen(
        head=head,
        after=after,
        found=found,
        nameless=nameless,
        published=published,
        unhidden=blocks_without(head.timeline, hidden),
    )


def _run(
    cleaning: _Cleaning, keep: Retention, chosen: _Chosen, deletes: Iterable[Entry]
) -> CleaningRun:
    """Return the deletions, as far as they follow from what was chosen."""
    log, after, found = cleaning.ports.log, chosen.after, chosen.found
    before = orphaned_before(cleaning.now, keep)
    orphans, young = _orphans(_not_in(chosen.nameless, chosen.published), after, before)
    log_from, log_files = expirable(log, after)
    return CleaningRun(
        version=chosen.head.n,
        retained_from=found.retained_from,
        segments=found.segments,
        kept=found.kept,
        files=tuple(sorted(path for path in chosen.going if not _of_deletions(path))),
        vectors=tuple(entry for entry in deletes if entry.path in chosen.going),
        vectors_kept=len(paths(after.vectors)),
        orphans=orphans,
        young=young,
        log_from=log_from,
        log_files=log_files,
        sidecars=tuple(unlisted_sidecars(log, log_from, before)),
        published=_left(chosen.published, after, chosen.nameless),
        records=_records(cleaning.ports, after, before),
    )


def orphaned_before(now: Instant, keep: Retention) -> Instant:
    """Return the time before which unnamed files were written that are deleted."""
    return now - int(keep.orphan_hours * HOUR_US)


def _published(cleaning: _Cleaning, keep: Retention) -> frozenset[str]:
    return published_paths(cleaning.ports, cleaning.now - int(keep.hours * HOUR_US))


def _records(ports: TableContext, after: State, before: Instant) -> tuple[str, ...]:
    """Return the records of adoptions, and their marks, that are not needed any more."""
    return tuple(marked_records(ports.storage, before)) if after.adopts else ()


def _reads(ports: TableContext, newest: State, now: Instant) -> tuple[str, ...]:
    """Return the facts about reads that are too old."""
    hours = StatisticsSettings.read(newest.table.properties).hours
    return tuple(expired_reads(ports.storage, now - int(hours * HOUR_US)))


def _left(published: frozenset[str], after: State, nameless: Iterable[Entry]) -> tuple[str, ...]:
    """Return the files that only published versions show."""
    unneeded = after.pending_delete.union(entry.path for entry in nameless)
    return tuple(sorted(published & unneeded))


def _swept(cleaning: _Cleaning, keep: Retention, *, dry_run: bool) -> Mapping[str, tuple[str, ...]]:
    """Delete obsolete files of targets, but none that a publisher may be about to name."""
    since = cleaning.now - int(max(keep.hours, keep.orphan_hours) * HOUR_US)
    return sweep_targets(cleaning.ports, since, dry_run=dry_run)


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
    """Yield the versions from which on consumers read, and wait to since ``until`` at most."""
    for consumer in newest.consumers.values():
        needed = needed_from(newest, consumer)
        if needed >= newest.retained_from:
            unread = unread_since(log, newest, consumer)
            if unread is None or unread > until:
                yield needed


def _foreseen(head: State, found: Cleanable) -> State:
    """Return the state after the cleaning."""
    action = Cleaned(retained_from=found.retained_from, ids=found.ids, tags=head.tags)
    event = Event(n=head.n + 1, time=head.time + 1, commit="", author="", action=action)
    return apply(head, event)


def _orphans(
    nameless: Sequence[Entry], after: State, before: Instant
) -> tuple[tuple[Entry, ...], int]:
    """Return the unnamed files that are old enough, and the number of younger ones."""
    running = (p.changed_at for p in after.pending_plans() if p.status is PlanStatus.INFLIGHT)
    oldest = min((before, *(begun - MOST_SKEW_US for begun in running)))
    old = tuple(entry for entry in nameless if entry.modified <= oldest)
    return old, len(nameless) - len(old)


def _of_deletions(path: str) -> bool:
    return path.startswith(f"{DELETES}/")


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


def _sweep(cleaning: _Cleaning, keep: Retention, head: State) -> tuple[State, dict[str, int]]:
    """Delete files with a pending delete, then commit ``Swept`` with the indexes' tombstones.

    Returns:
        The newest state, and the number of deleted entries by index.
    """
    ports = cleaning.ports
    going = _delete_pending(cleaning, keep, head)
    if not going:
        return head, {}
    entries = tombstones(ports, head, going)
    change = Change(
        action=Swept(paths=tuple(sorted(going))),
        commit_id=ports.randomness.token(),
        feeds=tuple(feed for feed, _ in entries.values()),
    )
    outcome = try_commit(ports, head, change)
    if not isinstance(outcome, Committed):
        return head, {}
    return outcome.state, {name: count for name, (_, count) in entries.items()}


def _delete_pending(cleaning: _Cleaning, keep: Retention, head: State) -> frozenset[str]:
    """Delete the files that the log gave up and no published version shows; return them."""
    ports = cleaning.ports
    going = head.pending_delete and head.pending_delete - _published(cleaning, keep)
    if going:
        ports.storage.flush(TIMELINE)  # another cleaner may have put `Cleaned` without a sync
    adopted = {path for path in going if is_adopted(path)}
    changed = adopted - still_adopted(ports.storage, ports.files, adopted)
    for path in sorted(going - changed):
        _delete_file(ports, path)
    return going


def _delete_file(ports: TableContext, path: str) -> None:
    """Delete a file; in an object store by the log's client.

    pyarrow puts an empty object in the place of the folder of each file that it deletes from S3.
    """
    (ports.storage if is_remote(ports.files) else ports.files).delete(path)


def _delete_orphans(cleaning: _Cleaning, look: _Look, head: State) -> None:
    if not look.run.orphans:
        return
    ports = cleaning.ports
    spared = cleaning.named() | _published(cleaning, look.keep)
    going = unnamed(_not_in(look.run.orphans, spared), ports.log.refresh(head))
    ports.storage.flush(TIMELINE)
    for entry in going:
        _delete_file(ports, entry.path)
    if any(entry.path.startswith(f"{INDEXES}/") for entry in going):
        ports.storage.prune(INDEXES)


def _not_in(entries: Iterable[Entry], paths: frozenset[str]) -> list[Entry]:
    return [entry for entry in entries if entry.path not in paths]
