"""Feed the indexes of a table with the files of an event, and copy feeds into the indexes' logs.

Feeds, made before the event is committed:

1. A writer reads the indexes with the rest of the log, and writes entries about its new files for
   each one. An index that was requested meanwhile is seen in the next attempt of the commit, and
   fed then, because no commit lands without having read the whole log.
2. The new files are those of the event as it is put. They include corrections
   (``table.indexes.routing``), which another attempt may replace: then the feeds are made again.
   A feed has the number of files that it covers, so the log records a lack if the event has more.
3. No index keeps a writer from committing. The event has no feed for an index if the entries cannot
   be written, if the files are larger than ``MOST_FEED_BYTES``, or if more than ``MOST_WAITING``
   feeds wait because they cannot be copied. The log records that the index lacks these files, and
   its next run builds them.
4. Entries about records are written by ``table.indexes.routing``, together with known ones.
5. A restore and a repair publish files again and feed nothing. The log records that the index lacks
   them, since files that were hidden when it was built have no entries.

Copies (``forward``):

6. Neighbouring inline feeds are first written to files, all at once, and ``FeedsJoined`` puts these
   in their place. It lands once; other authors of it delete their files.
7. Then each feed has files, and becomes one append to the index's log, with a commit id of its own
   (``feed_commit``). So it is copied once, however many processes copy it and however often.
8. Feeds are copied in order. Then one event of the indexed table records how far its index is; from
   then on the state carries these feeds no more.
9. An index with a failing log keeps no other index from its feeds.
10. Any process may copy feeds at any time, and may stop after any step: readers see the feeds all
    the same (``table.indexes.index_entries``).

Entries are Arrow tables, and each committer looks here whether there are indexes: so the modules of
entries are imported where there is one.

Source of the idea: Hudi RFC-45, "Any inflight writers".
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError, TableGone
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.index_events import FeedsJoined, IndexForwarded
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FEED_BYTES = 64 << 20
"""Largest size of an event's files that their writer reads again to index them."""

MOST_WAITING = 256
"""Most feeds that a state carries; ``forward`` copies them much earlier."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _FeedOfFiles:
    """A feed, or None, and the files that it is about; None if the change's author made it."""

    feed: Feed | None
    files: tuple[Segment, ...] | None = None


class Feeder:
    """The feeds of one change, kept from attempt to attempt while its files are the same."""

    def __init__(
        self, ports: TableContext, given: Sequence[Feed] = (), ready: Ready | None = None
    ) -> None:
        """Begin with the feeds of the change's author.

        ``ready`` waits until the files of the action can be read; None if they can.
        """
        self._ports = ports
        self._ready = ready
        self._done = {feed.index: _FeedOfFiles(feed) for feed in given}
        self._entries: dict[tuple[str, str], pa.Table] = {}
        self._stale: list[Feed] = []

    def prepare(self, state: State, files: Sequence[Segment]) -> None:
        """Write the entries about new files for the indexes of a state that lack them."""
        for index in self._unfed_indexes(state, files):
            name = index.definition.id
            old = self._done.get(name)
            self._stale += [old.feed] if old and old.feed else []
            self._done[name] = _FeedOfFiles(self._written_feed(index, state, files), tuple(files))

    def ready(self, state: State, files: Sequence[Segment]) -> bool:
        """Return whether all indexes of a state are prepared for these files."""
        return not self._unfed_indexes(state, files)

    def feeds(self, state: State) -> tuple[Feed, ...]:
        """Return the feeds of an event after a state."""
        found = (self._done.get(each.definition.id) for each in state.indexes.values())
        return tuple(each.feed for each in found if each and each.feed is not None)

    def tidy(self) -> None:
        """Delete the files of replaced feeds: the event certainly has the new ones."""
        while self._stale:
            _discard(self._ports, self._stale.pop())

    def discard(self) -> None:
        """Delete the files of all feeds: the event certainly does not land."""
        self._discard_but(())

    def discard_unnamed(self, n: int) -> None:
        """Delete the feeds that the change's event n does not name, because another call put it.

        An event that cannot be read may name them. Then they stay until cleaning deletes them.
        """
        made = [*self._made_feeds()]
        if any(feed.segments for feed in made):
            with suppress(SegtableError):
                event = self._ports.log.event(n)
                self._discard_but(made if event is None else event.feeds)

    def _made_feeds(self) -> Iterable[Feed]:
        yield from self._stale
        yield from (each.feed for each in self._done.values() if each.feed is not None)

    def _discard_but(self, named: Collection[Feed]) -> None:
        for feed in self._made_feeds():
            if feed not in named:
                _discard(self._ports, feed)

    def _unfed_indexes(self, state: State, files: Sequence[Segment]) -> list[IndexState]:
        wanted = tuple(files)
        return [
            each
            for each in (state.indexes.values() if wanted else ())
            if each.definition.kind.about_files
            and self._done.get(each.definition.id, _FeedOfFiles(None, ())).files
            not in (None, wanted)
        ]

    def _written_feed(
        self, index: IndexState, state: State, files: Sequence[Segment]
    ) -> Feed | None:
        if left_out(files, index):
            return None
        from airflow_provider_segtable.table.indexes.index_entries import write_feed

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

    def _rows(self, index: IndexState, state: State, files: Sequence[Segment]) -> "pa.Table":
        """Return the entries about files; each file is read once for an index."""
        import pyarrow as pa

        from airflow_provider_segtable.data.indexes.entries import entries

        definition, keys = index.definition, [(index.definition.id, each.path) for each in files]
        for key, each in zip(keys, files, strict=True):
            if key not in self._entries:
                found = entries(definition, state.table, [each], self._ports.files)
                self._entries[key] = found
        return pa.concat_tables([self._entries[key] for key in keys])


def _discard(ports: TableContext, feed: Feed) -> None:
    from airflow_provider_segtable.table.indexes.index_entries import discard_feed

    discard_feed(ports, feed)


def left_out(files: Iterable[Segment], index: IndexState) -> bool:
    """Return whether an event with these files has no feed for an index, to keep writers fast."""
    size = sum(segment.size for segment in files)
    return size > MOST_FEED_BYTES or len(index.feeds) >= MOST_WAITING


def new_files(action: Action) -> tuple[Segment, ...]:
    """Return the new files of an action."""
    match action:
        case Appended(segments=made) | RowsChanged(segments=made) | PlanCompleted(segments=made):
            return tuple(segment for segment in made if segment.path)
        case _:
            return ()


MANY = 64
"""Least number of waiting feeds that a writer copies after its own commit."""
MOST_INLINE_BYTES = 256 << 10
"""Bytes of inline feeds above which a writer copies them, because states carry them."""

Put = Callable[[TableContext, State, Action, str], State | Conflict | None]
"""Commits an action under a commit id; returns the state, a conflict, or None if it is unknown."""


def forward(ports: TableContext, state: State, put: Put, *, at_least: int = 1) -> None:
    """Copy the feeds of all indexes with at least so many feeds, or too many bytes of them.

    Raises:
        SegtableError: the log of an index could not be read or written; the others are copied.
    """
    failed: list[SegtableError] = []
    for index in state.indexes.values():
        if len(index.feeds) < at_least and index.inline_bytes <= MOST_INLINE_BYTES:
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
            return  # another process copies them
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
    """Put files in the place of some inline feeds; return None if the outcome is uncertain."""
    from airflow_provider_segtable.table.indexes.index_entries import write_joined

    feed = write_joined(ports, index.definition, [feed for _, feed in run])
    action = FeedsJoined(
        index=feed.index, first=run[0][0], through=run[-1][0], segments=feed.segments
    )
    done = put(ports, state, action, ports.randomness.token())
    if isinstance(done, Conflict):
        _discard(ports, feed)
        return None
    return done


def _copy(ports: TableContext, state: State, index: IndexState, put: Put) -> None:
    """Copy the feeds with files, and record the progress."""
    ready = [*takewhile(lambda each: not each[1].inline, index.feeds)]
    if not ready:
        return
    from airflow_provider_segtable.table.indexes.index_entries import feed_commit, index_ports

    own = index_ports(ports, index.definition)
    seen = own.log.load()
    for n, feed in ready:
        commit_id = feed_commit(n, feed)
        if commit_id in seen.commits:
            continue
        done = put(own, seen, Appended(segments=feed.segments), commit_id)
        if not isinstance(done, State):
            return  # another process copies them
        seen = done
    action = IndexForwarded(index=index.definition.id, through=ready[-1][0])
    put(ports, state, action, f"forwarded-{action.index}-{action.through}")
