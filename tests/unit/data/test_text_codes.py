"""Codes of text and bytes."""

import random

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.data.keyed.key_groups import text_codes

WORDS = [
    "",
    "\0",
    "a",
    "a\0",
    "a\0\0",
    "ab",
    "b" * 8,
    "b" * 9,
    "b" * 16,
    "b" * 16 + "\0",
    "ü",
    "漢字",
]


@pytest.mark.parametrize("prefix", ["", "user-", "a prefix of many bytes, "])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("cut", [0, 3])
def test_codes_are_ranks(prefix: str, kind: pa.DataType, cut: int) -> None:
    """Values get the ranks of their bytes among the distinct values, also in a slice."""
    chance = random.Random(7)
    words = [prefix + "".join(chance.choices(WORDS, k=chance.randint(0, 4))) for _ in range(500)]
    values = [word.encode() for word in words]
    array = pa.array(values, pa.binary()).cast(kind)[cut:]
    ranks = {value: at for at, value in enumerate(sorted({*values[cut:]}), start=1)}
    found = text_codes(array)
    assert found.rows.tolist() == [ranks[value] for value in values[cut:]]
    assert found.top == len(ranks)


def test_codes_of_nothing() -> None:
    """No values, and values without bytes, have codes."""
    assert text_codes(pa.array([], pa.string())).rows.tolist() == []
    assert text_codes(pa.array(["", ""])).rows.tolist() == [1, 1]
    assert np.array_equal(text_codes(pa.array(["x", "x"])).rows, [1, 1])
