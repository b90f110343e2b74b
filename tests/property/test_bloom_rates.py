"""Bloom filters of a table's files let absent values pass at the rate asked for, and no other.

The files have from one to some thousand values. They are indexed by their writers, by a build and
by a compaction.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.data.indexes.entries import IndexView, view_of
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, new_table

RATES = (0.2, 0.02)
HOURS, APPENDS = 8, 20
MOST_VALUES, MANY = 3000, 600
ABSENT = 150
COLUMNS = ("row", "name")


def name_of(number: int) -> str:
    return f"name {number}"


def append(table: Table, draw: Random) -> None:
    """Append rows of even numbers, in one hour; as often few as many."""
    count = int(MOST_VALUES ** draw.random())
    numbers = [2 * draw.randrange(10**9) for _ in range(count)]
    at = pa.array([draw.randrange(HOURS) * HOUR_US] * count, SCHEMA.field("at").type)
    rows = [at, numbers, [*map(name_of, numbers)], [0.0] * count]
    table.append(pa.table(rows, SCHEMA))


@pytest.fixture(scope="module")
def table() -> Table:
    """Files that a build indexed, that their writers indexed, and that a compaction did."""
    draw = Random(1)
    made = new_table(MemoryService())
    for turn in range(APPENDS):
        if turn == APPENDS // 2:
            for rate in RATES:
                made.create_index(str(rate), "bloom_filter", [*COLUMNS], rate=rate)
        append(made, draw)
    plans = request(made.ports, SemiMajorPlan.kind, interval=Interval(0, 2 * HOUR_US))
    ids = [each.plan.id for each in plans]
    assert all(
        d.ended is Ended.COMPLETED for d in compact(made.ports, ids, in_process(made.ports.files))
    )
    for rate in RATES:
        run_index(made.ports, str(rate), in_process(made.ports.files))
    return made


def view(table: Table, rate: float) -> IndexView:
    index = table.index(str(rate))
    return view_of(index.definition, table.state().table, table.index_entries(str(rate)))


def holds(view: IndexView, file: Segment, column: str, value: Any) -> bool:
    return view.may_hold(file, Compare(column, Compares.EQUAL, value))


def values_of(table: Table, file: Segment) -> Sequence[int]:
    read = SegmentRead(table.ports.files, file, schema=SCHEMA, time_column="at")
    return [number for batch in read.batches() for number in batch.column("row").to_pylist()]


@pytest.mark.parametrize("rate", RATES)
def test_absent_values_pass_at_the_rate_and_present_ones_always(table: Table, rate: float) -> None:
    """In each column; files of many values are neither worse nor much better than asked for."""
    found, draw = view(table, rate), Random(2)
    large: list[bool] = []
    every: list[bool] = []
    for file in table.snapshot().segments():
        for number in values_of(table, file)[:100]:
            assert holds(found, file, "row", number)
            assert holds(found, file, "name", name_of(number))
        odd = [2 * draw.randrange(10**9) + 1 for _ in range(ABSENT)]
        passed = [holds(found, file, "row", number) for number in odd]
        passed += [holds(found, file, "name", name_of(number)) for number in odd]
        every += passed
        large += passed if file.rows > MANY else []
    assert np.mean(every) < 1.15 * rate + 4 * np.sqrt(rate / len(every))
    tolerance = 4 * np.sqrt(rate / len(large))
    assert 0.85 * rate - tolerance < np.mean(large) < 1.15 * rate + tolerance
