"""Rows that equal given ones: what equals what, and many columns at once."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.rows import Keys
from tests.examples import examples

NAN = float("nan")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
rows = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2**62]),
        st.sampled_from([None, "", "x"]),
        st.sampled_from([None, 0.0, -0.0, 1.5, NAN]),
    ),
    max_size=12,
)


def table(given_rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*given_rows, strict=True)) or [[], [], []]
    return pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def plain(row: tuple[object, ...]) -> tuple[object, ...]:
    """Return a row in the form in which Python's equality is the wanted one."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


@given(rows, rows, st.booleans())
@examples(200)
def test_keys_are_found_as_by_comparing_each_with_each(
    given_rows: list[tuple[object, ...]],
    others: list[tuple[object, ...]],
    nulls: bool,  # noqa: FBT001
) -> None:
    """Rows equal a key exactly if all their values do; equal rows get equal numbers."""
    keys, own = Keys.numbered(table(given_rows), SCHEMA.names, nulls=nulls)
    assert own.tolist() == keys.find(table(given_rows)).tolist()
    known = {plain(row) for row in given_rows if nulls or None not in row}
    assert keys.count == len(known)
    numbers = keys.find(table(others))
    assert [number >= 0 for number in numbers] == [plain(row) in known for row in others]
    pairs = {(plain(row), int(n)) for row, n in zip(others, numbers, strict=True) if n >= 0}
    assert len({row for row, _ in pairs}) == len({n for _, n in pairs}) == len(pairs)


def test_many_wide_columns_do_not_overflow() -> None:
    """Twenty columns of a thousand values are more combinations than a number can count."""
    draw = np.random.default_rng(7)
    wide = pa.table({f"c{n}": draw.integers(0, 1000, 1000) for n in range(20)})
    keys = Keys.of(wide, wide.column_names, nulls=False)
    assert sorted(keys.find(wide)) == list(range(1000))
    shifted = wide.set_column(19, "c19", pa.array(np.roll(wide.column("c19").to_numpy(), 1)))
    same = (np.roll(wide.column("c19").to_numpy(), 1) == wide.column("c19").to_numpy()).sum()
    assert (keys.find(shifted) >= 0).sum() == same


def test_batches_and_dictionaries_are_looked_up() -> None:
    """Coded text equals plain text, in batches as in tables; half floats work, too."""
    given_rows = pa.table(
        {"s": ["x", "y"], "h": pa.array([1.0, 2.0], pa.float32()).cast("float16")}
    )
    keys = Keys.of(given_rows, ["s", "h"], nulls=True)
    coded = given_rows.set_column(0, "s", given_rows.column("s").dictionary_encode())
    assert (keys.find(coded.to_batches()[0]) >= 0).all()


def test_lists_are_refused() -> None:
    """A column whose values have no equality here is refused by name."""
    with pytest.raises(InvalidInput, match="'l' is list<item: int64>"):
        Keys.of(pa.table({"l": [[1]]}), ["l"], nulls=True)
