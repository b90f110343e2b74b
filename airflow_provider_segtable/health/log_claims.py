"""Findings about the services of a log store, as the coordinator knows them.

1. A claim of a bucket that the table does not have is of a service that was opened before
   ``log_store.buckets`` was lowered, and has not looked since.
2. A bucket that once had a writer, and that no service has now, is worth a note after
   ``QUIET_HOURS`` without a checkpoint. Its writer may have ended as it should.
"""

from collections.abc import Iterator

from airflow_provider_segtable.core.errors import CoordinationError, InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.planning.properties.retention import HOUR_US
from airflow_provider_segtable.services.log_store.directory import BucketAddress, addresses
from airflow_provider_segtable.table.context import TableContext

QUIET_HOURS = 24


def log_services(ports: TableContext, state: State, now: Instant) -> Iterator[Finding]:
    """Yield findings about the buckets that services have, or should; none without an answer."""
    if ports.optional_coordinator is None:
        return
    try:
        served = addresses(ports.optional_coordinator, state.table.table_id)
        count = LogStoreSettings.read(state.table.properties).buckets
    except (CoordinationError, InvalidInput):  # other findings say so
        return
    for bucket, at in served.items():
        if bucket >= count:
            yield _beyond(at, count)
    for bucket in sorted(state.log_store.keys() - served.keys()):
        if (quiet := now - _last_checkpoint(ports, state, bucket)) > QUIET_HOURS * HOUR_US:
            yield _unserved(bucket, state.log_store[bucket], quiet / HOUR_US)


def _last_checkpoint(ports: TableContext, state: State, bucket: int) -> Instant:
    """Return when a bucket had its last checkpoint, or lost it by a restore; 0 if it had none."""
    waypoints = state.log_store[bucket].waypoints
    event = ports.log.event(max(waypoints[-1].n, state.retained_from)) if waypoints else None
    return event.time if event else 0


def _beyond(at: BucketAddress, count: int) -> Finding:
    return Finding(
        code="unknown-log-bucket",
        severity=Severity.WARNING,
        where=f"log store bucket {at.bucket}",
        what=f"{at.service} serves it at {at.address}, but log_store.buckets is {count}",
        why="writers and readers that are opened now leave it out, so its records are seen late: "
        "after a checkpoint, in the table",
        do=f"close the writer of that bucket, and start it again; or raise the number: segtable "
        f"table set TABLE log_store.buckets={at.bucket + 1}",
    )


def _unserved(bucket: int, known: BucketManifest, hours: float) -> Finding:
    since = f"for {hours:.0f} hours" if known.waypoints else "ever"
    return Finding(
        code="quiet-log-bucket",
        severity=Severity.INFO,
        where=f"log store bucket {bucket}",
        what=f"no service has it, and no record of it was committed {since}; its last writer, in "
        f"epoch {known.epoch}, was {known.owner or 'a restore or a repair'}",
        why="nothing is lost, but it has no writer, and its readers wait",
        do="nothing, unless a writer should run: start it, or segtable logstore serve TABLE",
    )
