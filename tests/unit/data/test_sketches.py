"""Hashes of values, sketches of their number, and filters; ``docs/FORMAT.md`` has the vectors."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data import sketches
from airflow_provider_segtable.data.sketches import (
    Hashes,
    Probe,
    bloom_filter,
    column_hashes,
    estimated,
    joined,
    merged,
    sketch,
    value_hashes,
)
from tests.examples import examples

NIGHT = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)
ZERO, ONE, MINUS = "34c96acdcadb1bbb", "9f29cb17a2a49995", "85d136adb773c6c9"
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
VECTORS: list[tuple[pa.DataType, list[Any], list[str]]] = [
    *((kind, [0, 1, -1], [ZERO, ONE, MINUS]) for kind in INTEGERS),
    (pa.int64(), [1 << 40], ["a13ea4c7924fd453"]),
    (pa.bool_(), [False, True], [ZERO, ONE]),
    (pa.date32(), [date(2026, 1, 31), date(1969, 12, 31)], ["974eb756ce54d30e", MINUS]),
    *(
        (kind, [NIGHT], ["526248edc4139cab"])
        for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"))
    ),
    *((pa.timestamp(unit), [datetime(2026, 1, 31)], ["3cb30553bb994270"]) for unit in ("s", "ms")),  # noqa: DTZ001 - a time without zone is UTC
    *(
        (kind, [0.0, -0.0, 1.5, np.nan], [ZERO, ZERO, "49f7b96b6b5ccaf9", "e9adb09fee122aac"])
        for kind in (pa.float32(), pa.float64())
    ),
    *(
        (
            kind,
            ["", "a", "abc", "Lüdenscheid", "漢字", "Nobody inspects the spammish repetition"],
            [
                *("ef46db3751d8e999", "d24ec4f1a98c6e5b", "44bc2cf5ad770999"),
                *("24b93d3b27dcd3fa", "133f9c23770b64f5", "fbcea83c8a378bf1"),
            ],
        )
        for kind in (pa.string(), pa.large_string())
    ),
    (pa.binary(), [b"\0", b"\xff\x80\x7f"], ["e934a84adb052768", "faf0c6947bdc769d"]),
    (
        pa.decimal128(10, 2),
        [Decimal("0.00"), Decimal("14.20"), Decimal("-0.01")],
        [ZERO, "b944ba56b7efe3cd", MINUS],
    ),
    (
        pa.decimal128(38, 2),
        [Decimal("14.20"), *(Decimal(each) / 100 for each in (2**63 - 1, 2**63, -(2**63) - 1))],
        ["b944ba56b7efe3cd", "ff70cc60366e770c", "8190ba0234e0ea2a", "468c415f04bd6a79"],
    ),
]
FORMAT = "0000180804000402020400020000260040004004000002884000002020090000"
RATES = (0.2, 0.01, 0.001)


def numbers(first: int, count: int) -> Hashes:
    """Return the hashes of consecutive numbers."""
    return value_hashes(pa.array(range(first, first + count), pa.int64()))


def by_the_specification(text: bytes) -> int:
    """Return XXH64 with seed 0, stripe by stripe, as its specification has it."""
    p1, p2, p3, p4, p5 = sketches._PRIMES
    every = 2**64 - 1

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & every

    def turned(lane: int, word: int) -> int:
        return rotated((lane + word * p2) & every, 31) * p1 & every

    at, found = 0, p5
    if len(text) >= 32:
        lanes = [(p1 + p2) & every, p2, 0, -p1 & every]
        while at + 32 <= len(text):
            for lane in range(4):
                start = at + 8 * lane
                word = int.from_bytes(text[start : start + 8], "little")
                lanes[lane] = turned(lanes[lane], word)
            at += 32
        pairs = zip(lanes, (1, 7, 12, 18), strict=True)
        found = sum(rotated(lane, bits) for lane, bits in pairs) & every
        for lane in lanes:
            found = ((found ^ turned(0, lane)) * p1 + p4) & every
    found = (found + len(text)) & every
    for size, step in ((8, None), (4, (p1, 23, p2, p3)), (1, (p5, 11, p1, 0))):
        while at + size <= len(text):
            word = int.from_bytes(text[at : at + size], "little")
            if step is None:
                found = (rotated(found ^ turned(0, word), 27) * p1 + p4) & every
            else:
                factor, bits, times, more = step
                found = (rotated(found ^ (word * factor & every), bits) * times + more) & every
            at += size
    found = (found ^ found >> 33) * p2 & every
    found = (found ^ found >> 29) * p3 & every
    return found ^ found >> 32


@pytest.mark.parametrize("library", [False, True])
def test_texts_of_any_lengths_have_the_hashes_of_the_specification(
    monkeypatch: pytest.MonkeyPatch, *, library: bool
) -> None:
    """Many or few long texts among short ones; with the library, where it is installed, or not."""
    if not library:
        monkeypatch.setattr(sketches, "xxh64_intdigest", None)
    draw = random.Random(5)
    short = [draw.randbytes(draw.randrange(70)) for _ in range(60)]
    for lengths in ([5_000], [33] * 40 + [31, 32, 4_095], [64] * 33, [700] * 50 + [9_001] * 3):
        texts = [*short, *(draw.randbytes(length) for length in lengths)]
        draw.shuffle(texts)
        found = value_hashes(pa.array(texts, pa.binary())).tolist()
        assert found == list(map(by_the_specification, texts))


def test_a_long_text_costs_the_short_ones_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps over many values are as many as the short ones need, however long the longest is."""
    monkeypatch.setattr(sketches, "xxh64_intdigest", None)
    steps = []
    read = sketches._words_at

    def counting(*given: Any) -> Hashes:
        steps.append(len(given[-1]))
        return read(*given)

    monkeypatch.setattr(sketches, "_words_at", counting)
    value_hashes(pa.array(["x" * 100] * 1_000 + ["y" * 1_000_000]))
    assert len(steps) < 30
    assert sum(steps) < 20_000


@pytest.mark.parametrize(("kind", "values", "hashes"), VECTORS, ids=str)
def test_hashes_are_those_of_the_format(
    kind: pa.DataType, values: list[Any], hashes: list[str]
) -> None:
    """Equal values have equal hashes in all types that a column may have or get."""
    assert [f"{found:016x}" for found in value_hashes(pa.array(values, kind))] == hashes


def test_values_without_a_hash_are_refused() -> None:
    """The message names the type."""
    with pytest.raises(InvalidInput, match="uint64 have no hash"):
        value_hashes(pa.array([1], pa.uint64()))


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**65), 2**65), min_size=1))
@examples(25)
def test_a_decimal_has_the_hash_of_its_unscaled_value(numbers: list[int]) -> None:
    """As an integer of 64 bits, or else as bytes, whatever its scale is."""
    found = value_hashes(pa.array(map(Decimal, numbers), pa.decimal128(38, 0)))
    for number, each in zip(numbers, found, strict=True):
        size = next(n for n in range(1, 17) if -(1 << 8 * n - 1) <= number < 1 << 8 * n - 1)
        kind = pa.int64() if size <= 8 else pa.binary()
        value = number if size <= 8 else number.to_bytes(size, "big", signed=True)
        assert each == value_hashes(pa.array([value], kind))[0]


def test_columns_have_the_hashes_of_their_values() -> None:
    """Nulls are left out, whatever the column is stored as; parts add up."""
    column = pa.chunked_array([["a", None, "b"], ["b", "b"]])
    for each in (column, column.dictionary_encode(), column.combine_chunks()):
        assert sorted(column_hashes(each)) == sorted(value_hashes(pa.array(["a", "b"])))
    parts = [column_hashes(pa.array(range(n), pa.int64())) for n in (0, 3, 5)]
    assert sorted(joined(parts)) == sorted(numbers(0, 5))
    assert len(joined([])) == 0


@given(st.lists(st.text() | st.text(min_size=40), min_size=1, max_size=6), st.integers(0, 3))
@examples(25)
def test_a_text_has_its_own_hash(texts: list[str], offset: int) -> None:
    """It does not depend on its neighbours in the array, nor on where the array begins."""
    array = pa.array(["skipped"] * offset + texts).slice(offset)
    alone = [int(value_hashes(pa.array([text]))[0]) for text in texts]
    assert value_hashes(array).tolist() == alone


def test_filters_and_sketches_are_those_of_the_format() -> None:
    """Bytes on disk: any other reader finds the same bits."""
    found = bloom_filter(numbers(1, 3), 0.01)
    assert found is not None
    assert found.hex() == FORMAT
    registers = np.frombuffer(sketch(numbers(1, 3)), np.uint8)
    assert {int(at): int(registers[at]) for at in registers.nonzero()[0]} == {65: 4, 149: 1, 176: 1}


def test_estimates_are_near_the_number_of_values() -> None:
    """Over many sets the error is the one promised, and merging parts changes nothing."""
    for count in (0, 1, 10, 100, 3_000, 40_000):
        errors = []
        for turn in range(30):
            hashes = numbers(turn * 1_000_000, count)
            found = sketch(hashes)
            assert merged([sketch(hashes[::2]), sketch(hashes[1::2])]) == found
            errors.append(estimated(found) / count - 1 if count else estimated(found))
        error = float(np.sqrt(np.mean(np.square(errors))))
        assert error < 1.3 * 1.04 / 16, count
        assert abs(float(np.mean(errors))) < 0.03, count


@pytest.mark.parametrize("rate", RATES)
def test_false_positives_come_at_the_rate_asked_for(rate: float) -> None:
    """With any number of values; and none is missed."""
    for count in (40, 1_000, 30_000):
        present, absent = numbers(0, count), numbers(10**9, 40_000)
        found = bloom_filter(present, rate)
        assert found is not None
        assert all(Probe(int(value)).may_be_in(found) for value in present[:2_000])
        passed = np.mean([Probe(int(value)).may_be_in(found) for value in absent])
        tolerance = 4 * np.sqrt(rate / len(absent))
        assert passed < 1.15 * rate + tolerance, count
        if count > 40:
            assert passed > 0.85 * rate - tolerance, count


@given(
    st.sets(st.binary(max_size=40) | st.text(max_size=9).map(str.encode), max_size=60),
    st.floats(0.0001, 0.9),
)
@examples(60)
def test_a_filter_has_all_its_values(values: set[bytes], rate: float) -> None:
    """Of any set, at any rate."""
    hashes = column_hashes(pa.array([*values, None], pa.binary()))
    found = bloom_filter(hashes, rate)
    assert found is not None
    assert bool(found) is bool(values)
    assert all(Probe(int(value)).may_be_in(found) for value in hashes)


def test_an_empty_filter_has_no_value_and_a_large_one_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The latter would be larger than what it saves."""
    assert bloom_filter(numbers(0, 0), 0.01) == b""
    assert not Probe(1).may_be_in(b"")
    monkeypatch.setattr(sketches, "MOST_BYTES", 1_000)
    assert bloom_filter(numbers(0, 700), 0.01) is not None
    assert bloom_filter(numbers(0, 800), 0.01) is None
