"""Statistics of files: every bound is a bound of every row, for all types that a table stores."""

import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import inf, isnan, nan
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.publishing import FileStats
from airflow_provider_segtable.data.arrow_schema import FIELD_ID, from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.publishing import file_stats, stats_of
from tests.examples import examples
from tests.support.builders import DEFINITION, first

Values = Callable[[Random], Any]


def among(*values: Any) -> Values:
    """Return a draw among values."""
    return lambda draw: draw.choice(values)


def number(bits: int, *, signed: bool = True) -> Values:
    """Return a draw of integers, often the least and the greatest."""
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda draw: draw.choice([least, most, 0, draw.randint(least, most)])


TEXTS = among("", "a", "z" * 40, "é" * 20, "\U0010ffff" * 9, "a\x00b", "zz")
FLOATS = among(nan, inf, -inf, -0.0, 0.0, 1.5, -2.25)
TYPES: list[tuple[pa.DataType, Values]] = [
    (pa.bool_(), among(True, False)),
    *((pa.type_for_alias(f"int{bits}"), number(bits)) for bits in (8, 16, 32, 64)),
    *((pa.type_for_alias(f"uint{bits}"), number(bits, signed=False)) for bits in (8, 16, 32, 64)),
    *((kind, FLOATS) for kind in (pa.float16(), pa.float32(), pa.float64())),
    *((kind, TEXTS) for kind in (pa.string(), pa.large_string())),
    *((kind, among(b"", b"\x00", b"\xff" * 30, b"a")) for kind in (pa.binary(), pa.large_binary())),
    (pa.binary(2), among(b"\x00\x01", b"\xff\xfe", b"ab")),
    (pa.date32(), number(20)),
    (pa.time32("ms"), number(26, signed=False)),
    (pa.time64("us"), number(36, signed=False)),
    *((pa.timestamp(unit), number(50)) for unit in ("ms", "us", "ns")),
    *((pa.timestamp(unit, "UTC"), number(50)) for unit in ("ms", "us", "ns")),
    (pa.timestamp("s", "Europe/Berlin"), number(40)),
    (pa.timestamp("us"), number(64)),
    *(
        (pa.decimal128(digits, 2), among(Decimal("-9.99"), Decimal("0.01"), Decimal("123.45")))
        for digits in (5, 12, 38)
    ),
    (pa.list_(pa.int64()), among([], [1, None], [3])),
    (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), among({"a": 1, "b": ["x"]})),
    (pa.map_(pa.string(), pa.int64()), among([("k", 1)], [])),
]


def stats(rows: pa.Table, **options: Any) -> FileStats:
    """Return the statistics of a file of some rows."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    files = MemoryFiles()
    files.store["f"] = sink.getvalue()
    table = replace(DEFINITION, schema=from_arrow(rows.schema.remove_metadata()))
    segment = replace(first(0, rows=rows.num_rows), path="f", size=len(files.store["f"]))
    return stats_of(files, table, [segment])["f"]


@examples(25)
@given(st.integers(0, 2**32))
def test_bounds_hold_for_every_row(seed: int) -> None:
    """Bounds and numbers of nulls are true of all values of any type, in any row groups."""
    draw = Random(seed)
    count = draw.randint(1, 12)
    columns = {
        f"c{at}": pa.array(
            [None if draw.random() < 0.3 else value(draw) for _ in range(count)], kind
        )
        for at, (kind, value) in enumerate(TYPES)
    }
    rows = pa.table(columns)
    found = stats(
        rows, row_group_size=draw.choice([1, 3, 100]), store_decimal_as_integer=draw.random() < 0.5
    )
    for at, (kind, _) in enumerate(TYPES):
        check(found.columns[at + 1], rows.column(at), kind)


def test_a_file_without_statistics_has_no_bounds() -> None:
    """What the footer does not tell is None, never a guess."""
    rows = pa.table({"a": [1, 2], "b": ["x", None]})
    column = stats(rows, write_statistics=False).columns[1]
    assert (column.low, column.high, column.nulls) == (None, None, None)
    assert column.size


def test_columns_go_by_their_ids_if_the_file_has_them() -> None:
    """A file with ids is numbered, its columns known by these; fields within columns count, too."""

    def field(name: str, kind: pa.DataType, number: int) -> Any:
        return pa.field(name, kind, metadata={FIELD_ID: str(number)})

    values = [[1, 3], [{"x": 1}, None]]
    inner = pa.struct([field("x", pa.int64(), 3)])
    schema = pa.schema([field("other", pa.int64(), 1), field("s", inner, 2)])
    found = stats(pa.table(values, schema=schema))
    assert found.numbered
    assert (found.columns[1].low, found.columns[1].high) == (1, 3)
    bare = pa.schema([schema.field(0), field("s", pa.struct([("x", pa.int64())]), 2)])
    assert not stats(pa.table(values, schema=bare)).numbered
    assert not stats(pa.table({"a": [1]})).numbered


def test_row_groups_begin_where_their_first_column_does() -> None:
    """Split offsets are where row groups begin: the first after the magic number."""
    offsets = stats(pa.table({"a": range(9)}), row_group_size=3).split_offsets
    assert len(offsets) == 3
    assert offsets[0] == 4
    assert offsets == tuple(sorted(offsets))


def test_a_broken_footer_is_named() -> None:
    """A file that is no Parquet file is an error with its path."""
    files = MemoryFiles()
    files.store["f"] = b"PAR1 no footer PAR1"
    segment = replace(first(0), path="f", size=len(files.store["f"]))
    with pytest.raises(CorruptTable, match=r"^f: .*restore it"):
        file_stats(files, DEFINITION, segment)


def check(found: Any, column: pa.ChunkedArray, kind: pa.DataType) -> None:
    """Compare the statistics of a column with its values."""
    if pa.types.is_nested(kind):
        assert (found.low, found.high, found.nulls) == (None, None, None)
        return
    assert found.nulls == column.null_count
    values = [value for value in plain(column, kind) if not (found.nan and isnan(value))]
    if pa.types.is_float16(kind) or not values:
        assert (found.low, found.high) == (None, None)
    elif found.low is None:  # as far as values of another row group are all NaN
        assert found.nan
    else:
        assert found.low <= min(values)
        assert found.high >= max(values)
        exact = not (pa.types.is_timestamp(kind) and kind.unit == "ns")
        assert not exact or (found.low, found.high) == (min(values), max(values))


def plain(column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    """Return the values as statistics state them: times in microseconds, dates in days."""
    values = column.drop_null()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        values = values.cast(pa.int64())
    scale = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}[getattr(kind, "unit", "us")]
    given = values.to_pylist()
    return given if scale == 1 else [value * scale for value in given]
