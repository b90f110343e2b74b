"""Access to the log stores of a table, wherever they run: found by ZooKeeper, over Arrow Flight."""

from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.library.log_access import log_provider
from airflow_provider_segtable.ports.log_store import LogStoreProvider
from airflow_provider_segtable.services.log_store.directory import BucketFinder, addresses
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.tail import Finder


def log_finder(ports: TableContext, provider: LogStoreProvider | None = None) -> BucketFinder:
    """Return what finds the store of each bucket of a table, and reaches it by a provider.

    Raises:
        CoordinatorUnavailable: there is no ZooKeeper, so it is not known which services run.
    """
    coordinator, table = ports.optional_coordinator, ports.log.load().table.table_id
    if coordinator is None:
        raise CoordinatorUnavailable(
            f"the log stores of {ports.uri} are found by ZooKeeper and no address was given: pass "
            "zookeeper='host:port' (--zookeeper on the command line), or read the table alone"
        )
    addresses(coordinator, table)  # an error now: later, an absent coordinator is no service
    return BucketFinder(
        coordinator, table, (provider or log_provider(ports.log_store_options)).connect
    )


def finder_if_any(ports: TableContext, provider: LogStoreProvider | None = None) -> Finder:
    """Return the same; without ZooKeeper, what finds no service."""
    if ports.optional_coordinator is None:
        return lambda _: None
    return log_finder(ports, provider)
