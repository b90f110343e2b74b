"""What the footers of data files tell of their columns, for the statistics of other formats.

1. Only footers are read, those of many files at once, and compared with their checksums.
2. Columns go by the ids of the schema that the file was written with. Nested columns have a size,
   and nothing else.
3. A bound is true of every row of the file, hidden ones too: the least of the row groups' lower
   bounds, the greatest of the upper ones. If a row group with values has none, the file has none.
4. Parquet's bounds leave out NaN, and nothing tells whether a floating column has any
   (``ColumnFacts.nan``).
5. A bound of text that is cut inside of a character is left out. A type whose order or unit is not
   certain has no bounds (96-bit times, half floats, intervals).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.publishing.file_facts import ColumnFacts, FileFacts
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.tables.schema import Schema
from airflow_provider_segtable.data.arrow.arrow_schema import FIELD_ID
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.parquet.segment_scan import SourceFile
from airflow_provider_segtable.data.parquet.table_file import file_names, stored_columns
from airflow_provider_segtable.ports.files import DataFiles

THREADS = 8

_Bounds: TypeAlias = Callable[[Any], tuple[Any, Any]]
_UNITS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}


def facts_of(
    files: DataFiles, table: TableCreated, segments: Iterable[Segment]
) -> dict[str, FileFacts]:
    """Return the facts of the files of segments, by path.

    Raises:
        NotFound, CorruptTable: a file is missing or broken.
    """
    given = tuple(segments)
    if len(given) < 2:
        return {each.path: file_facts(files, table, each) for each in given}
    with ThreadPoolExecutor(min(THREADS, len(given))) as pool:
        found = pool.map(lambda each: file_facts(files, table, each), given)
        return {each.path: facts for each, facts in zip(given, found, strict=True)}


def file_facts(files: DataFiles, table: TableCreated, segment: Segment) -> FileFacts:
    """Return the facts of a segment's file; errors as ``facts_of``."""
    try:
        with SegmentFiles(files, [segment]).open(segment.path) as source:
            metadata = pq.read_metadata(SourceFile(source))
        return _facts(metadata, table.schema_of(segment.schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptTable(
            f"the footer of {segment.path} cannot be read ({error}): restore the file"
        ) from error


def _facts(metadata: pq.FileMetaData, schema: Schema) -> FileFacts:
    stored = metadata.schema.to_arrow_schema()
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    names = file_names(stored, stored_columns(schema))
    ids = {names[column.name]: column.id for column in schema.numbered}
    ends = accumulate((_leaves(field.type) for field in stored), initial=0)
    return FileFacts(
        columns={
            ids[field.name]: _column(metadata, groups, range(*span), nested=_is_nested(field.type))
            for field, span in zip(stored, pairwise(ends), strict=True)
            if field.name in ids
        },
        numbered=all(map(_is_numbered, stored)),
        split_offsets=tuple(sorted(_start(group.column(0)) for group in groups)),
    )


def _column(
    metadata: pq.FileMetaData, groups: list[Any], leaves: range, *, nested: bool
) -> ColumnFacts:
    """Return the facts of the column that has these leaves."""
    chunks = [[group.column(leaf) for leaf in leaves] for group in groups]
    size = sum(chunk.total_compressed_size for some in chunks for chunk in some)
    if nested:
        return ColumnFacts(size=size)
    statistics = [(chunk.statistics, chunk.num_values) for (chunk,) in chunks]
    stored = metadata.schema.column(leaves.start)
    low, high = _range(statistics, _bounds_of(stored))
    return ColumnFacts(
        low=low,
        high=high,
        nulls=_nulls(found for found, _ in statistics),
        size=size,
        nan=stored.physical_type in {"FLOAT", "DOUBLE"} or stored.logical_type.type == "FLOAT16",
    )


def _nulls(statistics: Iterable[Any]) -> int | None:
    total = 0
    for found in statistics:
        if not (found and found.has_null_count):
            return None
        total += found.null_count
    return total


def _range(statistics: Iterable[tuple[Any, int]], bounds: _Bounds | None) -> tuple[Any, Any]:
    """Return the bounds of all row groups; None if one with values has none."""
    if bounds is None:
        return None, None
    found = [
        bounds(s) if s and s.has_min_max else (None, None)
        for s, rows in statistics
        if not (s and s.has_null_count and s.null_count == rows)
    ]
    return _outmost([low for low, _ in found], min), _outmost([high for _, high in found], max)


def _outmost(bounds: list[Any], of: Callable[[list[Any]], Any]) -> Any:
    return of(bounds) if bounds and None not in bounds else None


def _bounds_of(column: Any) -> _Bounds | None:
    """Return what reads the bounds of a column's statistics; None if it has none to rely on."""
    match column.logical_type.type, column.physical_type:
        case ("TIMESTAMP" | "TIME", _):
            times, parts = _UNITS[json.loads(column.logical_type.to_json())["timeUnit"]]
            return lambda s: (s.min_raw * times // parts, -(-s.max_raw * times // parts))
        case ("DATE", _):
            return lambda s: (s.min_raw, s.max_raw)
        case ("STRING", _):
            return lambda s: (_text(s.min_raw), _text(s.max_raw))
        case (_, "INT96"):
            return None
        case ("INT" | "DECIMAL" | "NONE", _):
            return lambda s: (s.min, s.max)
    return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _start(chunk: Any) -> int:
    """Return where a column chunk begins: at its dictionary, if it has one."""
    first = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not first else min(first, chunk.data_page_offset))


def _inside(kind: pa.DataType) -> Iterator["pa.Field[Any]"]:
    """Yield the fields inside of a nested type."""
    if pa.types.is_map(kind):
        yield from (kind.key_field, kind.item_field)
    elif pa.types.is_struct(kind):
        yield from kind
    elif _is_nested(kind):
        yield kind.value_field


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _leaves(kind: pa.DataType) -> int:
    """Return the number of columns that a type is stored in."""
    return sum(_leaves(field.type) for field in _inside(kind)) if _is_nested(kind) else 1


def _is_numbered(field: "pa.Field[Any]") -> bool:
    """Return whether a field and all inside of it have ids."""
    return FIELD_ID in (field.metadata or {}) and all(map(_is_numbered, _inside(field.type)))
