"""Overwrites beside compactions by the real kernels: before, between and after, on one table."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import HOUR_US, SCHEMA, contents
from tests.unit.services.test_changes import compacted

FIRST_HOUR = Interval(0, HOUR_US)


def day(*numbers: int) -> pa.Table:
    """Return rows of the first hour."""
    times = pa.array(range(len(numbers)), SCHEMA.field("at").type)
    return pa.table({"at": times, "row": list(numbers)}, SCHEMA)


@pytest.mark.parametrize("kind", [MinorPlan.kind, SemiMajorPlan.kind, MajorPlan.kind])
def test_overwrites_before_during_and_after_a_compaction_replace_once(
    ports: TableContext, other: TableContext, kind: str
) -> None:
    """Whichever lands first, the rows are those of the last overwrite, and others' stay."""
    Table(ports).overwrite(day(50, 51), interval=FIRST_HOUR)
    Table(ports).append(day(52))

    def act() -> None:
        Table(other).overwrite(day(60, 61), interval=FIRST_HOUR)
        Table(other).append(day(62))

    compacted(ports, kind, act)
    assert contents(ports) == [60, 61, 62, 100, 101, 102, 103]
    done = Table(ports).overwrite(day(70), interval=FIRST_HOUR)
    assert (done.deleted, done.inserted) == (3, 1)
    compacted(ports, SemiMajorPlan.kind, lambda: None)
    sorted_rows = Table(ports).overwrite(day(80), interval=FIRST_HOUR)
    assert (sorted_rows.deleted, sorted_rows.inserted) == (1, 1)
    assert contents(ports) == [80, 100, 101, 102, 103]
