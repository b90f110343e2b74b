"""A lock that is released, whoever holds it."""

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput, LockLost
from airflow_provider_segtable.core.locks import Lock, LockRequest
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.services.attempt import Attempt, begin
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.services.unlocking import claims, held_by, release_lock
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory, defined_by, in_another_process
from tests.unit.services.conftest import SCHEMA, rows


def table() -> tuple[TableContext, TableContext]:
    """Return a table of three files, as its owner and another process see it."""
    service = MemoryService()
    ports = context_in_memory(service)
    create_table(ports, defined_by(SCHEMA))
    for _ in range(3):
        Table(ports).append(rows(0))
    return ports, in_another_process(ports, service)


def begun(ports: TableContext) -> Lease:
    """Begin the compaction of all files, and return its lease."""
    known, *_ = request(ports, "minor")  # one for each hour
    attempt = begin(ports, known, ports.log.load(), wait_s=0)
    assert isinstance(attempt, Attempt)
    return attempt.lease


def test_the_holder_of_a_released_lock_cannot_go_on() -> None:
    """Its plan waits again, by an event of the one who released it."""
    hangs, ports = table()
    lease = begun(hangs)
    (lock,) = (each for each in ports.coordinator.locks("t") if each.purpose.startswith("minor"))
    found = held_by(ports, ports.log.load(), lock.group)
    assert release_lock(ports, ports.log.load(), found)
    with pytest.raises(LockLost):
        lease.check()
    known = ports.log.load().plans[lock.purpose]
    assert (known.status, known.author) == (PlanStatus.REQUESTED, ports.author)
    assert known.note == f"its lock was released by {ports.author}"


def test_a_lock_that_is_of_no_plan_leaves_no_event() -> None:
    """There is nothing in the log that it held up."""
    hangs, ports = table()
    asked = LockRequest(table="t", group="g", purpose="append", holder="h")
    hangs.coordinator.acquire(asked, wait_s=0)
    before = ports.log.load()
    found = held_by(ports, before, "g")
    assert isinstance(found, Lock)
    assert claims(found) == "nothing but its purpose"
    assert release_lock(ports, before, found)
    assert ports.log.load().n == before.n
    assert not release_lock(ports, before, found)


def test_a_lock_says_what_it_claims() -> None:
    """Segments, and ids of new ones."""
    hangs, ports = table()
    begun(hangs)
    (lock,) = (each for each in ports.coordinator.locks("t") if each.purpose.startswith("minor"))
    assert claims(lock) == "3 segments, 1 new segment id"


def test_a_group_without_a_lock_is_refused() -> None:
    """The message says how to list the groups."""
    _, ports = table()
    with pytest.raises(InvalidInput, match="no lock of group 'none': `segtable locks memory://t`"):
        held_by(ports, ports.log.load(), "none")
