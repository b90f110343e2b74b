"""The log store beside its writer: in one process, as long as the writer is open.

1. The store listens on loopback unless it is told another host. Its writer reaches it without the
   network; readers find its address in ZooKeeper.
2. A thread claims the buckets there, and claims them again after a lost session. The claims are the
   writer's own, and have its epoch: readers go to the writer of the newest epoch, however long the
   one before it goes on. A bucket that was taken by another writer is no longer claimed. Without
   ZooKeeper there are no readers in other processes; all else is the same.
3. An opening writer waits up to ``HANDOVER_S`` for the writers that it replaces to have given their
   claims up. By then these answer no append any more. One that does not react in that time is
   dead, or stands still, or is cut off: then it answers for ``log_store.lease_seconds`` at most.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import CheckpointPolicy, Limits
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.ports.log_store import LogClient, LogContext, LogStoreProvider
from airflow_provider_segtable.services.log_store.claimed_buckets import ClaimedBuckets
from airflow_provider_segtable.services.log_store.service import LogService
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import log_schema

CLAIM_S = 1.0
HANDOVER_S = 1.0

_LOG = logging.getLogger(__name__)


class EmbeddedLog:
    """A store, its service, and its claims.

    Args:
        ports: the table's ports.
        state: the version whose columns the records have.
        buckets: the buckets that are served.
        provider: makes the store.
        policy: when checkpoints are made.
        name: the service's name, for people.
        limits: in place of those of the table.
    """

    def __init__(
        self,
        ports: TableContext,
        state: State,
        buckets: Sequence[int],
        *,
        provider: LogStoreProvider,
        policy: CheckpointPolicy,
        name: str,
        limits: Limits | None = None,
    ) -> None:
        context = LogContext(
            table=state.table.table_id,
            schema=log_schema(state, ports.uri),
            buckets=tuple(buckets),
            limits=limits or LogStoreSettings.read(state.table.properties).limits,
        )
        store = provider.create(context)
        self.service = LogService(ports, store, policy, columns=state, on_lost=self._lost)
        self._client = store.client()
        self._claims = self._claimed(ports, context.table, name)
        self._buckets = frozenset(buckets)
        self._wanted: frozenset[int] = frozenset()
        self._epoch: Epoch = 0
        self._claiming = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_claims, name="log-claims", daemon=True)

    def start(self, on_moved: Callable[[int], None]) -> None:  # noqa: ARG002 - the log's form
        """Serve, and make checkpoints; a store beside its writer does not move."""
        self.service.start()

    def publish(self, epoch: Epoch) -> None:
        """Publish the address, and keep it so: the writer's epoch has begun."""
        self._announce(epoch)
        if self._claims is not None and not self._thread.is_alive():
            self._thread.start()
            with suppress(SegtableError):
                self._claims.wait_until_alone(self._buckets, wait_s=HANDOVER_S)

    def client(self, bucket: int) -> LogClient:  # noqa: ARG002 - there is one store
        """Return the client of a bucket's store."""
        return self._client

    def check(self) -> None:
        """Raise what has ended the service's thread."""
        if self.service.error is not None:
            raise self.service.error

    @property
    def failure(self) -> SegtableError | None:
        """Return why the last checkpoint failed, if it did."""
        return self.service.progress.failure

    def checkpoint(self, commit_id: str | None, *, wait_s: float) -> int | None:
        """Commit all that was appended; return the version that has it, if there was any."""
        result = self.service.checkpoint(commit_id, wait_s=wait_s)
        return self.service.progress.version if result is None else result.n

    def close(self) -> frozenset[int]:
        """Make a last checkpoint, and end; errors as ``LogService.close``."""
        self._end(self.service.close)
        return self._buckets

    def discard(self) -> None:
        """End without a last checkpoint."""
        self._end(self.service.discard)

    def _end(self, end: Callable[[], None]) -> None:
        try:
            end()
        finally:
            self._ending.set()
            if self._thread.is_alive():
                self._thread.join(CLAIM_S)

    def _claimed(self, ports: TableContext, table: str, name: str) -> ClaimedBuckets | None:
        if ports.optional_coordinator is None:
            _LOG.info("%s: no ZooKeeper, so other processes cannot read the log store", ports.uri)
            return None
        return ClaimedBuckets(
            ports.optional_coordinator,
            table,
            service=name,
            deploy_mode=self.service.store.deploy_mode,
        )

    def _announce(self, epoch: Epoch) -> None:
        """Claim the buckets in an epoch, and have the store answer again if it did not."""
        self._wanted, self._epoch = self._buckets, epoch
        self._claim()
        with suppress(SegtableError):
            self.service.look()

    def _lost(self, bucket: int) -> None:
        with self._claiming:
            self._wanted -= {bucket}
        self._claim()

    def _keep_claims(self) -> None:
        """Keep the claims as they should be, until the end."""
        while not self._ending.wait(CLAIM_S):
            self._claim()
        self._wanted = frozenset()
        self._claim()

    def _claim(self) -> None:
        """Have claims of the wanted buckets alone, as far as it is possible now."""
        claims = self._claims
        if claims is None:
            return
        with self._claiming:
            try:
                claims.release(claims.held - self._wanted)
                claims.take(self._wanted, self.service.store.address, epoch=self._epoch)
            except SegtableError as error:
                _LOG.info("the address of a log store is not published: %s", error)
