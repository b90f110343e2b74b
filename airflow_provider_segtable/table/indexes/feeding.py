"""Feed the indexes of a table with what an event publishes, before it is committed.

1. A writer reads which indexes there are with the rest of the log, and writes the entries about its
   new files for each one. An index that was requested meanwhile is seen in the next attempt of its
   commit, and fed then, because no commit lands that has not read the whole log.
2. An index never keeps a writer from committing. If its entries cannot be written, the files are
   larger than ``MOST_BYTES``, or more than ``MOST_WAITING`` feeds wait since nobody can copy them
   (``forwarding``), the event has no feed for it: the log records that the index lacks them, and
   its next run builds them.
3. Entries about records are written by ``table.routing``, which looks at known ones, too.
4. A restore and a repair publish files again and feed nothing: the log records that the index lacks
   them, since files that were hidden when it was built have no entries.

Source of the idea: Hudi RFC-45, "Any inflight writers".
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from airflow_provider_segtable.core.errors import SegtableError, TableGone
from airflow_provider_segtable.core.indexes.feed import Feed
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    PlanCompleted,
    RowsChanged,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feed_writer import discard_feed, write_feed

MOST_BYTES = 64 << 20
"""Size of the files of one event that their writer reads again to index them."""

MOST_WAITING = 256
"""Number of feeds that a state carries; ``forwarding`` copies them much earlier."""

_LOG = logging.getLogger(__name__)


class Feeder:
    """The feeds of one change, kept from attempt to attempt."""

    def __init__(
        self,
        ports: TableContext,
        action: Action,
        given: Sequence[Feed] = (),
        ready: Ready | None = None,
    ) -> None:
        """Begin with the feeds that the author of the change has made.

        ``ready`` waits until the files of the action can be read; None if they can.
        """
        self._ports = ports
        self._ready = ready
        self._files = _new_files(action)
        self._done: dict[str, Feed | None] = {feed.index: feed for feed in given}

    def prepare(self, state: State) -> None:
        """Write the entries for the indexes of a state that have none yet."""
        for index in self._unfed(state):
            self._done[index.definition.id] = self._fed(index, state)

    def ready(self, state: State) -> bool:
        """Return whether all indexes of a state are prepared."""
        return not self._unfed(state)

    def feeds(self, state: State) -> tuple[Feed, ...]:
        """Return the feeds of an event after a state."""
        found = (self._done.get(each.definition.id) for each in state.indexes.values())
        return tuple(feed for feed in found if feed is not None)

    def discard(self) -> None:
        """Delete the files of all feeds: the event certainly does not land."""
        self._discard_but(())

    def discard_unnamed(self, n: int) -> None:
        """Delete the feeds that event n, which has the change, does not name: another call put it.

        An event that cannot be read may name them; then they stay, and cleaning sees to them.
        """
        if any(feed.segments for feed in self._done.values() if feed is not None):
            with suppress(SegtableError):
                event = self._ports.log.event(n)
                self._discard_but(self._done.values() if event is None else event.feeds)

    def _discard_but(self, named: Collection[Feed | None]) -> None:
        for feed in self._done.values():
            if feed is not None and feed not in named:
                discard_feed(self._ports, feed)

    def _unfed(self, state: State) -> list[IndexState]:
        if not self._files:
            return []
        return [
            each
            for each in state.indexes.values()
            if each.definition.kind.about_files and each.definition.id not in self._done
        ]

    def _fed(self, index: IndexState, state: State) -> Feed | None:
        if left_out(self._files, index):
            return None
        try:
            if self._ready is not None:
                self._ready()
            rows = entries(index.definition, state.table, self._files, self._ports.files)
            return write_feed(self._ports, index.definition, rows)
        except TableGone:
            return None  # the index was dropped meanwhile
        except (SegtableError, OSError) as error:
            name = index.definition.name
            _LOG.warning("%s: index %s was not fed: %s", self._ports.uri, name, error)
            return None


def left_out(files: Iterable[Segment], index: IndexState) -> bool:
    """Return whether an event with these files brings an index nothing, to keep writers quick."""
    size = sum(segment.size for segment in files)
    return size > MOST_BYTES or len(index.feeds) >= MOST_WAITING


def _new_files(action: Action) -> tuple[Segment, ...]:
    match action:
        case Appended(segments=made) | RowsChanged(segments=made) | PlanCompleted(segments=made):
            return tuple(segment for segment in made if segment.path)
        case _:
            return ()
