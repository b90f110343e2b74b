"""Record which time chunks and filters readers ask for (``core.reads.read_facts``).

::

    _segtable/reads/20130101T07-<token>.json    the facts of one process, written at 7 o'clock

1. The property ``statistics.reads`` switches it on: ``all`` reads are recorded, or one in
   ``READS_SAMPLED``, which counts for so many. A reader that finds it off does nothing at all.
2. A read is recorded when it ends: whole versions, windows and reads with the log store are not,
   and neither is a read that its reader left early, as with a limit.
3. A recorder adds reads up in memory. It writes an object every ``HELD_S`` and when the process
   ends, in a thread of its own: **no read sends a request, or waits for one**.
4. Facts are hints. A process that may not write, or is killed, loses its facts and nothing else.
   The end of a process waits ``EXIT_S`` for the store at most.
5. Objects are new names, put as a whole, and no event names them. Cleaning deletes them by age.
6. A forked process begins with no facts: its parent has them.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.reads.read_facts import (
    FilterKind,
    OneRead,
    ReadFacts,
    ReadShape,
    ReadTally,
    filters_of,
    one_read,
)
from airflow_provider_segtable.core.reads.selection import Layer, Segments, Selection
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant, moment
from airflow_provider_segtable.planning.properties import share_of_reads
from airflow_provider_segtable.ports.clock import Clock, Randomness
from airflow_provider_segtable.ports.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_segtable.data.conditions import Condition

FOLDER = "_segtable/reads"
HELD_S = 600.0
EXIT_S = 5.0
MOST_OBJECTS = 256
"""Number of the newest objects that are read: of some hundred processes."""
_READERS = 16

_LOG = logging.getLogger(__name__)
Item = TypeVar("Item", bound=Segments)


# A read under way
def read_shape(
    time_column: str,
    conditions: Iterable["Condition"],
    columns: Iterable[str],
    *,
    measured: bool,
) -> ReadShape:
    """Return the shape of a read.

    Args:
        time_column: the event time, if the read asks for an interval of it; else empty.
        conditions: conditions on its rows.
        columns: the returned columns.
        measured: whether matching rows are counted.
    """
    interval = [(time_column, FilterKind.RANGE)] if time_column else []
    tests = [test for each in conditions for test in filters_of(each.predicates, each.columns)]
    return ReadShape(
        filters=tuple(sorted({*interval, *tests})), columns=tuple(columns), measured=measured
    )


class ReadWatch(Protocol):
    """Counts a read under way."""

    def chosen(self, found: Selection[Item]) -> Selection[Item]:
        """Keep the choice of files, and return it."""
        ...

    def saw(self, segment: Segment, rows: int) -> None:
        """Count the matching rows of a batch of a file."""
        ...

    def ended(self) -> None:
        """Record the read."""
        ...


class _Unwatched:
    """A read that is not recorded."""

    def chosen(self, found: Selection[Item]) -> Selection[Item]:
        return found

    def saw(self, segment: Segment, rows: int) -> None:
        del segment, rows

    def ended(self) -> None:
        return


UNWATCHED: ReadWatch = _Unwatched()


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A read that is recorded."""

    shape: ReadShape
    keep: Callable[[OneRead], None]
    layers: Sequence[Layer] = ()
    matching: dict[str, int] = field(default_factory=dict)

    def chosen(self, found: Selection[Item]) -> Selection[Item]:
        self.layers = found.layers
        return found

    def saw(self, segment: Segment, rows: int) -> None:
        self.matching[segment.path] = self.matching.get(segment.path, 0) + rows

    def ended(self) -> None:
        self.keep(one_read(self.shape, self.layers, self.matching))


# The facts of a process
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlace:
    """Where the reads of a table are recorded: its storage, and the clock and tokens of names."""

    storage: Storage
    clock: Clock
    randomness: Randomness


class ReadRecorder:
    """The recorded reads of a process; safe among threads."""

    def __init__(self, held_s: float = HELD_S, exit_s: float = EXIT_S) -> None:
        """Start empty."""
        self._held_s, self._exit_s = held_s, exit_s
        self._reset()

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._ending = threading.Event()
        self._held: dict[tuple[str, str], tuple[ReadPlace, ReadTally]] = {}
        self._writer: threading.Thread | None = None

    def watch(
        self, place: ReadPlace, table: TableDefinition, shape: Callable[[], ReadShape]
    ) -> ReadWatch:
        """Return the watch of a read that begins; ``shape`` is called if it is recorded."""
        share = share_of_reads(table.properties)
        if not share or (share < 1 and place.randomness.uniform() >= share):
            return UNWATCHED
        return _Watched(
            shape=shape(), keep=lambda one: self._keep(place, table.table_id, one, 1 / share)
        )

    def _keep(self, place: ReadPlace, table_id: str, one: OneRead, weight: float) -> None:
        now = place.clock.now()
        with self._mutex:
            empty = ReadTally(table_id=table_id, start=now, end=now)
            key = place.storage.uri, table_id
            self._held.setdefault(key, (place, empty))[1].add(one, weight, now)
            if self._writer is None:
                self._writer = threading.Thread(
                    target=self._write_on, name="segtable-reads", daemon=True
                )
                self._writer.start()
                atexit.register(self.close)

    def _write_on(self) -> None:
        """Write from time to time, until the end or until there is nothing to write."""
        while not self._ending.wait(self._held_s):
            self.write()
            with self._mutex:
                if not self._held:
                    self._writer = None
                    atexit.unregister(self.close)
                    return
        self.write()

    def write(self) -> None:
        """Write the facts of all tables; a failure loses them."""
        with self._mutex:
            held, self._held = self._held, {}
        for place, tally in held.values():
            try:
                data = tally.facts().encoded()
                place.storage.create(_path(place.clock.now(), place.randomness.token()), data)
            except Exception as error:  # noqa: BLE001 - facts are hints: no failure of theirs counts
                _LOG.debug("%s: facts about reads were lost: %s", place.storage.uri, error)

    def close(self) -> None:
        """Write the facts, and wait for that a bounded time."""
        writer = self._writer
        self._ending.set()
        if writer is not None:
            writer.join(self._exit_s)


OF_THIS_PROCESS = ReadRecorder()
os.register_at_fork(after_in_child=OF_THIS_PROCESS._reset)  # noqa: SLF001 - ours, in this file


def _path(now: Instant, token: str) -> str:
    return f"{FOLDER}/{_hour(now)}-{token}.json"


def _hour(at: Instant) -> str:
    return f"{moment(at):%Y%m%dT%H}"


# The facts of a table
def recorded_reads(storage: Storage, table_id: str, since: Instant) -> tuple[ReadFacts, ...]:
    """Return the facts about the reads of a table, the oldest first.

    Raises:
        StorageError: the folder cannot be listed.
    """
    listed = storage.list(FOLDER, after=f"{FOLDER}/{_hour(since)}")
    paths = [entry.path for entry in listed][-MOST_OBJECTS:]
    with ThreadPoolExecutor(_READERS if storage.remote else 1) as pool:
        found = pool.map(lambda path: _read(storage, path), paths)
        return tuple(each for each in found if each and each.table_id == table_id)


def _read(storage: Storage, path: str) -> ReadFacts | None:
    try:
        return ReadFacts.decoded(storage.read(path))
    except (SegtableError, OSError):  # cleaned meanwhile
        return None


def expired_reads(storage: Storage, before: Instant) -> Iterator[str]:
    """Yield the paths of facts that were written before a time."""
    yield from (entry.path for entry in storage.list(FOLDER) if entry.modified <= before)
