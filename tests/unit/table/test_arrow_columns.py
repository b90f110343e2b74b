"""Columns of checkpoints are those that Arrow makes of the same values, without its detour."""

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.table.log.segment_rows import column, values_of


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
