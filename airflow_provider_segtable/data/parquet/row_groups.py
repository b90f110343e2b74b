"""Row groups of a file that may hold matching rows, by the statistics in its footer.

1. A predicate is compared with the bounds of its columns (``core.deletes.predicate_bounds``); an
   Arrow expression by Arrow's own datasets.
2. Statistics are used only for flat columns that the file stores in the table's type, and of
   types whose bounds are exact. For an expression over floating columns none are used: Arrow
   ignores that values may be NaN.
3. Of these, the row groups are read in which the row filter may keep a row.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import RawIOBase
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.predicate import Bounds, Day, Moment, can_be
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.parquet.table_file import TableFile, target_name

_UNITS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChoice:
    """The row groups of a file that are read.

    Attributes:
        starts: the number of each row group's first row.
        matching: row groups that may hold matching rows.
        read: those of them in which the row filter may keep a row.
        compared: whether statistics were compared with a condition.
    """

    starts: tuple[int, ...]
    matching: Sequence[int]
    read: Sequence[int]
    compared: bool


def chosen_groups(
    parquet: pq.ParquetFile | TableFile,
    file: RawIOBase,
    condition: Condition | None,
    schema: pa.Schema,
    row_filter: RowFilter,
) -> GroupChoice:
    """Return the row groups to read; arguments as for ``matching_groups``."""
    every = range(parquet.num_row_groups)
    sizes = [parquet.metadata.row_group(number).num_rows for number in every]
    *starts, _ = accumulate(sizes, initial=0)
    found = None if condition is None else matching_groups(parquet, file, condition, schema)
    matching = every if found is None else found
    read = matching
    if not row_filter.passes_all:
        read = [n for n in matching if row_filter.may_keep(starts[n], sizes[n])]
    return GroupChoice(
        starts=tuple(starts), matching=matching, read=read, compared=found is not None
    )


def matching_groups(
    parquet: pq.ParquetFile | TableFile, file: RawIOBase, condition: Condition, schema: pa.Schema
) -> Sequence[int] | None:
    """Return the numbers of the row groups that may hold matching rows.

    None if statistics cannot be compared with the condition: all row groups may.

    Args:
        parquet: the open file.
        file: its bytes.
        condition: the condition.
        schema: the table's schema.
    """
    every = range(parquet.num_row_groups)
    stored = _stored_as(parquet, schema)
    if isinstance(condition.test, pc.Expression):
        kinds = [schema.field(name).type for name in condition.columns]
        if not stored.keys() >= {*condition.columns} or any(map(pa.types.is_floating, kinds)):
            return None
        if isinstance(parquet, TableFile):
            return None  # Arrow's datasets know columns by the file's names
        return _by_arrow(file, condition.test, schema)
    if condition.test is None:
        return None
    groups = [_Group(parquet.metadata.row_group(number), stored) for number in every]
    return [number for number in every if can_be(condition.test, groups[number].bounds)]


def _stored_as(parquet: pq.ParquetFile | TableFile, schema: pa.Schema) -> dict[str, int]:
    """Return the flat columns that are stored in the table's type, with their numbers."""
    stored = parquet.schema_arrow
    columns = [parquet.schema.column(number) for number in range(len(parquet.schema))]
    paths = [column.path for column in columns]
    return {
        name: number
        for number, column in enumerate(columns)
        if column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and paths.count(column.path) == 1
        and (name := target_name(parquet, column.path))
        and name in schema.names
        and stored.get_field_index(name) >= 0
        and stored.field(name).type == schema.field(name).type
    }


def _by_arrow(file: RawIOBase, test: pc.Expression, schema: pa.Schema) -> Sequence[int]:
    from pyarrow import dataset  # slow to import

    fragment = dataset.ParquetFileFormat().make_fragment(pa.PythonFile(file, mode="r"))
    found = fragment.subset(filter=test, schema=schema)
    return [group.id for group in found.row_groups]


class _Group:
    """The statistics of one row group."""

    def __init__(self, group: Any, stored: dict[str, int]) -> None:
        self.group, self.stored = group, stored

    def bounds(self, name: str) -> Bounds | None:
        """Return the bounds of a column; None if there are none to rely on."""
        if name not in self.stored:
            return None
        column = self.group.column(self.stored[name])
        found = column.statistics
        if found is None:
            return None
        low, high = _values(found) if found.has_min_max else (None, None)
        return Bounds(
            low=low,
            high=high,
            nulls=found.null_count if found.has_null_count else None,
            rows=self.group.num_rows,
            nan=found.physical_type in {"FLOAT", "DOUBLE"},
        )


def _values(found: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value; None where a type's bounds are not exact."""
    logical = json.loads(found.logical_type.to_json())
    match found.physical_type, logical.get("Type"):
        case (_, "Timestamp"):
            times, parts = _UNITS[logical["timeUnit"]]
            last = -(-found.max_raw * times // parts)
            return Moment(found.min_raw * times // parts), Moment(last)
        case (_, "Date"):
            return Day(found.min_raw), Day(found.max_raw)
        case (("INT32" | "INT64"), "Int") if logical["isSigned"]:
            return found.min_raw, found.max_raw
        case (("INT32" | "INT64" | "FLOAT" | "DOUBLE" | "BOOLEAN"), "None"):
            return found.min_raw, found.max_raw
        case (_, "String") if isinstance(found.min, str) and isinstance(found.max, str):
            return found.min, found.max
    return None, None
