"""The service of a log store: it makes checkpoints, by the policy and on request.

One checkpoint (``Checkpointer``; one thread at a time uses it):

1. Cut the store, commit the cut of all buckets in one event of the table
   (``table.log_store.checkpointing``), and pass the outcome to the store.
2. After a certain failure the next cut has the records of this one.
3. After an unknown outcome the same cut, under the same commit id, is committed again before
   anything else. So it is committed once. What was appended since waits for a checkpoint of its
   own, by the policy or by a request, which may name it.
4. The table's log refuses a bucket that another writer or service has taken, and every bucket after
   a restore. Such a bucket is left out, given up in the store, and reported; the others are
   committed.

The thread that makes checkpoints:

5. It looks at the waiting records every ``LOOK_S``, which is far shorter than a bucket takes to
   fill, and makes a checkpoint when one is due (``core.log_store.bucket``).
6. A request during a checkpoint waits for the next one, which begins after the records of the
   request were appended. Requests that wait together share one.
7. After a failure of the storage or of ZooKeeper, or a lost race, it pauses and tries again;
   meanwhile writers wait for room. Any other error ends the thread, and is the result of all later
   requests and of ``close``.
8. ``close`` makes a last checkpoint, then shuts the store down. A process that ends without it
   loses its uncommitted records, nothing else. The thread keeps no process from ending.

The thread that follows the table's log:

9. It hears of events from the coordinator, and reads the log every ``FOLLOW_S`` in any case.
   Buckets that another process took, or whose table was restored or repaired, are given up in the
   store, and reported to ``on_lost``. So their writers are fenced by their next call, not only by a
   checkpoint.
10. If it could not read the log for ``log_store.lease_seconds``, the store answers no writer until
    it can (``ports``). So every answer concerns an epoch that was current within that time.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TypeAlias

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    CommitConflict,
    CommitUnknown,
    CoordinationError,
    Fenced,
    LogStoreError,
    LogStoreUnavailable,
    NotATable,
    OffsetGap,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import (
    NO_FAILURES,
    Backlog,
    CheckpointPolicy,
    Failures,
    Wait,
    next_step,
)
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.log_store import Cut, LogStore
from airflow_provider_segtable.services.log_directory import named
from airflow_provider_segtable.table.append import AppendResult
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log_store.checkpointing import (
    commit_cut,
    deleted_column,
    refused,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The result of a checkpoint.

    Attributes:
        result: the commit; None if there was nothing to commit.
        lost: the buckets whose records were refused, and why.
    """

    result: AppendResult | None = None
    lost: dict[int, LogStoreError] = field(default_factory=dict)


class Checkpointer:
    """Commits the buffered records of a store.

    Args:
        ports: the table's ports, used by this service alone.
        store: the store.
        columns: the version whose columns the store's records have.
    """

    def __init__(self, ports: TableContext, store: LogStore, columns: State) -> None:
        self._ports, self._store, self._columns = ports, store, columns
        self._in_doubt: tuple[Cut, str | None] | None = None

    @property
    def in_doubt(self) -> bool:
        """Return whether the outcome of the last commit is unknown."""
        return self._in_doubt is not None

    def run(self, commit_id: str | None = None) -> Checkpointed:
        """Commit the store's records; errors as ``commit_cut``, whose retry is another run.

        Args:
            commit_id: equal ids commit once; by default the ranges of offsets name the commit.
        """
        before = self.resolve()
        found = self._commit(self._store.checkpoint(), commit_id)
        return Checkpointed(
            result=found.result or before.result, lost={**before.lost, **found.lost}
        )

    def resolve(self) -> Checkpointed:
        """Commit the last cut again if its outcome is unknown, and nothing that came since."""
        return Checkpointed() if self._in_doubt is None else self._commit(*self._in_doubt)

    def _commit(self, cut: Cut, commit_id: str | None) -> Checkpointed:
        lost: dict[int, LogStoreError] = {}
        while cut.buckets:
            try:
                result = self._committed(cut, commit_id)
            except (Fenced, OffsetGap) as refusal:
                cut = self._without_refused(cut, lost, refusal)
            else:
                return Checkpointed(result=result, lost=lost)
        self._in_doubt = None
        return Checkpointed(lost=lost)

    def _committed(self, cut: Cut, commit_id: str | None) -> AppendResult | None:
        """Commit a cut, and pass the outcome to the store."""
        again = self._in_doubt is not None and self._in_doubt[0] is cut
        self._in_doubt = cut, commit_id  # unless an error says more
        try:
            result = commit_cut(
                self._ports,
                cut,
                deleted=deleted_column(self._columns),
                columns=self._columns,
                commit_id=commit_id,
            )
        except (CommitUnknown, Fenced, OffsetGap):
            raise
        except SegtableError:
            if not again:  # else the first attempt may have landed
                self._in_doubt = None
                self._store.abandon(cut)
            raise
        self._in_doubt = None
        self._store.committed(cut)
        return result

    def _without_refused(
        self, cut: Cut, lost: dict[int, LogStoreError], refusal: LogStoreError
    ) -> Cut:
        """Return a cut without the buckets that the log refuses; raise if it refuses none."""
        found = refused(self._ports.log.load(), cut)
        if not found:
            self._in_doubt = None
            self._store.abandon(cut)
            raise refusal
        for bucket, why in found.items():
            _LOG.info("%s: %s", self._ports.uri, why)
            self._store.fence(bucket, cut.buckets[bucket].epoch)
            lost[bucket] = why
        return _part(cut, cut.buckets.keys() - found.keys())


def _part(cut: Cut, buckets: Collection[int]) -> Cut:
    return Cut(buckets={n: taken for n, taken in cut.buckets.items() if n in buckets})


LOOK_S = 0.05
CLOSE_S = 30.0
FOLLOW_S = 2.0
LOOKS_A_LEASE = 4
PASSING = (StorageError, CoordinationError, CommitConflict, CommitUnknown)
"""Errors after which the same may succeed later."""

OnLost: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts of a service's work; ``failure`` is the last error since the last success."""

    checkpoints: int = 0
    version: int | None = None
    failures: Failures = NO_FAILURES
    failure: SegtableError | None = None
    lost: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return a line for logs and people."""
        parts = [counted(self.checkpoints, "checkpoint")]
        if self.version is not None:
            parts.append(f"the last one is version {self.version}")
        if self.failure is not None:
            parts.append(f"the last attempt failed: {self.failure}")
        if self.lost:
            parts.append(f"taken by others: {named(sorted(set(self.lost)))}")
        return "; ".join(parts)


class LogService:
    """Makes the checkpoints of one store.

    Args:
        ports: the table's ports. They are used by the service's thread, too.
        store: a store that is not started yet.
        policy: when checkpoints are made.
        columns: the version whose columns the store's records have.
        on_lost: called with the buckets that another process took, or that got a new epoch.
    """

    def __init__(
        self,
        ports: TableContext,
        store: LogStore,
        policy: CheckpointPolicy,
        *,
        columns: State,
        on_lost: OnLost = lambda _: None,
    ) -> None:
        self.store = store
        self.progress = Progress()
        self.error: Exception | None = None
        self._uri, self._clock = ports.uri, ports.clock
        self._policy, self._on_lost = policy, on_lost
        own = replace(ports)
        own.log.remember(columns)  # so another table in its place is never taken for it
        self._checkpointer = Checkpointer(own, store, columns)
        self._log, self._seen = EventLog(ports.storage), columns
        self._coordinator = ports.optional_coordinator
        self._lease_s = LogStoreSettings.read(columns.table.properties).lease_seconds
        self._follow_s = min(FOLLOW_S, self._lease_s / LOOKS_A_LEASE)
        self._given_up: dict[int, Epoch] = {}
        self._turn = threading.Lock()
        self._begun = self._succeeded = 0
        self._last: AppendResult | None = None
        self._since_s = self._cut_s = ports.clock.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-service", daemon=True)
        self._follower = threading.Thread(target=self._follow, name="log-epochs", daemon=True)

    def start(self) -> None:
        """Start the store, and make its checkpoints from now on.

        Raises:
            LogStoreUnavailable: the store cannot listen.
        """
        self.store.start()
        self.store.serve_checkpoints(self.request)
        with self.store.confirming(self._lease_s):
            pass  # ``columns`` was read a moment ago
        self._thread.start()
        self._follower.start()
        _LOG.info("%s: log store at %s", self._uri, self.store.address)

    def checkpoint(
        self, commit_id: str | None = None, *, wait_s: float = CLOSE_S
    ) -> AppendResult | None:
        """Commit all that was appended before this call; None if there is nothing to commit.

        Args:
            commit_id: equal ids commit once.
            wait_s: how long to wait for a checkpoint that is under way.

        Raises:
            Fenced: another service took a bucket; the records of the others are committed.
            CheckpointPending: an earlier checkpoint took too long.
            SegtableError: as ``commit_cut``; the error that ended the service's thread.
        """
        arrived = self._begun
        with self._my_turn(wait_s):
            if self.error:
                raise self.error
            if commit_id is None and self._succeeded > arrived:
                return self._last
            done = self._attempted(commit_id)
        for refusal in done.lost.values():
            raise refusal
        return done.result

    def resolve(self, *, wait_s: float = CLOSE_S) -> None:
        """Learn the outcome of the last checkpoint, if it is unknown; commit nothing else.

        Raises:
            CheckpointPending: an earlier checkpoint took too long.
            CommitUnknown: the outcome cannot be learnt now: ask again.
            SegtableError: as ``checkpoint``.
        """
        with self._my_turn(wait_s):
            if self._checkpointer.in_doubt:
                self._resolved()

    def request(self, wait_s: float) -> int | None:
        """Commit all that was appended before; return a version that has it, if there was any."""
        if self._closing.is_set():
            raise LogStoreUnavailable(
                f"the log store of {self._uri} is closing: connect to its successor"
            )
        result = self.checkpoint(wait_s=wait_s)
        return self.progress.version if result is None else result.n

    def step(self) -> float:
        """Make a checkpoint if one is due; return in how many seconds to look again.

        The service's thread does so; a simulation does it without one. While another checkpoint is
        under way none is due: what is decided then would be done after it, to records that came
        since, and on request alone these wait for the next request.
        """
        if not self._turn.acquire(blocking=False):
            return LOOK_S
        try:
            in_doubt = self._checkpointer.in_doubt
            found = next_step(
                self._policy,
                self._backlog(),
                self.progress.failures,
                now_s=self._clock.monotonic(),
                requested=in_doubt,
            )
            if isinstance(found, Wait):
                return min(found.seconds, LOOK_S)
            _LOG.debug("%s: checkpoint, because of %s", self._uri, found.reason)
            if in_doubt:
                self._resolved()
            else:
                self._attempted(None)
        finally:
            self._turn.release()
        return 0.0

    def look(self) -> None:
        """Read the table's log, give up the buckets that it has given away, and confirm the others.

        The service's thread does so; a simulation does it without one.

        Raises:
            TableGone: the table was dropped; its buckets are given up.
            StorageError: the log cannot be read.
        """
        try:
            with self.store.confirming(self._lease_s):
                self._seen = state = self._log.refresh(self._seen)
                for bucket, at in self.store.status().items():
                    if at.epoch < bucket_of(state, bucket).epoch:
                        self._give_up(bucket, at.epoch)
        except NotATable:
            for bucket, at in self.store.status().items():
                self._give_up(bucket, at.epoch)
            raise

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Make a last checkpoint, and shut the store down.

        Raises:
            SegtableError: the last checkpoint failed for ``wait_s`` seconds, or cannot succeed.
                Uncommitted records are lost.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        try:
            self._finish(self._clock.monotonic() + wait_s)
        finally:
            self.store.shutdown()
            _LOG.info("%s: log store closed after %s", self._uri, self.progress)

    def discard(self) -> None:
        """Shut the store down without a last checkpoint: uncommitted records are lost."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        self.store.shutdown()

    def _run(self) -> None:
        pause_s = 0.0
        while self.error is None and not self._closing.wait(pause_s):
            try:
                pause_s = self.step()
            except PASSING as error:
                _LOG.warning("%s: checkpoint failed, tried again: %s", self._uri, error)
            except Exception as error:  # noqa: BLE001 - raised by the next call
                _LOG.exception("%s: no more checkpoints", self._uri)
                self.error = error

    def _follow(self) -> None:
        while self.error is None and not self._closing.wait(LOOK_S):
            try:
                self._await_news()
                self.look()
            except LogStoreUnavailable:  # shut down
                return
            except PASSING as error:
                _LOG.warning("%s: its log cannot be read: %s", self._uri, error)
                self._closing.wait(self._follow_s)
            except Exception as error:  # noqa: BLE001 - raised by the next call
                _LOG.exception("%s: its log cannot be followed", self._uri)
                self.error = error

    def _await_news(self) -> None:
        """Wait for an event of the table, as long as no look is due."""
        if self._coordinator is None:
            self._closing.wait(self._follow_s)
            return
        table, n = self._seen.table.table_id, self._seen.n
        try:
            self._coordinator.wait_head(table, beyond=n, wait_s=self._follow_s)
        except CoordinationError:
            self._closing.wait(self._follow_s)

    def _give_up(self, bucket: int, epoch: Epoch) -> None:
        if epoch and self._given_up.get(bucket) != epoch:
            self._given_up[bucket] = epoch
            _LOG.info("%s: epoch %s of bucket %s is over", self._uri, epoch, bucket)
            self.store.fence(bucket, epoch)
            self._on_lost(bucket)

    def _finish(self, deadline_s: float) -> None:
        """Make the last checkpoint; try again after errors that pass."""
        while True:
            try:
                self.checkpoint()
            except PASSING:
                now_s = self._clock.monotonic()
                if now_s >= deadline_s:
                    raise
                self._clock.sleep(max(LOOK_S, self.progress.failures.over_s - now_s))
            else:
                return

    def _backlog(self) -> Backlog:
        """Return the uncommitted records, and since when they wait: the last cut or empty look."""
        found = self.store.status().values()
        records = sum(each.uncommitted_records for each in found)
        if not records:
            self._since_s = self._clock.monotonic()
        nbytes = sum(each.uncommitted_bytes for each in found)
        return Backlog(nbytes=nbytes, records=records, since_s=self._since_s)

    def _attempted(self, commit_id: str | None) -> Checkpointed:
        """Make a checkpoint, and note its outcome; the caller has the turn."""
        self._begun += 1
        number, cut_s = self._begun, self._clock.monotonic()
        if not self._checkpointer.in_doubt:
            self._cut_s = cut_s
        done = self._noted(lambda: self._checkpointer.run(commit_id))
        self._succeeded, self._last, self._since_s = number, done.result, cut_s
        return done

    def _resolved(self) -> None:
        """Settle the checkpoint in doubt; no request is served by it. The caller has the turn."""
        self._noted(self._checkpointer.resolve)
        self._since_s = self._cut_s

    def _noted(self, commit: Callable[[], Checkpointed]) -> Checkpointed:
        """Commit, and note the outcome."""
        try:
            done = commit()
        except PASSING as error:
            count = self.progress.failures.count + 1
            failures = Failures(count=count, at_s=self._clock.monotonic())
            self.progress = replace(self.progress, failures=failures, failure=error)
            raise
        self._note(done)
        return done

    def _note(self, done: Checkpointed) -> None:
        before, result = self.progress, done.result
        self.progress = Progress(
            checkpoints=before.checkpoints + (result is not None),
            version=before.version if result is None else result.n,
            lost=(*before.lost, *done.lost),
        )
        if result is not None:
            _LOG.info("%s: checkpoint of the log store: %s", self._uri, result)
        for bucket in done.lost:
            self._on_lost(bucket)

    @contextmanager
    def _my_turn(self, wait_s: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=wait_s):
            raise CheckpointPending(
                f"{self._uri}: an earlier checkpoint of the log store is still under way after "
                f"{wait_s:g} s: wait for it, and ask again"
            )
        try:
            yield
        finally:
            self._turn.release()
