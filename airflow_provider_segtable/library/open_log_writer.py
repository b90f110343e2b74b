"""Open a writer of a table's log store, beside a store of its own or with external services.

The log store beside its writer, in one process, as long as the writer is open:

1. The store listens on loopback unless ``host`` names another. Its writer reaches it without the
   network; readers find its address in ZooKeeper.
2. A thread claims the buckets there, and claims them again after a lost session. The claims are the
   writer's own, and have its epoch: readers go to the writer of the newest epoch, however long the
   one before it goes on. A bucket that was taken by another writer is no longer claimed. Without
   ZooKeeper there are no readers in other processes; all else is the same.
3. An opening writer waits up to ``HANDOVER_S`` for the writers that it replaces to have given their
   claims up. By then these answer no append any more. One that does not react in that time is
   dead, or stands still, or is cut off: then it answers for ``log_store.lease_seconds`` at most.

Log stores that run as processes of their own (``segtable logstore serve``):

4. A service that stands still, or whose host is gone, does not say so. So a thread looks up the
   present services of the buckets, and the writer leaves services that were replaced, also while it
   waits for them.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    LogStoreError,
    LogStoreGone,
    LogStoreServed,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import ON_REQUEST, CheckpointPolicy, Limits
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.library.log_records import Overflow, RecordSplitter
from airflow_provider_segtable.library.log_writer import Log, TableLogWriter
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.log_store import (
    DeployMode,
    LogClient,
    LogContext,
    LogStoreProvider,
)
from airflow_provider_segtable.services.log_directory import (
    BucketAddress,
    BucketFinder,
    ClaimedBuckets,
    addresses,
    named,
)
from airflow_provider_segtable.services.log_store import LogService
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import log_schema

CLAIM_S = 1.0
HANDOVER_S = 1.0

_LOG = logging.getLogger(__name__)


# The log store beside its writer
class EmbeddedLog:
    """A store, its service, and its claims.

    Args:
        ports: the table's ports.
        state: the version whose columns the records have.
        buckets: the buckets that are served.
        provider: makes the store.
        policy: when checkpoints are made.
        name: the service's name, for people.
        limits: in place of the table's limits.
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

    def announce(self, epoch: Epoch) -> None:
        """Announce the address, and keep it so: the writer's epoch has begun."""
        self._announce(epoch)
        if self._claims is not None and not self._thread.is_alive():
            self._thread.start()
            with suppress(SegtableError):
                self._claims.wait_until_alone(self._buckets, wait_s=HANDOVER_S)

    def client(self, bucket: int) -> LogClient:  # noqa: ARG002 - there is one store
        """Return the client of a bucket's store."""
        return self._client

    def check(self) -> None:
        """Raise the error that ended the service's thread."""
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

    def resolve(self, *, wait_s: float) -> None:
        """Learn the outcome of the last checkpoint, if it is unknown."""
        self.service.resolve(wait_s=wait_s)

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


LOOK_S = 2.0
"""How often the services are looked at; their changes are noticed at once."""


# Log stores in processes of their own
class ExternalLog:
    """The services of a writer's buckets; ``find`` knows where they are now.

    Args:
        uri: the table's place, for messages.
        buckets: the buckets of the writer.
        find: finds the service that has a bucket now.
    """

    failure = None

    def __init__(self, uri: str, buckets: Sequence[int], find: BucketFinder) -> None:
        self._uri, self._buckets, self._find = uri, buckets, find
        self._found: dict[int, int] = {}
        self._used: Mapping[int, int] = {}
        self._closed = threading.Event()

    def start(self, on_moved: Callable[[int], None]) -> None:
        """Watch the services, which run already."""
        threading.Thread(
            target=self._watch, args=(on_moved,), name="segtable-log-moves", daemon=True
        ).start()

    def announce(self, epoch: Epoch) -> None:  # noqa: ARG002 - the log's form
        """Note whose services the writer uses from now on; they publish their own addresses."""
        self._used = dict(self._found)

    def client(self, bucket: int) -> LogClient:
        """Return the client of a bucket's store.

        Raises:
            LogStoreUnavailable: no service has the bucket now.
        """
        at = self._find.find(bucket)
        if at is None:
            raise LogStoreUnavailable(
                f"no service has bucket {bucket} of the log store of {self._uri}: start one with "
                "`segtable logstore serve`, or open the writer with embedded=True"
            )
        self._found[bucket] = at.number
        return self._find.client(at)

    def check(self) -> None:
        """Do nothing: a service's errors come with its answers."""

    def checkpoint(self, commit_id: str | None, *, wait_s: float) -> int | None:
        """Have all services of the buckets commit; return the last version.

        Raises:
            InvalidInput: a commit id is given: a service commits the records of other writers, too.
        """
        if commit_id is not None:
            raise InvalidInput(
                f"commit id {commit_id!r} was given for a checkpoint of {self._uri}, but external "
                "services commit for several writers: open the writer with embedded=True"
            )
        clients = {id(each): each for each in map(self.client, self._buckets)}
        versions = [each.checkpoint(wait_s=wait_s) for each in clients.values()]
        return max((n for n in versions if n is not None), default=None)

    def resolve(self, *, wait_s: float) -> None:
        """Do nothing: a service's checkpoints have no ids of a writer."""

    def close(self) -> frozenset[int]:
        """End the watch; the services go on, and will commit."""
        self._closed.set()
        return frozenset()

    def discard(self) -> None:
        """End the watch; the services commit the sent records, until another epoch begins."""
        self._closed.set()

    def _watch(self, on_moved: Callable[[int], None]) -> None:
        seen: Mapping[int, BucketAddress] = {}
        while not self._closed.is_set():
            try:
                seen = self._find.wait(seen, LOOK_S)
            except CoordinationError:  # the writer's services go on meanwhile
                self._closed.wait(LOOK_S)
                continue
            for bucket, number in self._used.items():
                if bucket in seen and seen[bucket].number != number:
                    on_moved(bucket)


UNBOUNDED = 1 << 62


# Opening a writer
def open_log_writer(
    ports: TableContext,
    *,
    provider: LogStoreProvider,
    buckets: Sequence[int] | None = None,
    embedded: bool | None = None,
    checkpoint_seconds: float | None = None,
    automatic: bool = True,
    overflow: bool = False,
    wait_s: float,
) -> TableLogWriter:
    """Open a writer; arguments and errors as for ``Table.log_writer``."""
    state = ports.log.load()
    settings = LogStoreSettings.read(state.table.properties)
    mine = checked_buckets(buckets, settings, ports.uri)
    splitter = RecordSplitter(state, ports.uri, settings, mine)
    owner = f"{ports.author} {ports.randomness.token()[:8]}"
    table = state.table.table_id
    log: Log
    _check_overflow(ports.uri, overflow=overflow, automatic=automatic)
    served = _served(ports, provider, table, mine)
    if (embedded or overflow) and served:
        raise _refused(ports.uri, served)
    if embedded or overflow or (embedded is None and not served):
        policy = _policy(settings, checkpoint_seconds, automatic=automatic)
        limits = replace(settings.limits, bucket_bytes=UNBOUNDED) if overflow else None
        log = EmbeddedLog(
            ports, state, mine, provider=provider, policy=policy, name=owner, limits=limits
        )
    else:
        find = BucketFinder(ports.coordinator, table, provider.connect)
        log = ExternalLog(ports.uri, mine, find)
    beyond = _overflow(settings, mine) if overflow else None
    writer = TableLogWriter(ports, log, splitter, mine, owner=owner, wait_s=wait_s, overflow=beyond)
    return writer.open()


def _check_overflow(uri: str, *, overflow: bool, automatic: bool) -> None:
    if overflow and automatic:
        raise InvalidInput(
            f"overflow=True was given for a writer of the log store of {uri} that makes "
            "checkpoints by itself, which make room: add automatic=False, or leave it out"
        )


def _overflow(settings: LogStoreSettings, buckets: Sequence[int]) -> Overflow:
    """Return where records beyond the memory of the buckets go; kept checkpoints are in it, too."""
    room = settings.limits.bucket_bytes * len(buckets)
    return Overflow(room // (settings.kept_checkpoints + 1))


def checked_buckets(
    given: Sequence[int] | None, settings: LogStoreSettings, uri: str
) -> tuple[int, ...]:
    """Return buckets of a log store, all by default.

    Raises:
        InvalidInput: there is none, or one that the log store does not have.
    """
    known = range(settings.buckets)
    found = tuple(known) if given is None else tuple(sorted(set(given)))
    if not found or not set(found) <= set(known):
        raise InvalidInput(
            f"buckets {list(found)} are none of the log store of {uri}, which has "
            f"{settings.buckets}, from 0 up: choose some of them, or set log_store.buckets"
        )
    return found


def _served(
    ports: TableContext, provider: LogStoreProvider, table: str, buckets: Sequence[int]
) -> list[BucketAddress]:
    """Return the buckets that external services have, without services that certainly ended."""
    if ports.optional_coordinator is None:
        return []
    found = addresses(ports.optional_coordinator, table)
    served = [
        found[bucket]
        for bucket in buckets
        if bucket in found and found[bucket].deploy_mode is DeployMode.EXTERNAL
    ]
    gone = {each for each in {at.address for at in served} if _is_gone(provider, each)}
    return [at for at in served if at.address not in gone]


def _is_gone(provider: LogStoreProvider, address: str) -> bool:
    try:
        provider.connect(address).status()
    except LogStoreGone:
        return True
    except LogStoreError:
        return False
    return False


def _refused(uri: str, served: Sequence[BucketAddress]) -> LogStoreServed:
    buckets = named([at.bucket for at in served])
    services = ", ".join(sorted({f"{at.service} at {at.address}" for at in served}))
    return LogStoreServed(
        f"{buckets} of the log store of {uri} are served by {services}, so no store can run beside "
        "this writer: stop it (segtable logstore serve), or write through it with embedded=False"
    )


def _policy(
    settings: LogStoreSettings, seconds: float | None, *, automatic: bool
) -> CheckpointPolicy:
    if not automatic:
        return ON_REQUEST
    return settings.policy if seconds is None else replace(settings.policy, seconds=seconds)
