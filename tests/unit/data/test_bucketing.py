"""Buckets of primary keys."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of, key_hashes
from tests.unit.data.key_vectors import VECTORS

FORMAT = Path(__file__).parents[3] / "docs" / "FORMAT.md"


@pytest.mark.parametrize(("kind", "values", "hashes"), VECTORS, ids=[str(v[0]) for v in VECTORS])
def test_hashes_are_the_vectors(kind: pa.DataType, values: list[Any], hashes: list[int]) -> None:
    """Each type is hashed as the format says: whole, in a slice, in chunks, as a dictionary."""
    array = pa.array(values, kind)
    assert key_hashes(pa.table({"k": array}), ["k"]).tolist() == hashes
    assert key_hashes(pa.table({"k": array.slice(1)}), ["k"]).tolist() == hashes[1:]
    parts = pa.chunked_array([array.slice(0, 1), array.slice(1)])
    assert key_hashes(pa.table({"k": parts}), ["k"]).tolist() == hashes
    words = pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), array)
    assert key_hashes(pa.table({"k": words}), ["k"]).tolist() == hashes


def test_the_format_has_the_vectors() -> None:
    """FORMAT.md lists each type with these hashes."""
    text = FORMAT.read_text()
    for kind, _, hashes in VECTORS:
        listed = ", ".join(map(str, hashes))
        assert any(str(kind) in line and listed in line for line in text.splitlines()), kind


def reference(data: bytes, seed: int) -> int:
    """Hash bytes one word after another, as Spark's source does."""
    top = 2**32 - 1

    def rotated(n: int, by: int) -> int:
        return (n << by | n >> (32 - by)) & top

    found = seed & top
    end = len(data) // 4 * 4
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, end, 4)]
    words += [(byte - 256 if byte > 127 else byte) & top for byte in data[end:]]
    for word in words:
        mixed = rotated(word * 0xCC9E2D51 & top, 15) * 0x1B873593 & top
        found = rotated(found ^ mixed, 13) * 5 + 0xE6546B64 & top
    found ^= len(data)
    found = (found ^ found >> 16) * 0x85EBCA6B & top
    found = (found ^ found >> 13) * 0xC2B2AE35 & top
    found ^= found >> 16
    return found - 2**32 if found >> 31 else found


def test_columns_are_chained() -> None:
    """The hash of a column is the seed of the next, whatever the length of the bytes."""
    chance = random.Random(3)
    rows = [(chance.randbytes(chance.randint(0, 40)), chance.randint(-9, 9)) for _ in range(300)]
    table = pa.table({"a": [a for a, _ in rows], "b": pa.array([b for _, b in rows], pa.int64())})
    expected = [reference(b.to_bytes(8, "little", signed=True), reference(a, 42)) for a, b in rows]
    assert key_hashes(table, ["a", "b"]).tolist() == expected
    assert buckets_of(table, ["a", "b"], 7).tolist() == [hashed % 7 for hashed in expected]


def test_buckets_are_even() -> None:
    """A million numbered keys fill 16 buckets evenly, within 2 %."""
    counts = np.bincount(buckets_of(pa.table({"k": np.arange(1_000_000)}), ["k"], 16))
    assert len(counts) == 16
    assert abs(counts / 62_500 - 1).max() < 0.02


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.float32(), pa.float64(), pa.uint8(), pa.uint64(), pa.timestamp("ns"), pa.time64("us")),
        *(pa.list_(pa.int32()), pa.date64(), pa.duration("us")),
    ],
    ids=str,
)
def test_other_types_are_no_keys(kind: pa.DataType) -> None:
    """A type that has no hash is refused by name, by rows and by rules."""
    table = pa.schema([("k", kind)]).empty_table()
    with pytest.raises(InvalidInput, match=r"'k' is .* which is not a key type"):
        key_hashes(table, ["k"])
    with pytest.raises(SchemaMismatch, match=r"column k: .* can not be part of a primary key"):
        MergeRules(key=("k",)).check(from_arrow(table.schema))


@pytest.mark.parametrize(
    ("kind", "instead"), [(pa.uint64(), r"decimal128\(20, 0\) has all"), (pa.uint32(), "int64 has")]
)
def test_an_unsigned_key_is_refused_with_what_is_accepted(kind: pa.DataType, instead: str) -> None:
    """It is an integer, too: so the message says signed, and names a type that has the values."""
    rules, schema = MergeRules(key=("k",)), from_arrow(pa.schema([("k", kind)]))
    with pytest.raises(SchemaMismatch, match=f"use signed integers .int8 to int64.*; .*{instead}"):
        rules.check(schema)


@pytest.mark.parametrize("kind", [vector[0] for vector in VECTORS], ids=str)
def test_types_with_vectors_are_keys(kind: pa.DataType) -> None:
    """A type that has a hash is accepted by rules."""
    MergeRules(key=("k",)).check(from_arrow(pa.schema([("k", kind)])))


def test_null_keys_are_refused() -> None:
    """A null key is refused with its row, and so is a table of no buckets."""
    table = pa.table({"k": [1, None], "l": [1, 2]})
    with pytest.raises(
        InvalidInput, match="1 row without a key: column 'k' is null, first in row 1 \\(from 0\\)"
    ):
        buckets_of(table, ["l", "k"], 4)
    with pytest.raises(InvalidInput, match="a table of 0 buckets"):
        buckets_of(table, ["l"], 0)
