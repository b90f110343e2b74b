"""Copy feeds into the log of an index's own table.

1. Neighbouring inline feeds are written to files first, all at once, and ``FeedsJoined`` puts these
   in their place (``FeedsJoined`` lands once, whoever tries: other authors delete their files).
2. Then each feed has files, and becomes one append there, with a commit id of its own
   (``feed_commit``). So it is copied once, whoever copies it and however often.
3. Feeds are copied in order. Then one event of the indexed table says how far its index is; from
   then on the state carries these feeds no more.
4. An index whose log fails keeps no other index from its feeds.
5. It is work that anyone may do at any time, and that may end after any step: readers see the
   feeds all the same (``table.indexes.lookup``).
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    FeedsJoined,
    IndexForwarded,
)
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feed_writer import discard_feed, write_joined
from airflow_provider_segtable.table.indexes.index_log import feed_commit, index_ports

MANY = 64
"""Number of feeds from which on a writer copies them after its own commit."""
MOST_BYTES = 256 << 10
"""Bytes of inline feeds from which on a writer copies them, because states carry them."""

Put = Callable[[TableContext, State, Action, str], State | Conflict | None]
"""Commits an action under a commit id; returns the state, a conflict, or None if it is unknown."""


def forward(ports: TableContext, state: State, put: Put, *, at_least: int = 1) -> None:
    """Copy the feeds of all indexes that have so many, or too many bytes of them.

    Raises:
        SegtableError: the log of an index could not be read or written; the others are copied.
    """
    failed: list[SegtableError] = []
    for index in state.indexes.values():
        if len(index.feeds) < at_least and index.inline_bytes <= MOST_BYTES:
            continue
        try:
            _forward(ports, state, index, put)
        except SegtableError as error:
            if index_of(index.definition.id, ports.log.refresh(state)) is not None:
                failed.append(error)  # else it was dropped meanwhile
    if failed:
        raise failed[0]


def _forward(ports: TableContext, state: State, index: IndexState, put: Put) -> None:
    last, name = index.feeds[-1][0], index.definition.id
    found: IndexState | None = index
    while found is not None and (run := _first_inline(found, last)):
        joined = _join(ports, state, found, run, put)
        if joined is None:
            return  # somebody else is at it
        state, found = joined, index_of(name, joined)
    if found is not None:
        _copy(ports, state, found, put)


def _first_inline(index: IndexState, last: int) -> list[tuple[int, Feed]]:
    """Return the first run of inline feeds, of events up to ``last``."""
    first = next((n for n, feed in index.feeds if feed.inline and n <= last), None)
    run = () if first is None else index.inline_run(first)
    return [each for each in run if each[0] <= last]


def _join(
    ports: TableContext,
    state: State,
    index: IndexState,
    run: Sequence[tuple[int, Feed]],
    put: Put,
) -> State | None:
    """Put files in the place of some inline feeds; None if it is not certain that they are."""
    feed = write_joined(ports, index.definition, [feed for _, feed in run])
    action = FeedsJoined(
        index=feed.index, first=run[0][0], through=run[-1][0], segments=feed.segments
    )
    done = put(ports, state, action, ports.randomness.token())
    if isinstance(done, Conflict):
        discard_feed(ports, feed)
        return None
    return done


def _copy(ports: TableContext, state: State, index: IndexState, put: Put) -> None:
    """Copy the feeds that have files, and record it."""
    ready = [*takewhile(lambda each: not each[1].inline, index.feeds)]
    if not ready:
        return
    own = index_ports(ports, index.definition)
    seen = own.log.load()
    for n, feed in ready:
        commit_id = feed_commit(n, feed)
        if commit_id in seen.commits:
            continue
        done = put(own, seen, Appended(segments=feed.segments), commit_id)
        if not isinstance(done, State):
            return  # somebody else is at it
        seen = done
    action = IndexForwarded(index=index.definition.id, through=ready[-1][0])
    put(ports, state, action, f"forwarded-{action.index}-{action.through}")
