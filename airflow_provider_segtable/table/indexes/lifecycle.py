"""Create, rebuild and drop indexes of a table.

1. An index begins with its own table, then with the event that requests it. If that certainly
   fails, the table is deleted again; if the process dies in between, cleaning removes it as an
   orphan.
2. From the event on writers feed the index. What was there before is built by its runs
   (``services.indexing``).
3. A rebuild is a new index of the same name, which replaces the old one at once.
4. A drop is an event, which ends the index's plans, too. Then the log of the index's own table is
   ended (``table.lifetime.log_end``), so that a late copy of a feed, or a late compaction, is
   refused; then its files are deleted. The marker of the end stays until cleaning deletes what is
   left of the folder.
"""

from collections.abc import Collection
from contextlib import suppress

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    SegtableError,
)
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition, IndexState, in_words
from airflow_provider_segtable.core.indexes.index_table import folder
from airflow_provider_segtable.core.log.events import IndexDropped, IndexRequested
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import create_index_table
from airflow_provider_segtable.table.lifetime.log_end import end_index_log
from airflow_provider_segtable.table.log.committer import Change, Committed, commit_or_raise

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
        kind: what it keeps.
        replaces: the id of the index of this name that it replaces.
        commit_id: equal ids request it once; random by default.

    Raises:
        InvalidInput: the name is no name, or the table cannot be indexed so; nothing is written.
        CommitConflict: there is an index of this name.
        CommitUnknown: run again with the same commit id.
    """
    if not is_name(name):
        raise InvalidInput(
            f"{name!r} cannot name an index: use letters, digits, '.', '_' and '-', at most 100"
        )
    state = ports.log.load()
    commit_id = commit_id or ports.randomness.token()
    if (landed := state.commits.get(commit_id)) is not None:
        return Committed(n=landed, state=state)
    kind.check(state.table)
    _check_free(name, replaces, state, ports.uri)
    index = IndexDefinition(name=name, id=f"{name}-{ports.randomness.token()}"[-100:], kind=kind)
    change = Change(action=IndexRequested(index=index, replaces=replaces), commit_id=commit_id)
    try:
        create_index_table(ports, index, state.table)
        done = commit_or_raise(ports, state, change)
    except CommitUnknown:
        raise  # the event may come, and then names the table
    except SegtableError:
        with suppress(SegtableError):  # what is left is an orphan, which cleaning removes
            _delete_files(ports, index.id)  # no other process knows its table
        raise
    if replaces is not None:
        _end_table(ports, replaces)
    return done


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
        InvalidInput: there is none; the message names those that are there.
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
