"""The checksum that tells whether two sets of rows are equal."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of

ROWS = pa.table(
    {
        "n": pa.array([1, None, 3, 4], pa.int32()),
        "f": pa.array([0.5, None, -0.0, 2.0]),
        "s": pa.array(["a", "b", None, "a"]),
        "at": pa.array([datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)]),
        "d": pa.array([date(2013, 1, 1), None, date(2013, 1, 3), date(2013, 1, 4)]),
        "x": pa.array([Decimal("1.5"), Decimal("2.5"), None, Decimal("1.5")]),
        "ok": pa.array([True, False, None, True]),
        "list": pa.array([[1], [1, 2], None, []]),
        "bytes": pa.array([b"\x00", b"", None, b"\xff"]),
    }
)


@given(order=st.permutations(range(4)), cut=st.integers(0, 4))
def test_neither_order_nor_batches_matter(order: list[int], cut: int) -> None:
    """Equal rows in another order, cut into other batches, have an equal checksum."""
    moved = ROWS.take(pa.array(order))
    batches = [*moved.slice(0, cut).to_batches(), *moved.slice(cut).to_batches()]
    assert checksum_of(batches) == checksum_of(ROWS.to_batches())


@pytest.mark.parametrize("column", ROWS.column_names)
def test_every_column_counts(column: str) -> None:
    """Rows that differ in one value of any type have another checksum."""
    at = ROWS.column_names.index(column)
    turned = ROWS.column(at).take(pa.array([3, 1, 2, 0]))
    other = ROWS.set_column(at, column, turned)
    changed = other.to_pylist() != ROWS.to_pylist()
    assert (checksum_of(other.to_batches()) != checksum_of(ROWS.to_batches())) == changed


def test_lost_and_doubled_rows_show() -> None:
    """A row less or a row twice changes rows and sum."""
    whole = checksum_of(ROWS.to_batches())
    assert checksum_of(ROWS.slice(1).to_batches()) != whole
    assert checksum_of(pa.concat_tables([ROWS, ROWS.slice(0, 1)]).to_batches()) != whole


def test_null_is_neither_zero_nor_empty() -> None:
    """A null differs from the values it is easily taken for."""
    sums = [
        checksum_of(pa.table({"a": pa.array(values)}).to_batches())
        for values in ([None], [0], [""], [0.0], [False])
    ]
    assert sums[0] not in sums[1:]


def test_the_width_of_an_integer_does_not_matter() -> None:
    """The same numbers stored as another integer type are the same rows."""
    narrow, wide = pa.array([1, 2, 3], pa.int8()), pa.array([1, 2, 3], pa.int64())
    assert checksum_of(pa.table({"a": narrow}).to_batches()) == checksum_of(
        pa.table({"a": wide}).to_batches()
    )


def test_parts_add_up() -> None:
    """The checksum of two parts is that of the whole; sixteen digits are shown."""
    parts = checksum_of(ROWS.slice(0, 2).to_batches()) + checksum_of(ROWS.slice(2).to_batches())
    assert parts == checksum_of(ROWS.to_batches())
    assert len(parts.hex) == 16
    assert checksum_of([]) == Checksum()


def test_the_columns_that_differ_are_named() -> None:
    """Two sets of rows differ in exactly the columns whose values were changed."""
    other = ROWS.set_column(0, "n", pa.array([1, None, 3, 5], pa.int32()))
    found = checksum_of(ROWS.to_batches()).differing(checksum_of(other.to_batches()))
    assert found == ("n",)


def test_every_nan_is_one_value() -> None:
    """NaN of another sign or payload is the same value."""
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    usual = pa.table({"a": [float("nan")] * 2})
    assert checksum_of(pa.table({"a": odd}).to_batches()) == checksum_of(usual.to_batches())
