"""Create, rebuild and drop indexes, measure their coverage, and find their tables for upkeep.

Life of an index:

1. An index begins with its own table, then with the event that requests it. If that certainly
   fails, the table is deleted again; if the process dies in between, cleaning removes it as an
   orphan.
2. From the event on writers feed the index. Entries about older files are built by its runs
   (``services.indexing``).
3. A rebuild is a new index of the same name, which replaces the old one at once.
4. A drop is an event, which also ends the index's plans. Then the log of the index's own table is
   ended (``table.dropping``), so that a late copy of a feed, or a late compaction, is refused; then
   its files are deleted. The marker of the end stays until cleaning deletes the rest of the folder.

Coverage: how many of the visible files an index knows, and the size of its own files.

5. A file is known, as to readers, if an entry has its path and the checksum of its footer. In an
   index about records, a file is known if its time is not lacking.

Upkeep of the indexes' tables, which lie inside their table and need the same upkeep:

6. Each is a table with its own log, locks and properties.
7. Its log may lag behind: files of feeds that are not copied yet are named by the indexed table's
   log alone (``files_of_feeds``). So upkeep copies the feeds first, and takes none of these files
   for an orphan.
8. A failure in one of them concerns no other table.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    SegtableError,
)
from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE, START, IndexKind
from airflow_provider_segtable.core.indexes.index_state import (
    IndexDefinition,
    IndexState,
    folder,
    in_words,
)
from airflow_provider_segtable.core.log.families.index_events import IndexDropped, IndexRequested
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entries import (
    ColumnSummary,
    KeepsValues,
    footer_checksum,
    view_of,
)
from airflow_provider_segtable.table.committer import (
    Change,
    Committed,
    commit_or_raise,
    forward_feeds,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import end_index_log
from airflow_provider_segtable.table.indexes.index_entries import (
    create_index_table,
    entries_in,
    index_ports,
    waiting_feeds,
)

ATTEMPTS = 5
"""Most requests for one index, if other processes request and drop it each time."""


def request_index(
    ports: TableContext,
    name: str,
    kind: IndexKind,
    *,
    replaces: str | None = None,
    commit_id: str | None = None,
) -> Committed:
    """Add an index to a table, to be fed and built from now on.

    Args:
        ports: the table's ports.
        name: the name of the index.
        kind: its kind, with the columns and settings.
        replaces: the id of the index of this name that it replaces.
        commit_id: equal ids request it once; random by default.

    Raises:
        InvalidInput: the name is no name, or the table cannot be indexed so; nothing is written.
        CommitConflict: there is an index of this name.
        CommitUnknown: run again with the same commit id.
    """
    state = ports.log.load()
    commit_id = commit_id or ports.randomness.token()
    if (landed := state.commits.get(commit_id)) is not None:
        return Committed(n=landed, state=state)
    check_index(state, name, kind, ports.uri, replaces=replaces)
    index = IndexDefinition(name=name, id=f"{name}-{ports.randomness.token()}"[-100:], kind=kind)
    change = Change(action=IndexRequested(index=index, replaces=replaces), commit_id=commit_id)
    try:
        create_index_table(ports, index, state.table)
        done = commit_or_raise(ports, state, change)
    except CommitUnknown:
        raise  # the event may still land, and then names the table
    except SegtableError:
        with suppress(SegtableError):  # files that remain are orphans, which cleaning removes
            _delete_files(ports, index.id)  # no other process knows its table
        raise
    if replaces is not None:
        _end_table(ports, replaces)
    return done


def check_index(
    state: State, name: str, kind: IndexKind, uri: str, *, replaces: str | None = None
) -> None:
    """Refuse an index that a table cannot have.

    Raises:
        InvalidInput: the name is no name, or taken by another one than ``replaces``; or the table
            cannot be indexed so.
    """
    if not is_name(name):
        raise InvalidInput(
            f"{name!r} cannot name an index: use letters, digits, '.', '_' and '-', at most 100"
        )
    kind.check(state.table)
    _check_free(name, replaces, state, uri)


def ensure_index(ports: TableContext, name: str, kind: IndexKind) -> bool:
    """Add an index unless the table has it; return whether it was added.

    Raises:
        InvalidInput: the table has another index of this name; otherwise as ``request_index``.
    """
    for _ in range(ATTEMPTS):
        state = ports.log.load()
        found = state.indexes.get(name)
        if found is not None:
            _check_same(found, kind, state, ports.uri)
            return False
        with suppress(CommitConflict):  # another process was first, perhaps with the same index
            request_index(ports, name, kind)
            return True
    raise CommitConflict(
        f"index {name!r} of {ports.uri} was requested and dropped by other processes {ATTEMPTS} "
        "times in a row: run it again"
    )


def rebuild_index(ports: TableContext, name: str) -> Committed:
    """Begin an index anew, with the same settings; errors as ``request_index``."""
    old = index_named(ports.log.load(), name, ports.uri).definition
    return request_index(ports, name, old.kind, replaces=old.id)


def drop_index(ports: TableContext, name: str) -> Committed:
    """End an index, and delete its files.

    Raises:
        InvalidInput: there is no index of this name.
        CommitConflict: it was dropped meanwhile.
    """
    state = ports.log.load()
    index = index_named(state, name, ports.uri).definition
    change = Change(action=IndexDropped(index=index.id), commit_id=ports.randomness.token())
    done = commit_or_raise(ports, state, change)
    _end_table(ports, index.id)
    return done


def index_named(state: State, name: str, uri: str) -> IndexState:
    """Return the index of a name.

    Raises:
        InvalidInput: there is none; the message names the existing ones.
    """
    found = state.indexes.get(name)
    if found is None:
        known = ", ".join(state.indexes) or "none"
        raise InvalidInput(f"{uri} has no index {name!r}: its indexes are {known}")
    return found


def _end_table(ports: TableContext, index: str) -> None:
    """End the table of an index that no event names any more."""
    _delete_files(ports, index, but=end_index_log(ports, index))


def _delete_files(ports: TableContext, index: str, but: Collection[str] = ()) -> None:
    """Delete the files of an index, by its id, and its locks."""
    for entry in [*ports.storage.list(folder(index))]:
        if entry.path not in but:
            ports.storage.delete(entry.path)
    ports.storage.prune(folder(index))
    if ports.optional_coordinator is not None:
        ports.optional_coordinator.forget(index)


def _check_same(found: IndexState, kind: IndexKind, state: State, uri: str) -> None:
    known = found.definition.kind
    if known != kind:
        raise InvalidInput(
            f"{uri} has an index {found.definition.name!r} that is "
            f"{in_words(known, state.table)}, not {in_words(kind, state.table)}: choose another "
            "name, or drop that one first"
        )


def _check_free(name: str, replaces: str | None, state: State, uri: str) -> None:
    found = state.indexes.get(name)
    if found is not None and found.definition.id != replaces:
        raise InvalidInput(
            f"{uri} has an index {name!r} already ({found.definition.kind.name}): choose another "
            "name, rebuild it, or drop it first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The share of a table's files that an index knows.

    Attributes:
        files: number of visible files.
        indexed: number of visible files with entries.
        entries: number of all entries, including those about replaced files.
        own_files: number of files of the index's own table and of feeds that wait to be copied.
        own_bytes: their size, and that of feeds in events.
    """

    files: int
    indexed: int
    entries: int
    own_files: int
    own_bytes: int


def coverage(ports: TableContext, index: IndexState, state: State) -> Coverage:
    """Return an index's coverage of a version; reads two columns of its entries.

    Raises:
        SegtableError: the entries cannot be read.
    """
    about_files = index.definition.kind.about_files
    found = entries_in(ports, index, columns=[FILE, CHECKSUM] if about_files else [START])
    visible = [segment for segment in state.timeline.each_visible() if segment.path]
    own = index_ports(ports, index.definition).log.load()
    in_table = own.timeline.visible_summaries().values()
    feeds = waiting_feeds(index, own)
    waiting = [segment for feed in feeds for segment in feed.segments]
    sizes = (*(segment.size for segment in waiting), *(len(feed.entries) for feed in feeds))
    return Coverage(
        files=len(visible),
        indexed=_named(found, visible) if about_files else _in_time(index, visible),
        entries=found.num_rows,
        own_files=sum(summary.files for summary in in_table) + len(waiting),
        own_bytes=sum(summary.size for summary in in_table) + sum(sizes),
    )


def visible_entries(index: IndexState, state: State, found: pa.Table) -> pa.Table:
    """Return the entries about visible files of a version; entries about records are all returned.

    Args:
        index: the index, in that version.
        state: the version.
        found: entries, also about files that were replaced.
    """
    if not index.definition.kind.about_files:
        return found
    visible = {s.path: footer_checksum(s) for s in state.timeline.each_visible() if s.path}
    names = pa.array(visible, pa.string())
    places = pc.index_in(found.column(FILE), names)
    sums = pa.array(visible.values(), pa.string()).take(places.combine_chunks())
    return found.filter(pc.equal(sums, found.column(CHECKSUM)))


def column_summaries(
    ports: TableContext, index: IndexState, state: State
) -> tuple[ColumnSummary, ...]:
    """Return the values of each indexed column in the visible files that an index knows.

    Raises:
        InvalidInput: the index keeps no values.
        SegtableError: the entries cannot be read.
    """
    definition = index.definition
    view = view_of(definition, state.table, entries_in(ports, index))
    if not isinstance(view, KeepsValues):
        raise InvalidInput(
            f"index {definition.name!r} of {ports.uri} is a {definition.kind.name}, which keeps no "
            "values: ask an index of kind column_stats"
        )
    return tuple(view.summaries(s for s in state.timeline.each_visible() if s.path))


def _named(found: pa.Table, visible: Iterable[Segment]) -> int:
    known = dict(zip(found[FILE].to_pylist(), found[CHECKSUM].to_pylist(), strict=True))
    return sum(known.get(segment.path) == footer_checksum(segment) for segment in visible)


def _in_time(index: IndexState, visible: Iterable[Segment]) -> int:
    lacks = [each.interval for each in index.lacks]
    return sum(not any(lack.overlaps(s.id.interval) for lack in lacks) for s in visible)


def unreadable_index(ports: TableContext, index: IndexState) -> str:
    """Read all entries of an index; return the reason if they cannot be read, else empty."""
    try:
        entries_in(ports, index)
    except (SegtableError, OSError) as error:
        return str(error)
    return ""


_LOG = logging.getLogger(__name__)


def inner_tables(ports: TableContext, state: State) -> Iterator[tuple[IndexState, TableContext]]:
    """Yield the indexes of a table with the ports of their tables."""
    for index in state.indexes.values():
        yield index, index_ports(ports, index.definition)


def forward_all(ports: TableContext, state: State) -> None:
    """Copy the feeds of all indexes; feeds that cannot be copied wait, with a warning."""
    try:
        forward_feeds(ports, state)
    except (SegtableError, OSError) as error:
        _LOG.warning("%s: feeds of an index wait to be copied: %s", ports.uri, error)


def files_of_feeds(state: State, index: str) -> frozenset[str]:
    """Return the files of an index, by id, that only the indexed table's log names."""
    found = index_of(index, state)
    feeds = found.feeds if found else ()
    return frozenset(segment.path for _, feed in feeds for segment in feed.segments)
