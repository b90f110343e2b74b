"""Read data files as files of a table's present columns, whatever schema they were written with.

Ids of the fields of files: of columns, and of the fields within lists, structs and maps.

1. Parquet has a field's id in its schema; Arrow keeps it in the field's metadata (``FIELD_ID``).
2. Fields within a column are numbered from its own id (``core.tables.field_ids``), each before
   those within it: a list's element, a struct's fields in order, a map's key and then its value.
3. Types are equal whatever ids are in them, so rows need no cast to be written with ids.

Files and the target schema:

4. The target schema knows its columns by id (``stored_columns``): each field has its id, the name
   that it has in files without ids, and its default, in the field's metadata.
5. ``opened`` compares a file's columns with the target by their ids. If they are the same in name,
   it is pyarrow's own reader: the usual case costs a look at the footer.
6. Else a ``TableFile`` reads the file: columns are renamed, dropped ones left out, missing ones
   filled with their default. Types are cast by the callers, as they do for all files.
7. Hidden columns that a kind of table has (``files_columns``) are known by their ids, too: their
   names contain names of the table's columns. All other hidden columns are known by name.

Source of the idea: Iceberg's column projection by field id.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schema import HIDDEN, Schema
from airflow_provider_segtable.core.tables.field_ids import field_ids, nested_ids
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.arrow_schema import (
    FIELD_ID,
    inner_fields,
    to_arrow,
    with_fields,
)
from airflow_provider_segtable.data.arrow_schema import FIELD_ID as ID
from airflow_provider_segtable.data.parquet.source_file import ArrowInput, parquet_file


# Ids of fields
def identified(field: "pa.Field[Any]", column_id: int) -> "pa.Field[Any]":
    """Return a column's field with its id and those within it, and no other metadata."""
    own = {FIELD_ID: str(column_id).encode()}
    ids = nested_ids(column_id)
    if not 0 < fields_within(field.type) <= len(ids):
        return field.with_metadata(own)
    return field.with_type(_numbered(field.type, iter(ids))).with_metadata(own)


def id_of(field: "pa.Field[Any]") -> int | None:
    """Return a field's id; None if it has none."""
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def all_identified(field: "pa.Field[Any]") -> bool:
    """Return whether a field and all within it have ids."""
    return id_of(field) is not None and all(map(all_identified, inner_fields(field.type)))


def fields_within(kind: pa.DataType) -> int:
    """Return the number of fields within a type, at any depth."""
    return sum(1 + fields_within(each.type) for each in inner_fields(kind))


def _numbered(kind: Any, ids: Iterator[int]) -> Any:
    fields = []
    for field in inner_fields(kind):
        own = {FIELD_ID: str(next(ids)).encode()}
        fields.append(field.with_type(_numbered(field.type, ids)).with_metadata(own))
    return with_fields(kind, fields)


# Files and the target schema
_OLD_NAME = b"segtable.old_name"
_DEFAULT = b"segtable.default"
_KNOWN = 64
"""Schemas that are kept: each file that is opened asks for one, and a table has few."""


@lru_cache(maxsize=_KNOWN)
def stored_columns(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table schema, with ids, old names and defaults."""
    fields = []
    for field, column in zip(to_arrow(schema), schema.numbered, strict=True):
        entries = {ID: str(column.id).encode(), _OLD_NAME: column.old_name.encode()}
        if column.default is not None:
            entries[_DEFAULT] = column.default.encode()
        fields.append(identified(field, column.id).with_metadata(entries))
    return pa.schema(fields)


@lru_cache(maxsize=_KNOWN)
def files_columns(schema: Schema, kind: TableKind) -> pa.Schema:
    """Return the Arrow schema of a table's files: its columns, then the hidden ones, with ids."""
    ids = field_ids(schema, kind)
    hidden = (
        field.with_metadata({ID: str(ids[field.name]).encode()})
        for field in to_arrow(Schema(kind.hidden))
    )
    return pa.schema([*stored_columns(schema), *hidden])


def with_ids(schema: pa.Schema, ids: Mapping[str, int]) -> pa.Schema:
    """Return a schema to write a file with: its fields have their ids, and no other metadata."""
    return pa.schema(
        [
            identified(field, ids[field.name]) if field.name in ids else field.remove_metadata()
            for field in schema
        ]
    )


def with_hidden_ids(schema: pa.Schema, ids: Mapping[str, int]) -> pa.Schema:
    """Return a schema whose hidden fields have their ids; the others stay."""
    return pa.schema(
        [
            field.with_metadata({ID: str(ids[field.name]).encode()})
            if field.name.startswith(HIDDEN) and field.name in ids
            else field
            for field in schema
        ]
    )


def with_own_ids(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the ids of its fields, and no other metadata."""
    return with_ids(schema, {f.name: own for f in schema if (own := id_of(f)) is not None})


def plain_columns(schema: pa.Schema) -> pa.Schema:
    """Return a schema without any metadata."""
    return pa.schema([field.remove_metadata() for field in schema])


@lru_cache(maxsize=_KNOWN)
def incoming_columns(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of rows to append: it marks columns that they may leave out.

    These are the columns that were added after the creation, so that writers which do not know
    them yet go on.
    """
    fields = (
        stored.with_metadata(
            {key: stored.metadata[key] for key in (_OLD_NAME, _DEFAULT) if key in stored.metadata}
        )
        if may_be_left_out(stored)
        else stored.remove_metadata()
        for stored in stored_columns(schema)
    )
    return pa.schema(list(fields))


def may_be_left_out(field: "pa.Field[Any]") -> bool:
    """Return whether rows may lack a column: it was added, and then has its default."""
    return (field.metadata or {}).get(_OLD_NAME) == b""


def with_words(schema: pa.Schema, words: Iterable[str]) -> pa.Schema:
    """Return a schema in which some columns have dictionaries."""
    for name in words:
        at = schema.get_field_index(name)
        kind = pa.dictionary(pa.int32(), schema.field(at).type)
        schema = schema.set(at, schema.field(at).with_type(kind))
    return schema


def default_of(field: "pa.Field[Any]") -> Any:
    """Return a column's value in rows of files that lack it."""
    text = (field.metadata or {}).get(_DEFAULT)
    if text is None:
        return pa.scalar(None, field.type)
    return pa.scalar(text.decode(), pa.string()).cast(field.type)


def file_names(stored: pa.Schema, target: pa.Schema) -> Mapping[str, str | None]:
    """Return the name of each target column in a file; None if the file lacks it."""
    hidden = [field for field in stored if field.name.startswith(HIDDEN)]
    shown = [field for field in stored if not field.name.startswith(HIDDEN)]
    places = {
        of_hidden: ({field.name for field in some}, _by_id(some))
        for of_hidden, some in ((True, hidden), (False, shown))
    }
    names: dict[str, str | None] = {}
    for field in target:
        entries = field.metadata or {}
        fields, ids = places[field.name.startswith(HIDDEN)]
        if ID not in entries:
            names[field.name] = field.name
        elif ids:
            names[field.name] = ids.get(entries[ID])
        else:
            old = entries.get(_OLD_NAME, field.name.encode()).decode()
            names[field.name] = old if old in fields else None
    return names


def _by_id(fields: Sequence["pa.Field[Any]"]) -> dict[bytes, str]:
    """Return the names of fields by their ids, as far as they have any."""
    return {f.metadata[ID]: f.name for f in fields if ID in (f.metadata or {})}


def opened(
    source: ArrowInput,
    target: pa.Schema,
    *,
    words: Sequence[str] = (),
    metadata: pq.FileMetaData | None = None,
    ahead: bool = True,
) -> "pq.ParquetFile | TableFile":
    """Open a file to read the columns of a target schema; the caller closes it.

    Args:
        source: the file, as pyarrow takes it.
        target: the columns, from ``stored_columns``, and hidden ones; without ids by name.
        words: columns to read as dictionaries, if the file has them.
        metadata: the file's metadata, if it is known.
        ahead: as in ``source_file.parquet_file``.
    """
    parquet = parquet_file(source, metadata=metadata, ahead=ahead)
    metadata = parquet.metadata
    fit = _FITS.of(metadata.schema.to_arrow_schema().remove_metadata(), target)
    names = fit.names
    have = [name for word in words if (name := names.get(word, word)) in _paths(metadata)]
    if have:
        parquet = parquet_file(source, metadata=metadata, words=have, ahead=ahead)
    return parquet if fit.same else TableFile(parquet, names, target)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How a file's columns are those of a target schema.

    Attributes:
        stored: the file's columns.
        target: the target schema.
        names: the name of each target column in the file.
        same: whether the file is read as it is.
    """

    stored: pa.Schema
    target: pa.Schema
    names: Mapping[str, str | None]
    same: bool

    @staticmethod
    def of(stored: pa.Schema, target: pa.Schema) -> "_Fit":
        """Compare a file's columns with a target schema."""
        names = file_names(stored, target)
        shown = [field.name for field in stored if not field.name.startswith(HIDDEN)]
        extra = set(shown) - {name for name in names.values() if name is not None}
        identified = any(ID in (field.metadata or {}) for field in target)
        same = not extra and all(name == given for name, given in names.items())
        return _Fit(stored, target, names, same or not identified)


@dataclass(slots=True)
class _KnownFits:
    """The comparisons that were made last: files of one table mostly have the same columns.

    A target schema is known by its identity: it stays the same object for all files of a table.
    """

    fits: tuple[_Fit, ...] = ()

    def of(self, stored: pa.Schema, target: pa.Schema) -> _Fit:
        """Return the comparison of a file's columns with a target schema."""
        for fit in self.fits:
            if fit.target is target and fit.stored.equals(stored, check_metadata=True):
                return fit
        found = _Fit.of(stored, target)
        self.fits = (found, *self.fits[: _KNOWN - 1])
        return found


_FITS = _KnownFits()


def _paths(metadata: pq.FileMetaData) -> set[str]:
    """Return the paths of a file's columns."""
    return {metadata.schema.column(number).path for number in range(metadata.num_columns)}


def target_name(parquet: "pq.ParquetFile | TableFile", path: str) -> str | None:
    """Return the target column that a file's column is; None if the target lacks it."""
    return parquet.shown_as(path) if isinstance(parquet, TableFile) else path


def repeats(chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> bool:
    """Return whether a column chunk is text or bytes of few values, all in its dictionary.

    A writer gives a dictionary up when it grows too large; the other values then take their own
    bytes, and four for their length.
    """
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)) or not chunk.has_dictionary_page:
        return False
    words = chunk.data_page_offset - (chunk.dictionary_page_offset or 0)
    few = words * 4 <= chunk.total_compressed_size
    return bool(few and chunk.total_uncompressed_size <= 4 * chunk.num_values)


def stored_as(parquet: "pq.ParquetFile | TableFile", schema: pa.Schema) -> dict[str, int]:
    """Return the flat columns that are stored in the table's type, with their numbers."""
    stored = parquet.schema_arrow
    columns = [parquet.schema.column(number) for number in range(len(parquet.schema))]
    counts, wanted = Counter(column.path for column in columns), {*schema.names}
    return {
        name: number
        for number, column in enumerate(columns)
        if column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and counts[column.path] == 1
        and (name := target_name(parquet, column.path))
        and name in wanted
        and stored.get_field_index(name) >= 0
        and stored.field(name).type == schema.field(name).type
    }


def stored_bytes(
    parquet: "pq.ParquetFile | TableFile", group: int, columns: Sequence[str]
) -> tuple[int, int]:
    """Return the stored bytes of a row group, and of some of its columns."""
    names = parquet.stored(columns) if isinstance(parquet, TableFile) else columns
    within = tuple(f"{name}." for name in names)
    every = wanted = 0
    found = parquet.metadata.row_group(group)
    for number in range(found.num_columns):
        column = found.column(number)
        every += column.total_compressed_size
        if column.path_in_schema in names or column.path_in_schema.startswith(within):
            wanted += column.total_compressed_size
    return every, wanted


def column_ranges(
    parquet: "pq.ParquetFile | TableFile", groups: Sequence[int], columns: Sequence[str]
) -> list[tuple[int, int]]:
    """Return where a file has the column chunks of some columns, in some row groups."""
    names = parquet.stored(columns) if isinstance(parquet, TableFile) else columns
    within = tuple(f"{name}." for name in names)
    ranges = []
    for group in groups:
        found = parquet.metadata.row_group(group)
        for number in range(found.num_columns):
            column = found.column(number)
            path = column.path_in_schema
            if path in names or path.startswith(within):
                data, dictionary = column.data_page_offset, column.dictionary_page_offset
                start = dictionary if dictionary and dictionary < data else data
                ranges.append((start, start + column.total_compressed_size))
    return ranges


class TableFile:
    """A file of another schema, with the part of ``pq.ParquetFile`` that readers use."""

    def __init__(
        self, parquet: pq.ParquetFile, names: Mapping[str, str | None], target: pa.Schema
    ) -> None:
        """Read ``parquet`` by ``names``: the file's name of each target column."""
        self._parquet = parquet
        hidden = [n for n in parquet.schema_arrow.names if n.startswith(HIDDEN)]
        self._names = {**{name: name for name in hidden}, **names}
        self._target = target
        self._shown = {stored: name for name, stored in self._names.items() if stored is not None}
        self.metadata = parquet.metadata
        self.schema = parquet.schema
        self.num_row_groups: int = parquet.num_row_groups

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._parquet.close()

    def over(self, parquet: pq.ParquetFile) -> "TableFile":
        """Return a reader of the same columns of a file with the same schema."""
        return TableFile(parquet, self._names, self._target)

    def shown_as(self, path: str) -> str | None:
        """Return the target's name of a file's column; None if the target lacks it."""
        return self._shown.get(path)

    @property
    def schema_arrow(self) -> pa.Schema:
        """Return the file's columns that the target has, under the target's names."""
        stored = self._parquet.schema_arrow
        there = {*stored.names}
        return pa.schema(
            [stored.field(old).with_name(name) for old, name in self._shown.items() if old in there]
        )

    def iter_batches(
        self, *args: Any, columns: Sequence[str] | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the target's columns."""
        wanted = self._wanted(columns)
        for batch in self._parquet.iter_batches(*args, columns=self._read(wanted), **options):
            yield self._made(batch, wanted, pa.RecordBatch.from_arrays)

    def read_row_group(self, number: int, **options: Any) -> pa.Table:
        """Return the rows of a row group in the target's columns."""
        return self.read_row_groups([number], **options)

    def read_row_groups(
        self, numbers: Sequence[int], *, columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        """Return the rows of row groups in the target's columns."""
        wanted = self._wanted(columns)
        rows = self._parquet.read_row_groups(list(numbers), columns=self._read(wanted), **options)
        return self._made(rows, wanted, pa.Table.from_arrays)

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        if columns is not None:
            return list(columns)
        present = {*self._parquet.schema_arrow.names}
        shown = [n for n in self._target.names if not n.startswith(HIDDEN)]
        return [*shown, *(n for n in self._names if n.startswith(HIDDEN) and n in present)]

    def stored(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of some columns in the file, as far as it has them."""
        found = (self._names.get(name, name) for name in wanted)
        return [stored for stored in found if stored is not None]

    def _read(self, wanted: Sequence[str]) -> list[str] | None:
        """Return the columns to read; all if one has no name, by which pyarrow could find it."""
        names = self.stored(wanted)
        return None if "" in names else names

    def _made(self, rows: Any, wanted: Sequence[str], build: Callable[..., Any]) -> Any:
        if not wanted:
            return rows
        arrays = [self._column(rows, name) for name in wanted]
        return build(arrays, names=list(wanted))

    def _column(self, rows: Any, name: str) -> Any:
        stored = self._names.get(name, name)
        if stored is not None:
            return rows.column(stored)
        return pa.repeat(default_of(self._target.field(name)), rows.num_rows)
