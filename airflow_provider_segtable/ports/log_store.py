"""The log store: records that are readable in milliseconds, and then become the table's segments.

Contract:

1. A bucket has one writer and any number of readers. Offsets count its records from 0, without
   gaps; a batch has a first offset and a number of records. Readers see a batch as soon as the
   store has it, before any commit: at least once, in order.
2. A new writer takes an *epoch* above all earlier ones, fences the table's commits with it, and
   only then reads the end of the last committed snapshot, from which it goes on. Later records are
   discarded. A reader that has read some of it gets ``Reset``, as a value, before anything else.
   A writer of an older epoch gets ``Fenced`` from then on, also if it waits for room.
3. ``append`` returns when readers can see the batch. ``send`` does not wait for the answer as long
   as few answers are missing; ``flush`` waits for all. A writer numbers its appends, and repeats
   the unanswered ones: a store that has them gives the same answer again. A writer that raised
   ``LogStoreUnavailable`` or ``Fenced`` is at its end: its unanswered records may or may not be
   stored, so begin a new epoch.
4. ``checkpoint`` cuts every bucket: the caller writes the batches into the table, in one commit
   that also has each bucket's ``committed_end``. ``committed`` follows that commit; ``abandon`` a
   certain failure. After an unknown outcome, read the table's log first. One checkpoint is pending
   at a time.
5. Memory is bounded (``Limits``). Committed records are kept for readers as long as there is room;
   a reader that needs evicted ones gets ``Behind``, and reads files. Uncommitted records are never
   evicted: in a full bucket an append waits up to ``wait_s``, then raises ``LogStoreFull``, and is
   not stored. Batches that were sent stay with the writer: flush again. No reader holds up the
   writer or another reader.
6. A reader's position stands behind all that it returned. ``position`` may be stored, and another
   reader begins there. It is None as long as the bucket has not had a writer: such a reader begins
   at the first record, ``EARLIEST`` or ``LATEST``.
7. A store cannot commit. ``serve_checkpoints`` gives it a service that can, and a client's
   ``checkpoint`` asks this service. ``status`` is that of all buckets at one point in time.
8. A writer or reader belongs to one thread, except ``leave``. One that ends without ``close``
   leaves nothing behind.
9. A store serves all buckets of its context, until ``serve`` names some. A bucket that
   moves is sealed, committed, and then no longer served: clients that used it get
   ``LogStoreUnavailable``, and look up its address. A bucket that comes back begins empty.
10. ``shutdown`` ends all waiting calls and streams within seconds, with ``LogStoreUnavailable``.
   Uncommitted records are gone: the writer begins a new epoch with the next store.
11. Errors: ``Fenced``, ``LogStoreFull``, ``LogStoreUnavailable``, ``CheckpointPending``;
   ``InvalidInput`` for a bucket that the store does not have, a batch above the limit, a snapshot
   older than one that the store knows, or a position that never was; ``SchemaMismatch``.
12. A store does not know the table's log, so its service reads it (``confirming``). From the first
   such reading on the store answers writers only for a bounded time after the last one: a store
   that stood still, or cannot reach the table, does not answer for records that a newer epoch may
   have discarded. Appends wait for the next reading, then raise ``LogStoreUnavailable``.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, Self, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log_store.bucket import DEFAULT_LIMITS, BucketCut, Limits
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Behind, BucketStatus, Reset, Whence

Schema: TypeAlias = Any
"""An Arrow schema; ports import no library."""
ServeCheckpoint: TypeAlias = Callable[[float], int | None]
"""Commits all that was appended before, within so many seconds, and returns a version."""


class DeployMode(StrEnum):
    """Where a store runs: beside its writer, or as a process of its own."""

    EMBEDDED = "embedded"
    EXTERNAL = "external"


class RecordBatch(Protocol):
    """The part of ``pyarrow.RecordBatch`` that stores need."""

    @property
    def num_rows(self) -> int:
        """Return the number of records."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the size of the records in memory."""
        ...

    @property
    def schema(self) -> Schema:
        """Return the Arrow schema."""
        ...

    def slice(self, offset: int, length: int | None = None) -> Self:
        """Return the records from the ``offset``-th on, all or so many, without a copy."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """The setting of a store: a table, its schema, and the buckets that the store serves."""

    table: str
    schema: Schema
    buckets: tuple[int, ...]
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records that a reader got, and the offset of the first."""

    first: Offset
    batch: RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A checkpoint: the uncommitted records of each bucket that has any."""

    buckets: Mapping[int, BucketCut[RecordBatch]]


class LogWriter(Protocol):
    """The one writer of a bucket, in one epoch."""

    @property
    def epoch(self) -> Epoch:
        """Return the writer's epoch."""
        ...

    @property
    def end(self) -> Offset:
        """Return the offset that its next record will get."""
        ...

    @property
    def committed(self) -> Offset:
        """Return the committed end as of the newest answer: earlier records are in the table."""
        ...

    def append(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records and return the offset of the first; readers can see them."""
        ...

    def send(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records without waiting for the answer, as long as few answers are missing."""
        ...

    def flush(self, *, wait_s: float) -> Offset:
        """Wait until readers can see all records; return the offset after the last."""
        ...

    def check(self, *, wait_s: float) -> None:
        """Wait for all answers, and for one more: raise ``Fenced`` if the epoch is over."""
        ...

    def leave(self, why: str) -> None:
        """End the writer from another thread, because its bucket moved: calls raise at once."""
        ...

    def close(self) -> None:
        """Release the writer; flush first, or sent records may be lost."""
        ...


class LogReader(Protocol):
    """A reader of one bucket."""

    @property
    def position(self) -> Position | None:
        """Return the position behind all that was returned."""
        ...

    def read(self, *, wait_s: float) -> Records | Reset | Behind | None:
        """Return the next batch; None if there is none in time. ``Behind`` until ``seek``."""
        ...

    def seek(self, start: Position | Whence) -> None:
        """Go on from another position, such as the end of the files that were read."""
        ...

    def close(self) -> None:
        """Release the reader."""
        ...


class LogClient(Protocol):
    """A process's access to one store."""

    def writer(self, bucket: int, *, epoch: Epoch, committed: CommittedEnd) -> LogWriter:
        """Begin an epoch of a bucket, from the end of the last committed snapshot."""
        ...

    def reader(self, bucket: int, *, start: Position | Whence) -> LogReader:
        """Read a bucket."""
        ...

    def status(self) -> Mapping[int, BucketStatus]:
        """Return the status of all buckets of the store at one point in time."""
        ...

    def checkpoint(self, *, wait_s: float) -> int | None:
        """Have all that was appended before this call committed.

        Returns:
            A version of the table that has it; None if there was nothing, ever.

        Raises:
            LogStoreUnavailable: no service commits this store's records.
            CheckpointPending: it was not committed in time. It may be later.
        """
        ...

    def together(self, sizes: Mapping[int, int], *, wait_s: float) -> AbstractContextManager[bool]:
        """Let the appends of a block, of so many bytes a bucket, be seen and committed as one.

        Status and cuts have all of them or none; a follower of a bucket sees its own part. The
        block may not wait. The context value is whether this holds: not over the network, and not
        for more than a bucket holds.

        Raises:
            LogStoreFull, LogStoreUnavailable: there was no room until the deadline.
        """
        ...


class LogStore(Protocol):
    """One service: the buckets of a context, between append and commit."""

    @property
    def deploy_mode(self) -> DeployMode:
        """Return where the store runs."""
        ...

    @property
    def address(self) -> str:
        """Return the address for clients, once started."""
        ...

    def start(self) -> None:
        """Begin to serve."""
        ...

    def checkpoint(self) -> Cut:
        """Cut every bucket: return the records for the table's commit."""
        ...

    def committed(self, cut: Cut) -> None:
        """Record that the table's log has the cut; ``Fenced`` if a bucket has discarded it."""
        ...

    def abandon(self, cut: Cut) -> None:
        """Return the records of a cut to the next one, after a certain failure."""
        ...

    def fence(self, bucket: int, epoch: Epoch) -> None:
        """Give up a bucket that the table's log has given away, unless a later epoch has begun.

        Its uncommitted records are dropped; its writer and its readers get ``Fenced``.
        """
        ...

    def confirming(self, lease_s: float) -> AbstractContextManager[None]:
        """Answer writers until so many seconds after the begin of a block that reads the log.

        If the block raises, the time of the last one still holds.
        """
        ...

    def client(self) -> LogClient:
        """Return a client in this process; it may do without the network."""
        ...

    def status(self) -> Mapping[int, BucketStatus]:
        """Return the status of all buckets at one point in time."""
        ...

    def seal(self, buckets: Collection[int]) -> None:
        """Take no more records into buckets that will move; readers go on."""
        ...

    def serve(self, buckets: Collection[int]) -> None:
        """Serve these buckets of the context and no others from now on."""
        ...

    def serve_checkpoints(self, serve: ServeCheckpoint) -> None:
        """Let clients' requests for a checkpoint be served by the service of this store."""
        ...

    def shutdown(self) -> None:
        """Stop serving, and end all streams; may be called more than once."""
        ...


class LogStoreProvider(Protocol):
    """Creates stores of one kind, and connects clients to them."""

    def create(self, context: LogContext) -> LogStore:
        """Return a store that is not started yet."""
        ...

    def connect(self, address: str) -> LogClient:
        """Return a client of the store at an address, which may be in another process."""
        ...
