"""Predicates as Arrow computes them, where databases agree and Arrow alone would not."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Among, AnyOf, Compare, Compares, Day, Not
from airflow_provider_segtable.data.conditions import matches

NAN = float("nan")
FLOATS = pa.table({"f": pa.array([-0.0, 1.0, NAN, None], pa.float32())})


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Compare("f", Compares.MORE, 0.0), [False, True, True, None]),
        (Compare("f", Compares.AT_LEAST, 1e300), [False, False, True, None]),
        (Compare("f", Compares.LESS, 1e300), [True, True, False, None]),
        (Compare("f", Compares.UNEQUAL, 1.0), [True, False, True, None]),
        (Among("f", (0.0, 2.0)), [True, False, False, None]),
        (Among("f", (1.0, None)), [None, True, None, None]),
        (Not(Among("f", (1.0, None))), [None, False, None, None]),
        (Compare("f", Compares.MORE, None), [None] * 4),
        (Among("f", ()), [False] * 4),
        (AnyOf((Compare("f", Compares.EQUAL, None), Among("f", (1.0,)))), [None, True, None, None]),
    ],
)
def test_logic_is_that_of_sql(predicate: object, expected: list[bool | None]) -> None:
    """NaN is the largest number, minus zero is zero, null is unknown."""
    assert matches(FLOATS, predicate).to_pylist() == expected  # type: ignore[arg-type]


def test_dictionaries_are_their_values() -> None:
    """A dictionary-coded column, of a table or a batch, is compared by its values."""
    rows = pa.table({"s": pa.array(["a", None, "b"]).dictionary_encode()})
    wanted = Among("s", ("a", "c"))
    assert matches(rows, wanted).to_pylist() == [True, None, False]
    assert matches(rows.to_batches()[0], wanted).to_pylist() == [True, None, False]


def test_a_day_beside_a_time_is_its_midnight() -> None:
    """A date is compared with timestamps as its first instant, in UTC."""
    rows = pa.table({"at": pa.array([86_399, 86_400], pa.timestamp("s", "UTC"))})
    found = matches(rows, Compare("at", Compares.AT_LEAST, Day(1)))
    assert found.to_pylist() == [False, True]


def test_a_value_that_does_not_fit_is_refused() -> None:
    """The message names value, column and type."""
    rows = pa.table({"n": pa.array([1], pa.int8())})
    with pytest.raises(InvalidInput, match="300 is not a value of column 'n', int8"):
        matches(rows, Compare("n", Compares.EQUAL, 300))
