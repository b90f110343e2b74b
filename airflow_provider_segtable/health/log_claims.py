"""Findings about the services of a log store, as the coordinator knows them.

A claim of a bucket that the table does not have is of a service that was opened before
``log_store.buckets`` was lowered, and has not looked since.
"""

from collections.abc import Iterator

from airflow_provider_segtable.core.errors import CoordinationError, InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.services.log_store.directory import BucketAddress, addresses
from airflow_provider_segtable.table.context import TableContext


def claims_beyond(ports: TableContext, state: State) -> Iterator[Finding]:
    """Yield the buckets that services have and the table does not; none without an answer."""
    if ports.optional_coordinator is None:
        return
    try:
        served = addresses(ports.optional_coordinator, state.table.table_id)
        count = LogStoreSettings.read(state.table.properties).buckets
    except (CoordinationError, InvalidInput):  # other findings say so
        return
    for bucket, at in served.items():
        if bucket >= count:
            yield _beyond(ports.uri, at, count)


def _beyond(table: str, at: BucketAddress, count: int) -> Finding:
    return Finding(
        code="unknown-log-bucket",
        severity=Severity.WARNING,
        where=f"log store bucket {at.bucket}",
        what=f"{at.service} serves it at {at.address}, but log_store.buckets is {count}",
        why="writers and readers that are opened now leave it out, so its records are seen late: "
        "after a checkpoint, in the table",
        do=f"close the writer of that bucket, and start it again; or raise the number: segtable "
        f"table set {table} log_store.buckets={at.bucket + 1}",
    )
