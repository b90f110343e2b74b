"""What doctor notes about the buckets of a log store."""

from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.services.log_directory import ClaimedBuckets
from airflow_provider_segtable.table.table import Table
from tests.unit.services.test_planner import clock_of
from tests.unit.table.logged import Logged

HOUR_S = 3600


def test_a_quiet_bucket_without_a_service_is_a_note(table: Table) -> None:
    """A day after its last checkpoint; not while a service has it."""
    logged, ports = Logged(table), table.ports
    logged.begin(0, 4)
    logged.checkpoint(b0=1, b4=1)
    clock_of(ports).advance(23 * HOUR_S)
    assert not quiet(table)
    logged.checkpoint(b4=1)
    clock_of(ports).advance(2 * HOUR_S)
    assert quiet(table) == ["log store bucket 0"]
    services = ClaimedBuckets(
        ports.coordinator, "t", service="host:7", deploy_mode=DeployMode.EMBEDDED
    )
    services.take([0], "grpc://127.0.0.1:1")
    assert not quiet(table)


def quiet(table: Table) -> list[str]:
    """Return the buckets that are noted."""
    found = [f for f in examine(table.ports).findings if f.code == "quiet-log-bucket"]
    assert all(each.severity is Severity.INFO for each in found)
    return [each.where.rpartition(": ")[2] for each in found]
