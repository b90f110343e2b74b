"""Bounds hold for every value, as Iceberg's own library reads them."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from airflow_provider_segtable.formats.iceberg.entries import bound, time_bound, widened
from tests.examples import examples

TYPES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.sampled_from("a\ud7ff\U0010ffff"), max_size=24),
    "binary": st.binary(max_size=20) | st.text("\xff", max_size=40).map(str.encode),
    "decimal(38, 3)": st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -3))
    ),
}


def type_of(text: str) -> Any:
    """Return pyiceberg's type of a name."""
    field = {"id": 1, "name": "c", "required": False, "type": text}
    return Schema(NestedField.model_validate(field)).fields[0].field_type


@pytest.mark.parametrize("text", TYPES)
@examples(30)
@given(data=st.data())
def test_a_bound_is_never_on_the_wrong_side(text: str, data: st.DataObject) -> None:
    """The lower one is at most the value, the upper one at least; short values are exact."""
    value, kind = data.draw(TYPES[text]), type_of(text)
    low, high = bound(value, text), bound(value, text, upper=True)
    assert low is not None
    assert from_bytes(kind, low) <= value
    if high is not None:
        assert from_bytes(kind, high) >= value
    if not isinstance(value, str | bytes) or len(value) <= 16:
        assert from_bytes(kind, low) == value == from_bytes(kind, high or b"")


def test_what_has_no_bound_has_none() -> None:
    """Nulls, values that are no numbers, texts of greatest characters, types without an order."""
    assert bound(None, "int") is None
    assert bound(float("nan"), "double") is None
    assert bound("\U0010ffff" * 17, "string", upper=True) is None
    assert bound(b"\xff" * 17, "binary", upper=True) is None
    assert time_bound(0, "string") is None


def test_zeros_are_told_apart() -> None:
    """A file with both zeros has the negative one as its lower bound, the other as its upper."""
    assert bound(0.0, "float") == b"\0\0\0\x80"
    assert bound(-0.0, "float", upper=True) == b"\0\0\0\0"


def test_widened_columns_have_bounds_of_the_new_type() -> None:
    """Integers and floating numbers get longer; decimals, and what fits, stay."""
    assert widened(b"\xfe\xff\xff\xff", "long") == bound(-2, "long")
    assert widened(bound(0.5, "float") or b"", "double") == bound(0.5, "double")
    assert widened(b"\x05", "decimal(30, 2)") == b"\x05"
    assert widened(bound(7, "long") or b"", "long") == bound(7, "long")


@pytest.mark.parametrize(("at", "days"), [(-1, -1), (0, 0), (86_400_000_000, 1)])
def test_event_times_that_are_dates_have_bounds_in_days(at: int, days: int) -> None:
    """Microseconds become the day that they lie in, also before 1970."""
    assert time_bound(at, "date") == bound(days, "date")
    assert time_bound(at, "timestamptz") == bound(at, "long")
