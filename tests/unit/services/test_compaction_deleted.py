"""Compacting where rows are deleted before, meanwhile and after: nobody sees a row too many."""

from collections.abc import Iterator, Sequence

import pytest

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import contents

ROWS = [0, 1, 2, 3, 100, 101, 102, 103]
KINDS = ["minor", "semi-major", "major"]


def compacted(ports: TableContext, kind: str, where: str = "") -> None:
    """Ask for a compaction of everything and carry it out, deleting meanwhile."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        if where:
            Table(ports).delete(where)
        yield from in_process(ports.files)(jobs)

    wish = {"interval": Interval.parse("1970-01-01/1970-01-02")} if kind == "major" else {}
    asked = request(ports, kind, **wish)
    results = compact(ports, [one.plan.id for one in asked], execute)
    assert [(one.ended, one.message) for one in results if one.ended is not Ended.COMPLETED] == []
    assert list(violations(Table(ports).state())) == []


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", ["semi-major", "major"])
def test_deletes_beside_compactions(ports: TableContext, first: str, second: str) -> None:
    """What is deleted before one is not in its files, what is deleted later is held back."""
    Table(ports).delete("row in (1, 102)")
    compacted(ports, first, "row = 0")
    assert contents(ports) == [2, 3, 100, 101, 103]
    assert sum(s.rows for s in Table(ports).snapshot().segments()) == 6
    Table(ports).delete("row = 103")
    assert contents(ports) == [2, 3, 100, 101]
    compacted(ports, second)
    assert contents(ports) == [2, 3, 100, 101]
    assert sum(s.rows for s in Table(ports).snapshot().segments()) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["true", "row < 100"])
def test_all_rows_of_a_chunk_deleted(ports: TableContext, kind: str, where: str) -> None:
    """The plan completes and its books balance; what comes later is there."""
    Table(ports).delete(where)
    left = contents(ports)
    compacted(ports, kind)
    assert contents(ports) == left
    assert sum(s.rows for s in Table(ports).snapshot().segments()) == len(left)
