"""Accept rows as users give them, split them by time chunk, look them up, and label them.

Rows of users: anything that speaks Arrow, as an Arrow table.

1. Accepted are Arrow tables, record batches and readers; pandas, Polars, DuckDB and others by the
   Arrow PyCapsule interface (``__arrow_c_stream__``, ``__arrow_c_array__``). None of these
   libraries is imported.
2. A pandas index is a column if it has a name, and left out if it has none.

Event times as instants, and the time chunks of rows:

3. An event time is a timestamp of any unit and zone (naive means UTC) or a date (its midnight).
4. Its instant is floored to the microsecond. A time that does not fit 64 bits saturates, so that a
   range check finds it; it never wraps into a plausible time.

Lookup of rows by equality with the rows of a small table, in given columns.

5. Each column's values are numbered, then the combinations of numbers that occur, column by column.
   So a batch is looked up in a few vectorised steps, without building an index of the batch.
6. Null equals null or nothing, as requested. NaN equals NaN, and minus zero is zero.

Rows for readers:

7. The columns of a change feed follow the table's: effect, version and completion time.
8. Rows become data frames of pandas, Polars and DuckDB, which need not be installed.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.reads.effects import CHANGE, CHANGE_COLUMNS, VERSION, RowChange
from airflow_provider_segtable.core.requests.read_request import COMPLETION_TIME
from airflow_provider_segtable.core.time import DAY_US, Interval, Layout

# Rows of users
Rows: TypeAlias = Any
"""Rows that speak Arrow; no library has a type for them."""

_INDEX = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to an index without one."""


def arrow_table(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table; a reader is read to its end.

    Raises:
        InvalidInput: they do not speak Arrow.
        SchemaMismatch: their library cannot express them in Arrow.
    """
    try:
        found = _arrow_table(rows)
        return found.drop_columns([name for name in found.column_names if _INDEX.fullmatch(name)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"the given {type(rows).__name__} has a column without an Arrow type: convert it to "
            f"one type first ({error})"
        ) from None


def _arrow_table(rows: Any) -> pa.Table:
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
        case pa.RecordBatchReader():
            return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    if hasattr(rows, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(rows)])
    raise InvalidInput(
        f"{type(rows).__name__} is not rows in Arrow: give a pandas (2.2 or later) or Polars "
        "DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or any object with "
        "__arrow_c_stream__; collect a LazyFrame first"
    )


def with_columns(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return rows with some columns replaced, all at once: each ``set_column`` copies the list."""
    if not columns:
        return rows
    every = [columns.get(name, rows.column(at)) for at, name in enumerate(rows.column_names)]
    return pa.table(every, schema=rows.schema)


# Event times as instants
_MAX = 2**63 - 1
US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def is_time(kind: pa.DataType) -> bool:
    """Return whether a column of this type can be the event time."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def is_date(kind: pa.DataType) -> bool:
    """Return whether a column of this type has dates, without a time of the day."""
    return bool(pa.types.is_date(kind))


def instants(column: pa.Array | pa.ChunkedArray) -> pa.Int64Array:
    """Return event times as microseconds since the epoch, UTC; null stays null."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pa.types.is_date32(kind):
        return _scaled(array.cast(pa.int32()).cast(pa.int64()), DAY_US)
    if pa.types.is_date64(kind):
        return _scaled(array.cast(pa.int64()), US_PER_UNIT["ms"])
    if kind.unit == "ns":
        return _floored(array.cast(pa.int64()), 1_000)
    return _scaled(array.cast(pa.int64()), US_PER_UNIT[kind.unit])


def _scaled(values: pa.Int64Array, factor: int) -> pa.Int64Array:
    if factor == 1:
        return values
    limit = pa.scalar(_MAX // factor, pa.int64())
    lowest = pa.scalar(-(_MAX // factor), pa.int64())
    inside = pc.min_element_wise(values, limit, skip_nulls=False)
    return pc.multiply(pc.max_element_wise(inside, lowest, skip_nulls=False), factor)


def _floored(values: pa.Int64Array, divisor: int) -> pa.Int64Array:
    quotient = pc.divide(values, divisor)  # truncates towards zero
    above = pc.greater(pc.multiply(quotient, divisor), values)
    return pc.subtract(quotient, above.cast(pa.int64()))


# Rows by time chunk
Places = npt.NDArray[np.int64]


def split_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, pa.Table]:
    """Split rows by time chunk, each part sorted by event time (stable)."""
    times = _times(rows, time_column)
    order = pc.sort_indices(times)
    ordered = rows.take(order)
    parts = _spans(_numbers(times.take(order)), layout)
    return {
        chunk: pa.concat_tables([ordered.slice(start, end - start) for start, end in spans])
        for chunk, spans in parts.items()
    }


def places_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, Places]:
    """Return the places of each time chunk's rows, in their order; no row is moved."""
    times = _numbers(_times(rows, time_column))
    first = int(times.min())
    if int(times.max()) < layout.edge(first):
        return {layout.chunk(first): np.arange(len(times))}
    order = np.argsort(times, kind="stable")
    return {
        chunk: np.sort(np.concatenate([order[start:end] for start, end in spans]))
        for chunk, spans in _spans(times[order], layout).items()
    }


def numbered_by_chunk(
    rows: pa.Table, time_column: str, layout: Layout
) -> tuple[Places, list[Interval]]:
    """Return the number of each row's time chunk, and the chunks by number; errors as of a split.

    The chunks are in the order of time.
    """
    return numbered_chunks(_numbers(_times(rows, time_column)), layout)


def numbered_chunks(times: Places, layout: Layout) -> tuple[Places, list[Interval]]:
    """Return the number of each instant's time chunk, and the chunks by number, in their order."""
    numbers = np.zeros(len(times), np.int64)
    if len(times) and int(times.max()) < layout.edge(first := int(times.min())):
        return numbers, [layout.chunk(first)]
    order = np.argsort(times)
    spans = _spans(times[order], layout)
    for number, some in enumerate(spans.values()):
        for start, end in some:
            numbers[order[start:end]] = number
    return numbers, [*spans]


def chunks_of(rows: pa.RecordBatch, time_column: str, layout: Layout) -> Collection[Interval]:
    """Return the time chunks that rows lie in."""
    return _spans(np.sort(np.asarray(instants(rows.column(time_column)))), layout)


def _times(rows: pa.Table, time_column: str) -> pa.Array:
    if rows.num_rows == 0:
        raise InvalidInput("there are no rows to append")
    return instants(rows.column(time_column).combine_chunks())


def _numbers(times: pa.Array) -> Places:
    """Return times as numbers, without pandas."""
    return np.frombuffer(times.buffers()[1], np.int64, len(times), 8 * times.offset)


def _spans(ascending: Places, layout: Layout) -> dict[Interval, list[tuple[int, int]]]:
    """Return where each time chunk's times begin and end."""
    spans: dict[Interval, list[tuple[int, int]]] = {}
    start = 0
    while start < len(ascending):
        first = int(ascending[start])
        end = int(np.searchsorted(ascending, layout.edge(first)))
        spans.setdefault(layout.chunk(first), []).append((start, end))
        start = end
    return spans


# Lookup of rows by equality
Numbers: TypeAlias = npt.NDArray[np.int64]
TableOrBatch: TypeAlias = pa.Table | pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct combinations of values in some columns of a table, numbered from 0.

    Attributes:
        columns: the columns' names.
        values: the distinct values of each column.
        combined: after each column, the combinations of numbers that occur, ascending.
    """

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...]
    combined: tuple[Numbers, ...]

    @staticmethod
    def of(rows: pa.Table, columns: Sequence[str], *, nulls: bool) -> "Keys":
        """Return the keys of a table; if ``nulls``, null equals null.

        Raises:
            InvalidInput: a column's type is nested and cannot be compared.
        """
        return Keys.numbered(rows, columns, nulls=nulls)[0]

    @staticmethod
    def numbered(rows: pa.Table, columns: Sequence[str], *, nulls: bool) -> "tuple[Keys, Numbers]":
        """Return the keys of a table, and the number of each row's, or -1; otherwise as ``of``."""
        values: list[pa.Array] = []
        combined: list[Numbers] = []
        so_far = np.zeros(rows.num_rows, np.int64)
        for name in columns:
            column = comparable(rows.column(name).combine_chunks(), name)
            found = pc.unique(column)
            values.append(found if nulls else found.drop_null())
            pairs = _paired(so_far, column, values[-1])
            combined.append(np.unique(pairs[pairs >= 0]))
            so_far = _ranked(pairs, combined[-1])
        return Keys(tuple(columns), tuple(values), tuple(combined)), so_far

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return len(self.combined[-1]) if self.combined else 0

    def among(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with one of these keys."""
        return rows.filter(pa.array(self.find(rows) >= 0))

    def find(self, rows: TableOrBatch) -> Numbers:
        """Return for each row the number of its key, or -1; columns have the table's types."""
        so_far = np.zeros(rows.num_rows, np.int64)
        for name, values, combined in zip(self.columns, self.values, self.combined, strict=True):
            pairs = _paired(so_far, comparable(rows.column(name), name), values)
            so_far = _ranked(pairs, combined)
        return so_far


def comparable(column: Any, name: str) -> Any:
    """Convert a column so that Arrow compares equal values as equal."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_nested(kind):
        raise InvalidInput(
            f"column {name!r} is {kind}, and rows cannot be found by such values: leave it out, or "
            "use a condition"
        )
    if pa.types.is_float16(kind):
        column, kind = column.cast(pa.float32()), pa.float32()
    return pc.add(column, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else column


def _paired(so_far: Numbers, column: Any, values: pa.Array) -> Numbers:
    """Return a number for each pair of an earlier number and a value; -1 if one is unknown."""
    found = pc.fill_null(pc.index_in(column, value_set=values), -1).cast(pa.int64()).to_numpy()
    return np.where((so_far < 0) | (found < 0), -1, so_far * max(len(values), 1) + found)


def _ranked(pairs: Numbers, known: Numbers) -> Numbers:
    """Return the index of each pair among the known pairs, or -1."""
    if not len(known):
        return np.full(len(pairs), -1, np.int64)
    places = np.searchsorted(known, pairs).clip(max=len(known) - 1)
    return np.where(known[places] == pairs, places, -1).astype(np.int64)


# The columns of a change feed
FEED = pa.schema(
    [
        pa.field(CHANGE, pa.string(), nullable=False),
        pa.field(VERSION, pa.int64(), nullable=False),
        pa.field(COMPLETION_TIME, pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""The columns that a change feed has after the table's."""


def with_change_columns(known: pa.Schema) -> pa.Schema:
    """Return a table's columns and the change feed's.

    Raises:
        SchemaMismatch: the table has a column of the same name.
    """
    names = {*known.names}
    for name in CHANGE_COLUMNS:
        if name in names:
            raise SchemaMismatch(f"a change feed has a column {name!r}: rename the table's own")
    return pa.schema([*known, *FEED])


def labelled(rows: pa.RecordBatch, change: RowChange) -> pa.RecordBatch:
    """Return rows with the columns of a change feed."""
    values = (change.effect.value, change.n, change.time)
    labels = [
        pa.repeat(pa.scalar(value, field.type), rows.num_rows)
        for value, field in zip(values, FEED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *labels], schema=pa.schema([*rows.schema, *FEED])
    )


# Data frames of other libraries
def pandas_frame(rows: pa.Table) -> Any:
    """Return rows as a pandas DataFrame.

    Raises:
        DependencyMissing: pandas is not installed.
    """
    return _made("pandas", rows.to_pandas)


def polars_frame(rows: pa.Table) -> Any:
    """Return rows as a Polars DataFrame.

    Raises:
        DependencyMissing: polars is not installed.
    """

    def make() -> Any:
        import polars as pl

        return pl.from_arrow(rows)

    return _made("polars", make)


def duckdb_relation(rows: Any) -> Any:
    """Return a DuckDB relation over a stream of rows, which DuckDB reads when it runs a query.

    Raises:
        DependencyMissing: duckdb is not installed.
    """

    def make() -> Any:
        import duckdb

        return duckdb.from_arrow(rows)

    return _made("duckdb", make)


def _made(library: str, make: Callable[[], Any]) -> Any:
    try:
        __import__(library)
    except ImportError:
        raise DependencyMissing(
            f"package {library} is not installed: pip install {library}, or read with to_arrow()"
        ) from None
    return make()
