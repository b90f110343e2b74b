"""The buckets of a table's log store: what is committed, who serves them, and what waits there.

1. The coordinator says who serves a bucket, the service what it has, and then the table's log what
   of it is committed. The log is read last: a service hears of its own commit a moment after the
   log's readers do, and who waited for the announcement must not miss it.
2. A service that does not answer is part of the listing, not an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Epoch, Offset
from airflow_provider_segtable.core.log_store.reading import BucketStatus
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.library.log_access import log_provider
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.ports.log_store import LogStoreProvider
from airflow_provider_segtable.services.log_store.directory import BucketAddress, addresses
from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBucket:
    """A bucket of a table's log store.

    Attributes:
        bucket: its number.
        epoch: the newest epoch in the table's log.
        committed: the number of records that the table's log has.
        at: who serves the bucket; None if no service does.
        status: what the service has; None if there is none, or it does not answer.
        trouble: why there is no status although there is a service.
    """

    bucket: int
    epoch: Epoch
    committed: Offset
    at: BucketAddress | None
    status: BucketStatus | None
    trouble: str = ""

    @property
    def waiting(self) -> Offset:
        """Return the number of records that the service has and the table's log has not.

        What a service of an older epoch has is in the log, or will never be.
        """
        if self.status is None or self.status.epoch < self.epoch:
            return 0
        return max(0, self.status.end.offset - self.committed)

    @property
    def waiting_since(self) -> Instant | None:
        """Return when the oldest of them was appended, or earlier, by the service's clock."""
        return self.status.uncommitted_since if self.status and self.waiting else None


def log_buckets(ports: TableContext, state: State | None = None) -> list[LogBucket]:
    """Return all buckets that the table, its log or a service knows, by number.

    Args:
        ports: the table's ports.
        state: a recent state of the table; saves reading the log again.

    Raises:
        CoordinatorUnavailable: there is no ZooKeeper.
    """
    state = state or ports.log.load()
    served = addresses(ports.coordinator, state.table.table_id)
    provider = log_provider(ports.log_store_options)
    answers = {each: _asked(provider, each) for each in {at.address for at in served.values()}}
    state = ports.log.refresh(state)
    wanted = range(LogStoreSettings.read(state.table.properties).buckets)
    found = []
    for bucket in sorted({*wanted, *served, *state.log_store}):
        at, known = served.get(bucket), bucket_of(state, bucket)
        answer = answers[at.address] if at else {}
        found.append(
            LogBucket(
                bucket=bucket,
                epoch=known.epoch,
                committed=known.end,
                at=at,
                status=None if isinstance(answer, str) else answer.get(bucket),
                trouble=answer if isinstance(answer, str) else "",
            )
        )
    return found


def _asked(provider: LogStoreProvider, address: str) -> Mapping[int, BucketStatus] | str:
    """Return the status of a service's buckets, or why it does not say."""
    try:
        return provider.connect(address).status()
    except SegtableError as error:
        return str(error)
