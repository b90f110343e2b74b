"""What should be in the log store: a plain list of records for each epoch of each bucket.

1. An epoch begins with the records that are committed then. Writers tell what they append to it.
   So a position, (epoch, offset), stands for a known list of records.
2. A range that an event commits is of the bucket's newest epoch, and begins where the last one
   ended. It stands for the records of that list: the ledger looks for them in the table, readers
   for what they are told. So each committed offset has one content.
3. Epochs of a bucket only grow, whatever is restored. A restore brings back the list of its
   version.
4. The table's log, folded, has the same ends and epochs, after every event.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Epoch, LogRange, Offset, Position
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.table.log_store.tail import LiveTail

Content: TypeAlias = tuple[object, ...]
"""The values of a record."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed record, and the event that committed it."""

    content: Content
    n: int


@dataclass(slots=True)
class LogBook:
    """The records of each epoch, what is about to be committed, and what each version has.

    Attributes:
        written: the records of a bucket as of an epoch, by offset.
        ends: the highest committed end of an epoch of a bucket.
        versions: the committed records of each bucket, by version.
        newest: the newest epoch of each bucket.
        now: the time of the simulation.
        ended: when an epoch of a bucket ended.
        stores: who has an epoch of a bucket.
    """

    written: dict[tuple[int, Epoch], list[Content]] = field(default_factory=dict)
    versions: dict[int, Mapping[int, tuple[Committed, ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    newest: dict[int, Epoch] = field(default_factory=dict)
    ends: dict[tuple[int, Epoch], Offset] = field(default_factory=dict)
    now: Callable[[], Instant] = lambda: 0
    ended: dict[tuple[int, Epoch], Instant] = field(default_factory=dict)
    stores: dict[tuple[int, Epoch], LogClient] = field(default_factory=dict)

    @property
    def uncommitted(self) -> bool:
        """Return whether newest epochs have records that are not committed."""
        return any(self._waiting())

    @property
    def awaited(self) -> bool:
        """Return whether a store that runs has records that are not committed."""
        return any(self.find(bucket) for bucket in self._waiting())

    def _waiting(self) -> Iterator[int]:
        for bucket, epoch in self.newest.items():
            if len(self.written[bucket, epoch]) > self.ends[bucket, epoch]:
                yield bucket

    def find(self, bucket: int) -> LogClient | None:
        """Return the store that has a bucket's newest epoch, if one has it and still runs."""
        client = self.stores.get((bucket, self.newest.get(bucket, 0)))
        try:
            return client if client and client.status() else None
        except LogStoreUnavailable:
            return None

    def appended(
        self, bucket: int, epoch: Epoch, first: Offset, records: Sequence[Content]
    ) -> None:
        """Note records that a store has taken."""
        known = self.written[bucket, epoch]
        assert first == len(known), f"an append at {first} of epoch {epoch}, which has {len(known)}"
        known += records

    def at(self, bucket: int, position: Position, start: Offset = 0) -> list[Content]:
        """Return the records that a position stands for, from an offset on."""
        return self.written.get((bucket, position.epoch), [])[start : position.offset]

    def committed(self, bucket: int, n: int) -> tuple[Committed, ...]:
        """Return the committed records of a bucket as of a version."""
        return self.versions[n].get(bucket, ())

    def follow(self, event: Event, state: State) -> None:
        """Move by an event, after which the table's log is in ``state``.

        Raises:
            AssertionError: saying which rule the log store broke.
        """
        now = dict(self.versions[event.n - 1])
        match event.action:
            case LogEpochBegun(buckets=buckets, epoch=epoch):
                for bucket in buckets:
                    self._begin(bucket, epoch, now.get(bucket, ()))
            case Appended(log=ranges):
                for each in ranges:
                    now[each.bucket] = self._extended(event, each, now.get(each.bucket, ()))
            case VersionRestored(version=version):
                now = dict(self.versions[version])
                for bucket in tuple(self.newest):
                    self._begin(bucket, state.log_store[bucket].epoch, now.get(bucket, ()))
        self.versions[event.n] = now
        for bucket, epoch in self.newest.items():
            known = state.log_store[bucket]
            found, right = (known.epoch, known.end), (epoch, len(now.get(bucket, ())))
            assert found == right, f"bucket {bucket} is at {found} (epoch, end), not at {right}"

    def check_whole(self, tail: LiveTail) -> None:
        """Check that a read without faults found all that stores hold.

        Raises:
            AssertionError: it lacks records, or has others.
        """
        for bucket, epoch in self.newest.items():
            start, end = self.ends[bucket, epoch], len(self.written[bucket, epoch])
            cut = tail.cut.buckets.get(bucket)
            here = (cut.start, cut.end) if cut else (start, start)
            assert here == (start, end) or not self.find(bucket), (
                f"the tail of bucket {bucket} is {here}, not {(start, end)}: {tail.notes}"
            )

    def _begin(self, bucket: int, epoch: Epoch, records: Sequence[Committed]) -> None:
        before = self.newest.get(bucket, 0)
        assert epoch > before, f"epochs of bucket {bucket} do not grow: {epoch} after {before}"
        self.ended[bucket, before] = self.now()
        self.newest[bucket] = epoch
        self.written[bucket, epoch] = [each.content for each in records]
        self.ends[bucket, epoch] = len(records)

    def _extended(
        self, event: Event, new: LogRange, before: tuple[Committed, ...]
    ) -> tuple[Committed, ...]:
        newest = self.newest.get(new.bucket, 0)
        assert new.epoch == newest, f"a fenced service committed {new} of epoch {new.epoch}"
        assert new.start == len(before), f"{new} follows {len(before)}: offsets are not dense"
        records = self.in_range(new)
        assert len(records) == new.end - new.start, f"{new} has records that nobody appended"
        self.ends[new.bucket, new.epoch] = new.end
        return (*before, *(Committed(content, event.n) for content in records))

    def in_range(self, given: LogRange) -> list[Content]:
        """Return the records that were appended to a range."""
        return self.written[given.bucket, given.epoch][given.start : given.end]


def contents(batch: object) -> list[Content]:
    """Return the records of a batch."""
    return [tuple(row.values()) for row in batch.to_pylist()]  # type: ignore[attr-defined]
