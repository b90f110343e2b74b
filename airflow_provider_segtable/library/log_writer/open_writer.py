"""Opening a writer of a table's log store, beside a store of its own or with external services."""

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreError,
    LogStoreGone,
    LogStoreServed,
)
from airflow_provider_segtable.core.log_store.bucket import ON_REQUEST, CheckpointPolicy
from airflow_provider_segtable.library.log_writer.embedded import EmbeddedLog
from airflow_provider_segtable.library.log_writer.external import ExternalLog
from airflow_provider_segtable.library.log_writer.overflow import Overflow
from airflow_provider_segtable.library.log_writer.records import RecordSplitter
from airflow_provider_segtable.library.log_writer.table_log_writer import Log, TableLogWriter
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.ports.log_store import DeployMode, LogStoreProvider
from airflow_provider_segtable.services.log_store.bucket_share import named
from airflow_provider_segtable.services.log_store.directory import (
    BucketAddress,
    BucketFinder,
    addresses,
)
from airflow_provider_segtable.table.context import TableContext

UNBOUNDED = 1 << 62


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
            f"buckets {list(found)} are not those of the log store of {uri}, which has "
            f"{settings.buckets}, from 0 up: choose some of them, or set log_store.buckets"
        )
    return found


def _served(
    ports: TableContext, provider: LogStoreProvider, table: str, buckets: Sequence[int]
) -> list[BucketAddress]:
    """Return which of the buckets external services have; not those that have certainly ended."""
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
