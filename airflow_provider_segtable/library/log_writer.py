"""``TableLogWriter``: rows that readers see in milliseconds, and that then are the table's.

1. The writer begins an epoch of its buckets by an event of the table. From then on an earlier
   writer of them is fenced: it gets ``Fenced``, which is final.
   Its own calls say so at once, or a moment later (``log_store.lease_seconds``), and name the
   records that were appended and not committed (``lost``). So it is after a restore or a repair.
2. It keeps uncommitted records. If the store fails, moves, or is replaced, it begins a new epoch
   and sends these records again, with the same offsets. It does so only if no other writer has
   begun one meanwhile. So no two writers fight over a bucket, and jobs that are started anew in
   turn leave each other time for a commit (``core.log_store.tenure``).
3. ``append`` returns when readers can see the rows; ``send`` when they are on their way. They are
   durable once they are committed: after ``checkpoint``, ``close``, or by themselves soon. These
   two return when the table's log says that every record of the writer is committed.
4. If a bucket is full, both wait for a checkpoint. At the deadline ``LogStoreFull`` is raised and
   nothing of the call was appended. If a part of it was already sent, the rest is waited for. After
   ``LogStoreUnavailable`` the committed part of the call is unknown.
5. An error that has ended the checkpoints is raised by the next call.

A writer belongs to one thread.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

import pyarrow as pa

from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    CommitConflict,
    CommitUnknown,
    CoordinationError,
    Fenced,
    InvalidInput,
    LogStoreError,
    LogStoreFull,
    LogStoreUnavailable,
    SchemaMismatch,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Epoch, Offset, Position
from airflow_provider_segtable.data.rows import Rows
from airflow_provider_segtable.library.log_records import BucketQueue, Overflow, RecordSplitter
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, leave_alone

WAIT_S = 60.0
FAILOVER_S = 60.0
"""How long a writer looks for a service after a failure, whatever its own deadline."""
REST_S = 600.0
"""How long the rest of an append is waited for that was sent in part."""
PAUSE_S = 0.2
CHECK_S = 1.0
"""How often an append looks at buckets that it has no rows for."""
PASSING = (LogStoreUnavailable, StorageError, CoordinationError, CommitConflict, CommitUnknown)

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class Log(Protocol):
    """The stores of a writer's buckets: beside it, or elsewhere."""

    @property
    def failure(self) -> SegtableError | None:
        """Return why the last checkpoint failed, if it is known."""
        ...

    def start(self, on_moved: Callable[[int], None]) -> None:
        """Make the stores ready; ``on_moved`` is called with a bucket that moved."""
        ...

    def announce(self, epoch: Epoch) -> None:
        """Let readers find them: the epoch has begun."""
        ...

    def client(self, bucket: int) -> LogClient:
        """Return the client of a bucket's store."""
        ...

    def check(self) -> None:
        """Raise the error that ended the checkpoints."""
        ...

    def checkpoint(self, commit_id: str | None, *, wait_s: float) -> int | None:
        """Commit all that was appended; return a version that has it, if there was any."""
        ...

    def resolve(self, *, wait_s: float) -> None:
        """Learn the outcome of the last checkpoint, if it is unknown."""
        ...

    def close(self) -> frozenset[int]:
        """Close the writer's own parts; return the buckets without further commits."""
        ...

    def discard(self) -> None:
        """Close without a final checkpoint."""
        ...


class TableLogWriter:
    """The writer of some buckets of a table's log store. ``Table.log_writer`` opens one.

    :Example:

    >>> with table.log_writer() as log:
    ...     log.append(rows)           # readers see them now
    ...     log.checkpoint()           # committed: the version of the table that has them
    """

    def __init__(
        self,
        ports: TableContext,
        log: Log,
        splitter: RecordSplitter,
        buckets: Sequence[int],
        *,
        owner: str,
        wait_s: float = WAIT_S,
        overflow: Overflow | None = None,
    ) -> None:
        self._ports, self._log, self._splitter = ports, log, splitter
        self._queues = {bucket: BucketQueue(bucket) for bucket in buckets}
        self._owner, self._wait_s = owner, wait_s
        self._epoch: Epoch | None = None
        self._over: Exception | None = None
        self._taken: Fenced | None = None
        self._closed = False
        self._clock = ports.clock
        self._checked_s = ports.clock.monotonic()
        self._answered: Mapping[int, Offset] = {}
        self._lost: dict[int, range] = {}
        self._ended: frozenset[int] = frozenset()
        self._overflow = overflow

    def open(self) -> Self:
        """Start the store if it is the writer's own, and begin an epoch.

        If writers take these buckets from each other without a commit in between, this waits, up
        to a minute, for the present one's next commit.

        Raises:
            LogStoreUnavailable: no store can be reached, or listen.
            CommitConflict, CommitUnknown, StorageError: the epoch could not begin.
        """
        with suppress(*PASSING):
            leave_alone(self._ports, [*self._queues])
        self._log.start(self._moved)
        try:
            self._begin_within(self._wait_s)
        except BaseException:
            self._log.close()
            raise
        self._log.announce(self.epoch)
        return self

    def __enter__(self) -> Self:
        """Return the writer, which is open."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Close the writer."""
        self.close()

    @property
    def epoch(self) -> Epoch:
        """Return the writer's present epoch."""
        return self._epoch or 0

    @property
    def committed(self) -> Mapping[int, Offset]:
        """Return by bucket the offset below which records are known to be committed."""
        return {bucket: queue.committed for bucket, queue in self._queues.items()}

    @property
    def end(self) -> Mapping[int, Offset]:
        """Return by bucket the offset of the next record."""
        return {bucket: queue.end for bucket, queue in self._queues.items()}

    @property
    def lost(self) -> Mapping[int, range]:
        """Return by bucket the offsets of rows that were appended and then discarded.

        Rows are discarded if another writer took the bucket before their commit, or if a restore
        undid it. With a store beside the writer, a failed ``close`` discards all uncommitted rows.
        """
        return dict(self._lost)

    def append(self, rows: Rows, *, deleted: str | None = None) -> Mapping[int, Offset]:
        """Append rows, and wait until readers can see them.

        Args:
            rows: the rows; nullable columns may be left out.
            deleted: in a primary-key table: the column that says which rows delete their key.

        Returns:
            By bucket the offset of the first of these rows.

        Raises:
            SchemaMismatch, TimeOutOfRange, InvalidInput: the rows do not fit; none was appended.
            LogStoreFull: there was no room in time; nothing was appended.
            Fenced: another writer has taken a bucket, or the table was restored; this one is at its
                end, and ``lost`` has the offsets that are not in the table.
            TableGone: the table was dropped.
            LogStoreUnavailable: no service could be reached in time.
            SegtableError: the checkpoints ended with it.
        """
        first = self._sent(rows, deleted)
        self._flush(REST_S)
        self._note_answer()
        return first

    def send(self, rows: Rows, *, deleted: str | None = None) -> Mapping[int, Offset]:
        """Append rows without waiting for the answer; arguments and errors as for ``append``."""
        first = self._sent(rows, deleted)
        self._note_answer()
        return first

    def _sent(self, rows: Rows, deleted: str | None) -> Mapping[int, Offset]:
        split = self._split(rows, deleted)
        parts = {bucket: [*map(self._kept, batches)] for bucket, batches in split.items()}
        if sum(map(len, parts.values())) > 1:
            first = self._carried_out(lambda wait_s: self._as_one(parts, wait_s), self._wait_s)
            if first is not None:
                self._carried_out(self._pushed, REST_S)  # the rows that a failing store refused
                return first
        return self._piece_by_piece(parts)

    def _as_one(
        self, parts: Mapping[int, Sequence[pa.RecordBatch]], wait_s: float
    ) -> Mapping[int, Offset] | None:
        """Send the batches of one call as one; None if the store cannot take them so."""
        sizes = {bucket: sum(each.nbytes for each in parts[bucket]) for bucket in parts}
        client = self._log.client(next(iter(parts)))
        with client.together(sizes, wait_s=wait_s) as whole:
            if not whole:
                return None
            first = {bucket: self._queues[bucket].end for bucket in parts}
            for bucket, batches in parts.items():
                for batch in batches:
                    self._queues[bucket].accept(batch)
            with suppress(LogStoreError):
                self._pushed(0.0)
        return first

    def _piece_by_piece(
        self, parts: Mapping[int, Sequence[pa.RecordBatch]]
    ) -> Mapping[int, Offset]:
        first: dict[int, Offset] = {}
        for bucket, batches in parts.items():
            queue = self._queues[bucket]
            for batch in batches:
                wait_s = REST_S if first else self._wait_s
                offset = self._accepted(queue, batch, wait_s)
                first.setdefault(bucket, offset)
        return first

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self._overflow is None else self._overflow.kept(batch)

    def flush(self) -> None:
        """Wait until readers can see all rows; errors as for ``append``.

        After ``LogStoreFull`` all rows are still here: flush again.
        """
        self._carried_out(self._checked, self._wait_s)

    def checkpoint(self, commit_id: str | None = None) -> int | None:
        """Have all rows committed; return a version of the table that has them, if there are any.

        Args:
            commit_id: equal ids commit once. Ask ``committed_as`` before the rows are appended
                again. Only with a store beside the writer, and best without checkpoints by the
                policy (``automatic=False``).

        Raises:
            InvalidInput: the commit id stands for other rows, or a service commits for several
                writers.
            CheckpointPending: it was not committed in time. It may be later.
            SegtableError: as ``append``, and as ``Table.append``: call it again.
        """
        return self._carried_out(lambda wait_s: self._checkpointed(commit_id, wait_s), self._wait_s)

    def committed_as(self, commit_id: str) -> int | None:
        """Return the version that a commit id stands for; None if it was never committed.

        Raises:
            CommitUnknown: the writer's last checkpoint may still be committed: ask again.
            CheckpointPending: a checkpoint is still under way.
            SegtableError: as ``checkpoint``.
        """
        self._log.resolve(wait_s=self._wait_s)
        return self._ports.log.load().commits.get(commit_id)

    def close(self) -> None:
        """Have all rows committed, and end.

        Raises:
            Fenced: another writer has taken a bucket; rows appended to the others are
                committed, or named by the error and in ``lost``.
            SegtableError: the checkpoints ended with it, or the last one failed. The error and
                ``lost`` name the rows that are not committed, with a store beside the writer; an
                external service that has them commits them later.
        """
        if self._closed:
            return
        self._closed = True
        failed: SegtableError | None = None
        try:
            if self._over is None and any(queue.waiting for queue in self._queues.values()):
                self.checkpoint()
        except Fenced:
            raise
        except SegtableError as error:
            failed = error  # a store of the writer's own tries again at its end
        finally:
            self._end(self._close_log)
        if failed is not None:
            self._judge(failed)

    def discard(self) -> None:
        """End without a last checkpoint: rows that are not committed are gone.

        With a store beside the writer; an external service commits its records.
        """
        if not self._closed:
            self._closed = True
            self._end(self._log.discard)

    def _judge(self, failed: SegtableError) -> None:
        """Raise the error of the last checkpoint, unless the log has all rows nevertheless."""
        try:
            waiting = self._forget_committed()
        except Fenced as error:
            raise self._fenced(error, ended=self._ended) from failed
        if waiting:
            left = f"; records {waiting} are not committed yet"
            raise type(failed)(f"{failed}{self._left_behind() if self._ended else left}")

    def _close_log(self) -> None:
        lost = self._lost
        try:
            ended = self._ended = self._log.close()
        except Fenced as error:
            raise self._fenced(error, ended=frozenset(self._queues)) from error
        except SegtableError as error:
            raise type(error)(f"{error}{self._left_behind()}") from error
        if self._taken is not None:
            fenced = self._fenced(self._taken, ended=ended)
            if self._lost != lost:
                raise fenced

    def _end(self, end: Callable[[], None]) -> None:
        if self._taken is not None:
            self._send_rest()
        self._over = self._over or InvalidInput(
            f"this writer of the log store of {self._ports.uri} was closed: open another one"
        )
        for queue in self._queues.values():
            queue.close()
        if self._overflow is not None:
            self._overflow.close()
        end()

    def _send_rest(self) -> None:
        """Send unsent records of buckets that no other writer took, for their last checkpoint.

        An epoch may have begun in which nothing was sent again before another bucket was lost.
        """
        for queue in self._queues.values():
            with suppress(SegtableError):
                queue.push(wait_s=0.0)

    def _split(self, rows: Rows, deleted: str | None) -> Mapping[int, list[pa.RecordBatch]]:
        try:
            return self._splitter.split(rows, deleted)
        except SchemaMismatch as error:
            if not self._splitter.is_outdated(self._ports.log.load()):
                raise
            raise SchemaMismatch(
                f"{error}; or close this writer and open another one: the columns of "
                f"{self._ports.uri} were altered since this writer was opened"
            ) from None

    def _accepted(self, queue: BucketQueue, batch: pa.RecordBatch, wait_s: float) -> Offset:
        """Take a batch and send it; take it back if that is not possible in time."""
        if self._over is not None:
            raise self._over
        offset = queue.accept(batch)
        try:
            self._carried_out(self._pushed, wait_s)
        except SegtableError:
            if queue.take_back(offset):
                raise
        return offset

    def _note_answer(self) -> None:
        """Note the ends of the buckets after a call."""
        self._answered = {bucket: queue.end for bucket, queue in self._queues.items()}

    def _flush(self, wait_s: float) -> None:
        self._carried_out(self._flushed, wait_s)

    def _pushed(self, wait_s: float) -> None:
        for queue in self._queues.values():
            queue.push(wait_s=wait_s)

    def _flushed(self, wait_s: float) -> None:
        if self._clock.monotonic() - self._checked_s >= CHECK_S:
            return self._checked(wait_s)
        self._pushed(wait_s)
        for queue in self._queues.values():
            queue.flush(wait_s=wait_s)
        return None

    def _checked(self, wait_s: float) -> None:
        """Flush, and look that all buckets are still this writer's."""
        self._pushed(wait_s)
        for queue in self._queues.values():
            queue.check(wait_s=wait_s)
        self._checked_s = self._clock.monotonic()

    def _checkpointed(self, commit_id: str | None, wait_s: float) -> int | None:
        self._checked(wait_s)
        version = self._log.checkpoint(commit_id, wait_s=wait_s)
        if waiting := self._forget_committed():
            raise CheckpointPending(
                f"records of the log store of {self._ports.uri} are not committed yet "
                f"({waiting}): ask again"
            )
        return version

    def _forget_committed(self) -> str:
        """Forget committed records; return the uncommitted ones as text.

        Raises:
            Fenced: records were discarded.
        """
        state, waiting = self._ports.log.load(), []
        for bucket, queue in self._queues.items():
            end = bucket_of(state, bucket).end
            if self._lost_of(state, bucket, queue.end):
                raise Fenced(f"bucket {bucket} of {self._ports.uri} was taken meanwhile")
            queue.forget(min(end, queue.end))
            if end < queue.end:
                waiting.append(f"{end}-{queue.end - 1} of bucket {bucket}")
        if self._overflow is not None and not waiting:
            self._overflow.emptied()
        return ", ".join(waiting)

    def _lost_of(self, state: State, bucket: int, end: Offset) -> range:
        """Return the offsets below ``end`` that were discarded of a bucket in this epoch."""
        at = Position(epoch=self.epoch, offset=end)
        left = bucket_of(state, bucket).lineage.left_at(at)
        return range(end if left is None else left, end)

    def _carried_out(self, act: Callable[[float], T], wait_s: float) -> T:
        """Do something with the store; begin again and repeat it if the store is lost."""
        deadline = self._clock.monotonic() + wait_s
        while True:
            if self._over is not None:
                raise self._over
            self._log.check()
            try:
                return act(max(0.0, deadline - self._clock.monotonic()))
            except LogStoreFull as error:
                raise self._full(error) from error
            except Fenced:
                pass  # the table's log names the epoch's writer, and the lost records
            except LogStoreUnavailable:
                if self._clock.monotonic() > deadline + FAILOVER_S:
                    raise
            self._begin_within(FAILOVER_S)
            self._log.announce(self.epoch)

    def _begin_within(self, wait_s: float) -> None:
        """Begin an epoch; try again after errors that pass."""
        deadline = self._clock.monotonic() + wait_s
        while True:
            try:
                return self._begin()
            except (*PASSING, Fenced) as error:
                if self._over is not None or self._clock.monotonic() > deadline:
                    raise
                _LOG.info("%s: no epoch begun, tried again: %s", self._ports.uri, error)
            self._log.check()
            self._clock.sleep(PAUSE_S)

    def _begin(self) -> None:
        """Begin an epoch where stores can be reached, unless another writer has begun one."""
        clients = {bucket: self._log.client(bucket) for bucket in self._queues}
        for client in {id(each): each for each in clients.values()}.values():
            client.status()
        try:
            begun = begin_epoch(self._ports, [*self._queues], owner=self._owner, after=self._epoch)
        except Fenced as error:
            self._taken, self._over = error, self._fenced(error)
            raise self._over from error
        self._epoch = begun.epoch
        for bucket, queue in self._queues.items():
            queue.begin(clients[bucket], begun.epoch, begun.ends[bucket])
        _LOG.info("%s: %s writes in epoch %s", self._ports.uri, self._owner, begun.epoch)

    def _left_behind(self) -> str:
        """Return the end of the message of a failed end: its lost rows, which are noted."""
        try:
            self._note_lost(frozenset(self._queues))
        except SegtableError:  # the log cannot be read now
            left = ((b, range(self._queues[b].committed, end)) for b, end in self._answered.items())
            self._lost = {bucket: rows for bucket, rows in left if rows}
            fate = "may not be in the table: its log cannot be read now"
        else:
            fate = "were appended and are not in the table"
        return f"; records {self._lost_named()} {fate}" if self._lost else ""

    def _lost_named(self) -> str:
        return ", ".join(
            f"{lost.start}-{lost.stop - 1} of bucket {b}" for b, lost in self._lost.items()
        )

    def _fenced(self, error: Fenced, ended: frozenset[int] = frozenset()) -> Fenced:
        """Return the error of the end, which names the lost rows, and note them."""
        self._note_lost(ended)
        if not self._lost:
            return Fenced(f"{error}; all that it had appended is committed")
        return Fenced(
            f"{error}; records {self._lost_named()} were appended and are not in the table: append "
            "them again with another writer, if they are still wanted"
        )

    def _note_lost(self, ended: frozenset[int]) -> None:
        """Note the appended rows that are not in the table, and never will be.

        These are rows that other writers discarded, and the uncommitted rows of ended buckets.
        """
        state, found = self._ports.log.load(), {}
        for bucket, end in self._answered.items():
            lost = self._lost_of(state, bucket, end)
            start = min(lost.start, bucket_of(state, bucket).end) if bucket in ended else lost.start
            found[bucket] = range(start, end)
        self._lost = {bucket: lost for bucket, lost in found.items() if lost}

    def _moved(self, bucket: int) -> None:
        """Leave a service that another one has replaced: it may never answer."""
        self._queues[bucket].leave("another service has the bucket now")

    def _full(self, error: LogStoreFull) -> LogStoreFull:
        """Return the error with the reason why no checkpoint makes room."""
        why = self._log.failure
        return error if why is None else LogStoreFull(f"{error}; the last one failed: {why}")
