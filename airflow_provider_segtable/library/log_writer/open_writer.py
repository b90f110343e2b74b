"""Opening a writer of a table's log store, beside a store of its own or with external services."""

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.checkpoint_policy import ON_REQUEST, CheckpointPolicy
from airflow_provider_segtable.library.log_writer.embedded import EmbeddedLog
from airflow_provider_segtable.library.log_writer.external import ExternalLog
from airflow_provider_segtable.library.log_writer.records import RecordSplitter
from airflow_provider_segtable.library.log_writer.table_log_writer import Log, TableLogWriter
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.ports.log_store import DeployMode, LogStoreProvider
from airflow_provider_segtable.services.log_store.directory import BucketFinder, addresses
from airflow_provider_segtable.table.context import TableContext


def open_log_writer(
    ports: TableContext,
    *,
    provider: LogStoreProvider,
    buckets: Sequence[int] | None = None,
    embedded: bool | None = None,
    checkpoint_seconds: float | None = None,
    automatic: bool = True,
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
    if embedded is None:
        embedded = not _is_served(ports, table, mine)
    if embedded:
        policy = _policy(settings, checkpoint_seconds, automatic=automatic)
        log = EmbeddedLog(ports, state, mine, provider=provider, policy=policy, name=owner)
    else:
        find = BucketFinder(ports.coordinator, table, provider.connect)
        log = ExternalLog(ports.uri, mine, find)
    writer = TableLogWriter(ports, log, splitter, mine, owner=owner, wait_s=wait_s)
    return writer.open()


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


def _is_served(ports: TableContext, table: str, buckets: Sequence[int]) -> bool:
    """Return whether external services have some of the buckets."""
    if ports.optional_coordinator is None:
        return False
    found = addresses(ports.optional_coordinator, table)
    return any(
        at.deploy_mode is DeployMode.EXTERNAL for n, at in found.items() if n in set(buckets)
    )


def _policy(
    settings: LogStoreSettings, seconds: float | None, *, automatic: bool
) -> CheckpointPolicy:
    if not automatic:
        return ON_REQUEST
    return settings.policy if seconds is None else replace(settings.policy, seconds=seconds)
