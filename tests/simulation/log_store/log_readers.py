"""Readers of the log store: what they were told adds up to the records of their position.

1. A reader keeps a copy of its bucket from some offset on, and its position. Both outlive its
   process. After each step the copy has exactly the records that the position stands for.
2. A file reader reads what is committed. A tail reader reads one of the last two stores,
   and from files what that does not hold any more.
3. ``Reset`` forgets the records from its offset on. After ``Expired`` the copy begins anew, and the
   event of the first record that it misses has expired indeed. So has one of a missing file.
4. In the end the copy has all committed records.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.errors import (
    Fenced,
    LogStoreUnavailable,
    NotFound,
)
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Behind, Reset
from airflow_provider_segtable.ports.log_store import Records
from airflow_provider_segtable.table.log_store.file_reader import (
    Expired,
    RangeRecords,
    read_committed,
)
from tests.simulation.caretakers import tolerate
from tests.simulation.log_store.log_book import Content, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.ports.log_store import LogReader
    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.log_store.log_crowd import LogCrowd
    from tests.simulation.simulator import Actor

READS = 4


class LogCopy:
    """The records of a bucket from ``start`` on, up to a position."""

    def __init__(self, crowd: LogCrowd, bucket: int) -> None:
        self.crowd, self.bucket = crowd, bucket
        self.start: Offset = 0
        self.records: list[Content] = []
        self.position = BEGINNING

    def add(self, first: Offset, records: Sequence[Content], after: Position) -> None:
        """Add what was read next."""
        at = self.position
        assert first == at.offset, f"bucket {self.bucket}: {first} follows {at}: gap or duplicate"
        self.records += records
        self._move(after)

    def reset(self, reset: Reset) -> None:
        """Forget what was discarded."""
        assert reset.offset <= self.position.offset, f"{reset} at {self.position}"
        self.start = min(self.start, reset.offset)
        del self.records[reset.offset - self.start :]
        self._move(reset.position)

    def jump(self, position: Position) -> None:
        """Begin anew at a later position."""
        self.start, self.records = position.offset, []
        self._move(position)

    def check_expired(self, state: State, what: str) -> None:
        """Check that a reader of a version misses records of which the log keeps no event."""
        newest = self.crowd.world.ledger.checked
        assert newest is not None
        at, book = self.position.offset, self.crowd.book
        missed = (book.committed(self.bucket, n)[at:] for n in (state.n, newest.n))
        left = [each.n for each in next(filter(None, missed), ())]
        gone = any(n < newest.retained_from for n in left)
        kept = f"{left} are kept from {newest.retained_from} on"
        assert gone, f"bucket {self.bucket} at {self.position}: {what}, but {kept}"

    def _move(self, position: Position) -> None:
        self.position = position
        expected = self.crowd.book.at(self.bucket, position, self.start)
        what = f"bucket {self.bucket}: the records of {position} from {self.start} on"
        assert self.records == expected, f"{what} are {expected}, not {self.records}"

    def check_end(self) -> None:
        """Check that all committed records are there."""
        expected = self.committed()
        assert self.has(expected), f"{self.records} lacks some of {expected}"

    def has(self, expected: Sequence[Content]) -> bool:
        """Return whether these records are the first ones."""
        return self.records[: len(expected)] == expected

    def committed(self) -> list[Content]:
        """Return the committed records from the start on."""
        state = self.crowd.world.ledger.checked
        assert state is not None
        committed = [each.content for each in self.crowd.book.committed(self.bucket, state.n)]
        return committed[self.start :]


class FileReader:
    """Reads the committed records into a copy."""

    def __init__(self, copy: LogCopy, ports: TableContext) -> None:
        self._copy, self._ports = copy, ports
        self._crowd = copy.crowd

    @property
    def position(self) -> Position:
        """Return the position of the copy."""
        return self._copy.position

    def read(self) -> None:
        """Read up to the committed end of the newest version."""
        state = self._ports.log.load()
        start = self._copy.position
        try:
            for found in read_committed(self._ports, self._copy.bucket, start, state=state):
                self._take(found, state)
        except NotFound:
            self._copy.check_expired(state, "a file is missing")
            raise

    def _take(self, found: RangeRecords | Reset | Expired, state: State) -> None:
        match found:
            case RangeRecords():
                self._add(found)
            case Reset():
                self._copy.reset(found)
            case Expired(position=position):
                self._copy.check_expired(state, f"expired up to {position}")
                self._copy.jump(position)

    def _add(self, found: RangeRecords) -> None:
        """Add a range; one of a primary-key table may begin before the position."""
        copy, names = self._copy, self._crowd.made.names
        read = self._crowd.book.at(copy.bucket, found.after, found.first)
        told, right = names(found.rows), names(read)
        assert told == right, f"{found.first} to {found.after} are {right}, not {told}"
        seen = copy.position.offset
        copy.add(max(seen, found.first), read[max(0, seen - found.first) :], found.after)


class TailReader:
    """Reads one store after another into a copy, and files where a store has too little."""

    def __init__(self, copy: LogCopy, ports: TableContext, actor: Actor) -> None:
        self._copy, self._actor = copy, actor
        self._files = FileReader(copy, ports)
        self._reader: LogReader | None = None

    def read(self) -> None:
        """Read a little."""
        try:
            for _ in range(READS):
                self._read(self._reader or self._opened())
        except (Fenced, LogStoreUnavailable):
            self._reader = None

    def _opened(self) -> LogReader:
        client = self._copy.crowd.client(self._actor)
        if client is None:
            raise LogStoreUnavailable("no store has started yet: wait")
        self._reader = client.reader(self._copy.bucket, start=self._copy.position)
        return self._reader

    def _read(self, reader: LogReader) -> None:
        match reader.read(wait_s=0):
            case Records(first=first, batch=batch):
                assert reader.position is not None
                self._copy.add(first, contents(batch), reader.position)
            case Reset() as reset:
                self._copy.reset(reset)
            case Behind():
                self._files.read()
                reader.seek(self._copy.position)
            case None:
                self._actor.sleep(self._actor.uniform() * 0.3)


def log_reader(crowd: LogCrowd, number: int) -> Callable[[Actor], None]:
    """A reader of a bucket: every second one of files, the others of stores."""
    copy = LogCopy(crowd, number // 2 % len(crowd.buckets))

    def run(actor: Actor) -> None:
        ports = crowd.world.ports(actor)
        files = FileReader(copy, ports)
        reader: Any = files if number % 2 else TailReader(copy, ports, actor)
        while not crowd.world.settled():
            tolerate(actor, "read the log", reader.read)
            actor.sleep(actor.uniform() * 0.5)
        while not tolerate(actor, "read the log", partial(_to_the_end, files)):
            actor.sleep(actor.uniform())
        copy.check_end()

    return run


def _to_the_end(files: FileReader) -> None:
    """Read until nothing follows: not a reset, not what is left after some expired."""
    before = None
    while before != files.position:
        before = files.position
        files.read()
