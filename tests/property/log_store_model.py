"""A table, two log stores, its writers and readers, with lists in place of all rules.

1. Each record is a number of its own. ``table`` is the list of committed ones. A store's
   ``current`` is what the table held when its epoch began, and then what its writer appended.
2. The table fences: it takes commits of the newest epoch only. A store does not know the epochs of
   the other one, so its old writer goes on there, as a zombie. News of a commit may be lost.
3. A reader keeps what it has read, by offset. After ``Reset`` it forgets the rest; ``Behind`` makes
   it read the table. Whenever it gets records, all that it has kept is what the store has there.
"""

from dataclasses import dataclass, field
from itertools import count

from airflow_provider_segtable.core.errors import CheckpointPending, Fenced
from airflow_provider_segtable.core.log_store import bucket, reading
from airflow_provider_segtable.core.log_store.bucket import (
    Append,
    BucketCut,
    BucketLog,
    Full,
    Limits,
    Stored,
    violations,
)
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Position
from airflow_provider_segtable.core.log_store.reading import Behind, Found, Reset

LIMITS = Limits(bucket_bytes=16, kept_checkpoints=1)
MOST_READ = 5


@dataclass
class Store:
    """A store's bucket, and the list that it stands for."""

    log: BucketLog[list[int]] = field(default_factory=BucketLog)
    current: list[int] = field(default_factory=list)
    appended: list[tuple[int, list[int]]] = field(default_factory=list)
    cuts: list[BucketCut[list[int]]] = field(default_factory=list)


@dataclass
class Reader:
    """What a reader has, and where it goes on."""

    seen: list[int] = field(default_factory=list)
    position: Position | None = None


@dataclass
class World:
    """The table, and everybody at it."""

    table: list[int] = field(default_factory=list)
    committed: CommittedEnd = field(default_factory=CommittedEnd)
    epoch: int = 0
    stores: list[Store] = field(default_factory=lambda: [Store(), Store()])
    readers: list[Reader] = field(default_factory=lambda: [Reader(), Reader()])
    numbers: "count[int]" = field(default_factory=count)

    def begin(self, store: Store) -> None:
        """Let a new writer begin: it fences the table, then reads its end."""
        self.epoch += 1
        self._set(
            store,
            bucket.begin(store.log, epoch=self.epoch, writer="w", committed=self.committed),
        )
        store.current = [*self.table]
        store.appended = []
        assert store.log.end == len(self.table)

    def restart(self, store: Store) -> None:
        """Lose a store's memory."""
        store.log, store.current, store.appended, store.cuts = BucketLog(), [], [], []

    def append(self, store: Store, records: int) -> None:
        """Append as the writer of the store's epoch, which may be a zombie."""
        if not store.log.epoch:
            return
        content = [next(self.numbers) for _ in range(records)]
        first = len(store.current)
        match self._append(store, store.log.epoch, first, content):
            case Stored(log=log, repeated=repeated):
                assert not repeated
                self._set(store, log)
                store.current += content
                store.appended.append((first, content))
                assert log.end == len(store.current)
            case Full(uncommitted_bytes=size):
                assert size + records > LIMITS.bucket_bytes

    def repeat(self, store: Store, which: int) -> None:
        """Repeat an append of the epoch: nothing may change."""
        if store.appended:
            first, content = store.appended[which % len(store.appended)]
            answer = self._append(store, store.log.epoch, first, content)
            assert answer == Stored(log=store.log, repeated=True)

    def intrude(self, store: Store) -> None:
        """Append and begin with the epoch before: both are refused."""
        for call in (
            lambda: self._append(store, store.log.epoch - 1, len(store.current), [-1]),
            lambda: bucket.begin(
                store.log, epoch=store.log.epoch, writer="another", committed=self.committed
            ),
        ):
            assert not store.log.epoch or refused(call)

    def checkpoint(self, store: Store, *, commits: bool, heard: bool) -> None:
        """Cut, let the table commit or not, and let the store hear of it or not."""
        try:
            self._set(store, bucket.cut(store.log))
        except CheckpointPending:
            return
        if cut := store.log.pending:
            assert [r for batch in cut.batches for r in batch.content] == (
                store.current[cut.start : cut.end]
            )
            store.cuts.append(cut)
            if commits:
                self._commit(cut)
            if heard:
                self.hear(store, -1)

    def hear(self, store: Store, which: int) -> None:
        """Bring the outcome of a checkpoint, now or late, perhaps again."""
        if not store.cuts:
            return
        cut = store.cuts[which % len(store.cuts)]
        if not self._has(cut):
            self._set(store, bucket.abandon(store.log, cut))
        elif not refused(lambda: self._hear(store, cut)):
            assert store.log.committed.offset >= cut.end

    def read(self, reader: Reader, store: Store) -> None:
        """Read once; check what the reader has kept against the store's list."""
        try:
            found = reading.read(store.log, reader.position, most_size=MOST_READ)
        except Fenced:
            assert reader.position
            assert reader.position.epoch > store.log.epoch
            return
        match found:
            case Found(batches=batches, skip=skip, next=after):
                origin = store.log.origin.offset if reader.position is None else 0
                reader.seen = reader.seen or store.current[:origin]
                assert len(batches) == 1 or found.size < MOST_READ
                assert reader.seen == store.current[: found.first]
                reader.seen += [n for batch in batches for n in batch.content][skip:]
                reader.position = after
            case Reset(offset=offset):
                assert offset < len(reader.seen)
                reader.seen, reader.position = reader.seen[:offset], found.position
            case Behind(first_available=first):
                assert first <= len(store.current)
                reader.seen, reader.position = [*self.table], self.committed.position
            case None if store.log.epoch and reader.position:
                assert reader.seen == store.current

    def _append(
        self, store: Store, epoch: int, sequence: int, content: list[int]
    ) -> Stored[list[int]] | Full:
        size = len(content)
        new = Append(epoch=epoch, sequence=sequence, count=size, size=size, content=content)
        return bucket.append(store.log, new, LIMITS)

    def _commit(self, cut: BucketCut[list[int]]) -> None:
        """Commit a cut, unless the table has fenced its epoch."""
        if cut.epoch == self.epoch:
            assert cut.start == len(self.table)
            self.table += [record for batch in cut.batches for record in batch.content]
            self.committed = cut.committed_end

    def _has(self, cut: BucketCut[list[int]]) -> bool:
        """Return whether the table's log has a cut."""
        records = [record for batch in cut.batches for record in batch.content]
        return self.table[cut.start : cut.end] == records

    def _hear(self, store: Store, cut: BucketCut[list[int]]) -> None:
        self._set(store, bucket.commit(store.log, cut, LIMITS))

    def _set(self, store: Store, log: BucketLog[list[int]]) -> None:
        assert not violations(log)
        assert log.buffer.size <= LIMITS.bucket_bytes
        held = [record for batch in log.buffer.batches() for record in batch.content]
        assert len(held) == log.end - log.start
        store.log = log


def refused(call: object) -> bool:
    """Return whether a call is fenced."""
    assert callable(call)
    try:
        call()
    except Fenced:
        return True
    return False
