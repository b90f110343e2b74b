"""Drop a table: end its log first, then delete its files.

1. A drop locks all time. It waits for the holders of other locks, and revokes none. If they do not
   end within ``WAIT_S``, it is refused, unless it is forced: then it needs no lock. The lock is a
   courtesy to users; safety rests on the log alone.
2. ``TableDropped`` is committed. From then on no version can be opened, and every commit is refused
   with ``TableGone``; authors then delete the files that they have written.
3. The marker above the event keeps the event as its content (``table.log.event_log``, rule 8), and
   is durable before the first deletion. So the rest of the log may be deleted in any order: an
   incomplete log always leads to the marker, and never looks like a smaller table. The marker, one
   small file, stays. Without it an author that was paused right before its put could put an old
   table's event into a new table's log.
4. The logs of the indexes' own tables are ended likewise, so that a late copy of a feed, or a late
   compaction of an index, is refused. Their markers stay.
5. Deleted are data files, deletion vectors, hints, the tables of indexes, published targets, and
   the coordinator's records of all of these; last the events and older markers. While an event is
   left, no table can be created there.
6. The files are listed before the log is checked for a new table that begins at the marker, or that
   began there and put a later marker. So a dropper that was paused deletes no file of a later
   table, and no later marker: numbers would be used twice.
7. Every step may be repeated. A killed drop is finished by another one, which also deletes the
   files of authors that were too late for the first.
8. Adopted files are deleted, too: those that the last version before the end names, while they are
   the ones that were adopted. They are deleted first, as nothing else says that they belong to the
   table. If that version cannot be read any more, they are kept and reported.
9. Only files with segtable's names (``docs/FORMAT.md``) are deleted; other files are kept and
   reported, and with them a table of another tool. Every writer gives these names, so neither the
   log nor a footer has to be readable. An index's table has files of the same names below its own
   folder. Published targets lie in folders of their own (``table.publishing.targets``).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    LockTimeout,
    OutcomeUnknown,
    SegtableError,
    TableGone,
    TableInUse,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import INDEXES, folder
from airflow_provider_segtable.core.locks import Lock, LockRequest
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.table_events import TableDropped
from airflow_provider_segtable.core.log.log_paths import EXPIRED, TIMELINE, expired_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import DATA, DELETES, is_adopted
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.adopted_files import (
    adopted_by_path,
    adopted_entries,
    still_adopted,
)
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.targets import target_files, target_folders


def end_log(ports: TableContext, guard: Callable[[], None] = lambda: None) -> Event:
    """Commit the end of the log, unless another drop has; return its event.

    Raises:
        TableGone: another drop ended it, and a new table was created in its place.
    """
    try:
        state = ports.log.load()
        action, commit_id = end_of(state), ports.randomness.token()
        done = commit_or_raise(
            ports, state, Change(action=action, commit_id=commit_id, guard=guard)
        )
    except TableGone:
        end = ports.log.end()  # by another drop, or by ours, whose reply was lost
        if end is None:
            raise
        return end
    return Event(
        n=done.n, time=done.state.time, commit=commit_id, author=ports.author, action=action
    )


def mark_end(ports: TableContext, end: Event) -> None:
    """Put the marker of rule 3, and make it and the event below it durable."""
    try:
        ports.storage.create(expired_path(end.n + 1), encode(end))
    except (AlreadyExists, OutcomeUnknown):
        if ports.log.first() <= end.n:
            raise  # it is unknown whether there is a marker
    for path in (TIMELINE, EXPIRED):
        ports.storage.flush(path)


def end_index_log(ports: TableContext, index: str) -> frozenset[str]:
    """End the log of an index's own table; return its marker, which must not be deleted with it.

    A log that cannot be read or ended has no marker. Cleaning deletes any files written later.
    """
    own = ports.within(folder(index))
    try:
        end = end_log(own)
        mark_end(own, end)
    except SegtableError:
        return frozenset()
    return frozenset({f"{folder(index)}/{expired_path(end.n + 1)}"})


def marks(path: str, end: Event) -> bool:
    """Return whether a path is that of the marker above an end."""
    return path == expired_path(end.n + 1)


def end_of(state: State) -> TableDropped:
    """Return the event that ends the log of a state."""
    return TableDropped(table_id=state.table.table_id, name=state.table.name)


def dropped(end: Event) -> TableDropped:
    """Return the action of the last event of a log.

    Raises:
        CorruptTable: it is another event.
    """
    if not isinstance(end.action, TableDropped):
        raise CorruptTable(f"event {end.n} is {end.kind}, but a marker names it as the last one")
    return end.action


LOG = "_segtable"

_NUMBER = r"[0-9]{20}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_OF_INDEX = rf"{INDEXES}/({_NAME})/"
_OWN = re.compile(
    rf"(?:{_OF_INDEX})?(?:"
    + "|".join(
        (
            rf"{DATA}/[^/]+/[0-9]{{5,}}-[A-Za-z0-9-]+\.parquet",
            rf"{DATA}/[^/]+/[0-9]+_[0-9]+\.log\.[0-9]+_[a-z0-9]+\.parquet",  # log files
            rf"{DATA}/[^/]+/[0-9]+_[0-9]+-[a-z0-9]+_[0-9]+\.parquet",  # base files
            rf"{DATA}/_runs/.+",
            rf"{DELETES}/[A-Za-z0-9-]+\.arrow",
            rf"{LOG}/timeline/{_NUMBER}\.json",
            rf"{LOG}/checkpoints/({_NUMBER}\.parquet|_last)",
            rf"{LOG}/sidecars/{_NUMBER}-[0-9a-f]{{16}}\.parquet",
            rf"{LOG}/expired/{_NUMBER}",
            rf"{LOG}/tags/{_NAME}-[0-9]+\.parquet",
            rf"{LOG}/(clock|results)/{_NAME}",
            rf"{LOG}/probe-{_NAME}",
            rf"{LOG}/lost/.+",
            rf"{LOG}/reserve/space",
            rf"{LOG}/notes/[a-z]+",
            rf"{LOG}/offers/[0-9]{{20}}-[0-9a-f]{{16}}(\.[0-9]+)?",
            rf"{LOG}/reads/[0-9]{{8}}T[0-9]{{2}}-{_NAME}\.json",
            rf"{LOG}/adopted/({_NUMBER}\.(json|gone)|copied/[0-9a-f]{{16}})",
        )
    )
    + ")"
)
_LOG_OF_INDEX = re.compile(rf"{_OF_INDEX}{LOG}/(?:timeline|checkpoints)/")
_MARKER = re.compile(rf"{_OF_INDEX}{LOG}/expired/{_NUMBER}")


def is_own(path: str) -> bool:
    """Return whether segtable gives files such a name."""
    return bool(_OWN.fullmatch(path))


def is_index_marker(path: str) -> bool:
    """Return whether a file is a marker in the log of an index's table."""
    return bool(_MARKER.fullmatch(path))


def indexes_with_logs(paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of indexes with a log in their tables; an ended log has only a marker."""
    found = (_LOG_OF_INDEX.match(path) for path in paths)
    return frozenset(match[1] for match in found if match)


def indexes_of(paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of the indexes with files of segtable in their tables."""
    found = (_OWN.fullmatch(path) for path in paths)
    return frozenset(match[1] for match in found if match and match[1])


def list_files(ports: TableContext, end: Event | None = None) -> Iterator[tuple[Entry, bool]]:
    """Yield the files of a table, each with whether it belongs to it: adopted ones first.

    Args:
        ports: the table's ports.
        end: the end of its log, if it was dropped.
    """
    adopted, known = _adopted_files(ports, end)
    own = still_adopted(ports.storage, ports.files, (e.path for e in adopted)) if known else ()
    yield from ((entry, entry.path in own) for entry in adopted)
    for place in (DATA, DELETES, LOG):
        yield from ((entry, is_own(entry.path)) for entry in ports.storage.list(place))
    yield from target_files(ports)


def _adopted_files(ports: TableContext, end: Event | None) -> tuple[list[Entry], bool]:
    """Return the adopted files that are there, and whether the log says that they belong to it."""
    try:
        state = ports.log.load() if end is None else ports.log.before(end)
    except SegtableError:
        state = None
    if state is None:
        recorded = adopted_by_path(ports.storage)
        return [*adopted_entries(ports.storage, recorded)], False
    if not state.adopts:
        return [], True
    named = filter(is_adopted, (*state.timeline.paths(), *state.pending_delete))
    return [*adopted_entries(ports.storage, named)], True


WAIT_S = 5.0
"""How long a drop waits for the locks of others, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """The deleted parts of a table; in a dry run, those that a drop would delete.

    Attributes:
        name: the table's name.
        n: the event that dropped the table; None for a dry run of a table that exists.
        rows: rows that readers saw, before deletes; None if the table was dropped before.
        segments: segments that readers saw; None likewise.
        files: number of deleted files: data, deletes, log.
        bytes: their size.
        kept: paths of files that segtable did not make, in the table's folders.
        locks: locks and waiting requests of others, at the first look.
    """

    name: str
    n: int | None
    rows: int | None
    segments: int | None
    files: int
    bytes: int
    kept: tuple[str, ...] = ()
    locks: tuple[Lock, ...] = field(default=(), repr=False)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "name": self.name,
            "event": self.n,
            "rows": self.rows,
            "segments": self.segments,
            "files": self.files,
            "bytes": self.bytes,
            "kept": list(self.kept),
        }


def drop(ports: TableContext, *, force: bool = False, dry_run: bool = False) -> DropResult:
    """Drop a table; see ``Table.drop``."""
    end = ports.log.end()
    result = _result(ports, end)
    if dry_run:
        return result
    if end is None:
        end = end_log(ports) if force else _end_under_lock(ports)
    mark_end(ports, end)
    kept = _end_indexes(ports, end)
    own = [e.path for e, is_own in list_files(ports, end) if is_own and e.path not in kept]
    if _is_newest(ports, end):
        _delete(ports, end, own)
    else:
        ports.coordinator.forget(dropped(end).table_id)
    return replace(result, n=end.n)


def _end_indexes(ports: TableContext, end: Event) -> frozenset[str]:
    """End the logs of the indexes' tables; return the markers, which stay."""
    found = sorted(indexes_of(entry.path for entry in ports.storage.list(INDEXES)))
    if not _is_newest(ports, end):
        return frozenset()
    return frozenset().union(*(end_index_log(ports, index) for index in found))


def _is_newest(ports: TableContext, end: Event) -> bool:
    """Return whether no table was created after the end of this one (rule 6).

    A later marker is put before the events below it are deleted, so it is looked for afterwards.
    """
    following = end.n + 1
    if ports.log.event(following) is not None:
        return False
    overtaken = ports.log.first() > following
    if overtaken:
        ports.storage.delete(expired_path(following))
    return not overtaken


def _result(ports: TableContext, end: Event | None) -> DropResult:
    """Return the contents of the table, or of the remains of a table that ``end`` dropped."""
    action = dropped(end) if end else end_of(ports.log.load())
    chunks = () if end else ports.log.load().timeline.visible_summaries().values()
    files = [*list_files(ports, end)]
    own = [
        each for each, is_own in files if is_own and not (end and _is_kept_marker(each.path, end))
    ]
    coordinator = ports.coordinator
    return DropResult(
        name=action.name,
        n=end.n if end else None,
        rows=None if end else sum(each.rows for each in chunks),
        segments=None if end else sum(each.visible for each in chunks),
        files=len(own),
        bytes=sum(each.size for each in own),
        kept=tuple(each.path for each, is_own in files if not is_own),
        locks=(*coordinator.locks(action.table_id), *coordinator.waiters(action.table_id)),
    )


def _is_kept_marker(path: str, end: Event) -> bool:
    return marks(path, end) or is_index_marker(path)


def _end_under_lock(ports: TableContext) -> Event:
    """End the log under a lock on all time."""
    request = LockRequest(
        table=ports.log.load().table.table_id,
        group=f"drop-{ports.randomness.token()}",
        purpose="drop",
        holder=ports.author,
        priority=0,
        intervals=(ALL_TIME,),
    )
    try:
        lease = ports.coordinator.acquire(request, wait_s=WAIT_S)
    except LockTimeout as error:
        raise TableInUse(
            f"{ports.uri} is in use: {error}; or drop it all the same, with force (--force): their "
            "work fails then, and they delete its files"
        ) from error
    with ports.leased(lease, request.table):
        return end_log(ports, lease.check)


def _delete(ports: TableContext, end: Event, own: Sequence[str]) -> None:
    """Delete files in the order of rule 5, and the coordinator's records."""
    markers = [path for path in own if path.startswith(EXPIRED) and not marks(path, end)]
    events = [path for path in own if path.startswith(TIMELINE)]
    for path in own:
        if not path.startswith((EXPIRED, TIMELINE)):
            ports.storage.delete(path)
    for table in (dropped(end).table_id, *sorted(indexes_of(own))):
        ports.coordinator.forget(table)
    for path in (*events, *markers):
        ports.storage.delete(path)
    for place in (DATA, DELETES, LOG, *target_folders(ports)):
        ports.storage.prune(place)
