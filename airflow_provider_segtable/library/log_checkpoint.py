"""A checkpoint of a table's log store on request: all services that have buckets of it are asked.

1. Each service commits what its buckets have, so the newest version that they name has every record
   that was appended before the request.
2. The table's log decides: a bucket that moves meanwhile was committed before it moved.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.library.log_access import log_provider
from airflow_provider_segtable.services.log_store.directory import addresses
from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """What services of a log store committed on request.

    Attributes:
        services: their addresses.
        version: a version of the table that has every record appended before; None if there was
            never one.
    """

    services: tuple[str, ...]
    version: int | None


def checkpoint_log(ports: TableContext, *, wait_s: float) -> LogCheckpoint:
    """Have everything committed that was appended to a table's log store before.

    Args:
        ports: the table's ports, with a coordinator.
        wait_s: how long each service may take.

    Raises:
        LogStoreUnavailable: no service has a bucket of the table, or one does not answer.
        CheckpointPending: a service has not committed in time; it may later.
        CoordinatorUnavailable: there is no ZooKeeper.
    """
    served = addresses(ports.coordinator, ports.log.load().table.table_id)
    if not served:
        raise LogStoreUnavailable(
            f"no service serves the log store of {ports.uri}: open a writer, or run `segtable "
            f"logstore serve {ports.uri}`"
        )
    services = sorted({at.address for at in served.values()})
    provider = log_provider(ports.log_store_options)
    made = [provider.connect(each).checkpoint(wait_s=wait_s) for each in services]
    newest = max((version for version in made if version is not None), default=None)
    return LogCheckpoint(services=tuple(services), version=newest)
