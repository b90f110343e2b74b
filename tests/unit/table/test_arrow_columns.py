"""Columns of checkpoints are those that Arrow makes of the same values, without its detour."""

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.table.log.segment_rows import column, values_of

APPEND = """
import sys
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table

times = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(bytes(16))])
rows = pa.table([times.view(pa.timestamp("us", "UTC"))], names=["at"])
Table.create("memory://lean", schema=rows.schema, time_column="at", granularity="year")
ports = open_context("memory://lean")
ports = replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()))
state = Table(ports).append(rows).state
assert read_checkpoint(write_checkpoint(state)) == state
assert "pandas" not in sys.modules, "a second of processor time for every short append"
"""


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -3, 2**31 - 1], pa.int32()),
        ([2**62, 0], pa.int64()),
        ([None, True, False], pa.bool_()),
        ([None, "", "größer", "a"], pa.string()),
        ([None] * 9, pa.string()),
        ([], pa.int64()),
    ],
)
def test_columns_are_those_that_arrow_makes(values: list[Any], kind: pa.DataType) -> None:
    """Nulls, empty columns and texts beyond ASCII included; values come back as they were."""
    made = column(values, kind)
    made.validate(full=True)
    assert made == pa.array(values, kind)
    assert values_of(pa.chunked_array([made, made], kind)) == values + values


def test_a_number_that_does_not_fit_is_refused() -> None:
    """No digit of a number is lost."""
    with pytest.raises(OverflowError):
        column([2**31], pa.int32())


def test_an_append_and_a_checkpoint_need_no_pandas() -> None:
    """Arrow imports pandas at its first conversion of a Python value, so there is none."""
    subprocess.run([sys.executable, "-c", APPEND], check=True, timeout=240)
