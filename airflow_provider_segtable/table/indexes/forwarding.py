"""Copy feeds into the log of an index's own table.

1. Each feed becomes one append there, with a commit id of its own (``feed_commit``). So it is
   copied once, whoever copies it and however often.
2. An index whose log fails keeps no other index from its feeds.
3. Feeds are copied in order. Then one event of the indexed table says how far its index is; from
   then on the state carries these feeds no more.
4. It is work that anyone may do at any time: readers see the feeds all the same
   (``table.indexes.index_log``).
"""

from collections.abc import Callable

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.events import Action, Appended, IndexForwarded
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import feed_commit, index_ports

MANY = 64
"""Number of feeds from which on a writer copies them after its own commit."""

Put = Callable[[TableContext, State, Action, str], State | None]
"""Commits an action under a commit id; returns the state, or None if it is not in the log."""


def forward(ports: TableContext, state: State, put: Put, *, at_least: int = 1) -> None:
    """Copy the feeds of all indexes that have so many.

    Raises:
        SegtableError: the log of an index could not be read or written; the others are copied.
    """
    failed: list[SegtableError] = []
    for index in state.indexes.values():
        if len(index.feeds) < at_least:
            continue
        try:
            _forward(ports, state, index, put)
        except SegtableError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _forward(ports: TableContext, state: State, index: IndexState, put: Put) -> None:
    own = index_ports(ports, index.definition)
    seen = own.log.load()
    for n, feed in index.feeds:
        commit_id = feed_commit(n, feed)
        if commit_id in seen.commits:
            continue
        done = put(own, seen, Appended(segments=feed.segments), commit_id)
        if done is None:
            return  # somebody else is at it
        seen = done
    action = IndexForwarded(index=index.definition.id, through=index.feeds[-1][0])
    put(ports, state, action, f"forwarded-{index.definition.id}-{action.through}")
