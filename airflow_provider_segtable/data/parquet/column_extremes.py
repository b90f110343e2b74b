"""The least and the greatest value of a column, of values and by the statistics of a file.

1. *Extremes* are an Arrow array in the column's type: the least and the greatest value, or nothing.
   Nulls and NaN are no values, and minus zero is zero, as in ``pyarrow.compute.min_max``.
2. The statistics of all row groups of a file bound its values from outside. Of whole numbers,
   floating numbers, booleans, times and dates they are values that occur: the bounds are exact.
   Text may be cut, and the file does not say so: its bounds are outer ones.
3. Statistics are used of flat columns that the file stores in the table's type, times in its own
   unit. A row group of floating numbers that has none may have NaN alone, or no statistics: it has
   to be read. So have columns that the file lacks, which may have a default.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.parquet.table_file import TableFile, stored_as

_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True, slots=True)
class StoredExtremes:
    """The bounds of a column in a file; ``exact`` says that they are values of it."""

    values: pa.Array
    exact: bool


def extremes_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the least and the greatest of some values, as an array of two values or of none.

    Raises:
        ArrowNotImplementedError: the type has no order.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        values = pc.add(values.filter(pc.invert(pc.is_nan(values))), pa.scalar(0, kind))
    found = pc.min_max(values)
    ends = [each for each in (found["min"], found["max"]) if each.is_valid]
    return pa.array(ends, kind)


def stored_extremes(
    parquet: pq.ParquetFile | TableFile, schema: pa.Schema, name: str
) -> StoredExtremes | None:
    """Return the bounds of a column by a file's statistics; None if a row group has none.

    Args:
        parquet: the open file.
        schema: the table's schema.
        name: the column.
    """
    place = stored_as(parquet, schema).get(name)
    if place is None:
        return None
    kind, ends = schema.field(name).type, list[pa.Array]()
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        found = group.column(place).statistics
        if not group.num_rows or (found and found.has_null_count and _nulls_alone(found, group)):
            continue
        values = None if found is None or not found.has_min_max else _values(found, kind)
        if values is None:
            return None
        ends.append(values)
    whole = extremes_of(pa.concat_arrays([pa.array([], kind), *ends]))
    return StoredExtremes(whole, not pa.types.is_string(kind))


def _nulls_alone(found: Any, group: Any) -> bool:
    return bool(found.null_count == group.num_rows)


def _values(found: Any, kind: pa.DataType) -> pa.Array | None:
    """Return the bounds of a row group in the column's type; None of a type without."""
    is_, raw = pa.types, [found.min_raw, found.max_raw]
    logical = json.loads(found.logical_type.to_json())
    match found.physical_type, logical.get("Type"):
        case "INT64", "Timestamp" if is_.is_timestamp(kind):
            same = logical["timeUnit"] == _UNITS.get(kind.unit)
            return pa.array(raw, pa.int64()).view(kind) if same else None
        case "INT32", "Date" if is_.is_date32(kind):
            return pa.array(raw, pa.int32()).view(kind)
        case (("INT32" | "INT64"), ("Int" | "None")) if is_.is_signed_integer(kind):
            return pa.array(raw, kind)
        case (("FLOAT" | "DOUBLE"), "None") if is_.is_float32(kind) or is_.is_float64(kind):
            return pa.array(raw, kind)
        case "BOOLEAN", "None" if is_.is_boolean(kind):
            return pa.array(raw, kind)
        case "BYTE_ARRAY", "String" if is_.is_string(kind) and isinstance(found.min, str):
            return pa.array([found.min, found.max], kind)
    return None
