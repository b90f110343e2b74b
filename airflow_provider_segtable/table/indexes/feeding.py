"""Feed the indexes of a table with what an event publishes, before it is committed.

1. A writer reads which indexes there are with the rest of the log, and writes the entries about its
   new files for each one. An index that was requested meanwhile is seen in the next attempt of its
   commit, and fed then, because no commit lands that has not read the whole log.
   The new files are those of the event as it is put: corrections are among them
   (``table.routing.router``), which another attempt may replace. Then the feeds are made again.
   A feed says how many files it covers, so the log records a lack if the event has more.
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
from dataclasses import dataclass, replace

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError, TableGone
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    PlanCompleted,
    RowsChanged,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feed_writer import discard_feed, write_feed

MOST_BYTES = 64 << 20
"""Size of the files of one event that their writer reads again to index them."""

MOST_WAITING = 256
"""Number of feeds that a state carries; ``forwarding`` copies them much earlier."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Fed:
    """A feed (None if there is none) about these files, which are None if its author made it."""

    feed: Feed | None
    files: tuple[Segment, ...] | None = None


class Feeder:
    """The feeds of one change, kept from attempt to attempt while its files are the same."""

    def __init__(
        self, ports: TableContext, given: Sequence[Feed] = (), ready: Ready | None = None
    ) -> None:
        """Begin with the feeds that the author of the change has made.

        ``ready`` waits until the files of the action can be read; None if they can.
        """
        self._ports = ports
        self._ready = ready
        self._done = {feed.index: _Fed(feed) for feed in given}
        self._entries: dict[tuple[str, str], pa.Table] = {}
        self._stale: list[Feed] = []

    def prepare(self, state: State, files: Sequence[Segment]) -> None:
        """Write the entries about new files for the indexes of a state that lack them."""
        for index in self._unfed(state, files):
            name = index.definition.id
            old = self._done.get(name)
            self._stale += [old.feed] if old and old.feed else []
            self._done[name] = _Fed(self._fed(index, state, files), tuple(files))

    def ready(self, state: State, files: Sequence[Segment]) -> bool:
        """Return whether all indexes of a state are prepared for these files."""
        return not self._unfed(state, files)

    def feeds(self, state: State) -> tuple[Feed, ...]:
        """Return the feeds of an event after a state."""
        found = (self._done.get(each.definition.id) for each in state.indexes.values())
        return tuple(each.feed for each in found if each and each.feed is not None)

    def tidy(self) -> None:
        """Delete the files of feeds that were made again: the event certainly has the new ones."""
        while self._stale:
            discard_feed(self._ports, self._stale.pop())

    def discard(self) -> None:
        """Delete the files of all feeds: the event certainly does not land."""
        self._discard_but(())

    def discard_unnamed(self, n: int) -> None:
        """Delete the feeds that event n, which has the change, does not name: another call put it.

        An event that cannot be read may name them; then they stay, and cleaning sees to them.
        """
        made = [*self._made()]
        if any(feed.segments for feed in made):
            with suppress(SegtableError):
                event = self._ports.log.event(n)
                self._discard_but(made if event is None else event.feeds)

    def _made(self) -> Iterable[Feed]:
        yield from self._stale
        yield from (each.feed for each in self._done.values() if each.feed is not None)

    def _discard_but(self, named: Collection[Feed]) -> None:
        for feed in self._made():
            if feed not in named:
                discard_feed(self._ports, feed)

    def _unfed(self, state: State, files: Sequence[Segment]) -> list[IndexState]:
        wanted = tuple(files)
        return [
            each
            for each in (state.indexes.values() if wanted else ())
            if each.definition.kind.about_files
            and self._done.get(each.definition.id, _Fed(None, ())).files not in (None, wanted)
        ]

    def _fed(self, index: IndexState, state: State, files: Sequence[Segment]) -> Feed | None:
        if left_out(files, index):
            return None
        try:
            if self._ready is not None:
                self._ready()
            rows = self._rows(index, state, files)
            return replace(write_feed(self._ports, index.definition, rows), files=len(files))
        except TableGone:
            return None  # the index was dropped meanwhile
        except (SegtableError, OSError) as error:
            name = index.definition.name
            _LOG.warning("%s: index %s was not fed: %s", self._ports.uri, name, error)
            return None

    def _rows(self, index: IndexState, state: State, files: Sequence[Segment]) -> pa.Table:
        """Return the entries about files; each file is read once for an index."""
        definition, keys = index.definition, [(index.definition.id, each.path) for each in files]
        for key, each in zip(keys, files, strict=True):
            if key not in self._entries:
                found = entries(definition, state.table, [each], self._ports.files)
                self._entries[key] = found
        return pa.concat_tables([self._entries[key] for key in keys])


def left_out(files: Iterable[Segment], index: IndexState) -> bool:
    """Return whether an event with these files brings an index nothing, to keep writers quick."""
    size = sum(segment.size for segment in files)
    return size > MOST_BYTES or len(index.feeds) >= MOST_WAITING


def new_files(action: Action) -> tuple[Segment, ...]:
    """Return the files that the event of an action makes known."""
    match action:
        case Appended(segments=made) | RowsChanged(segments=made) | PlanCompleted(segments=made):
            return tuple(segment for segment in made if segment.path)
        case _:
            return ()
