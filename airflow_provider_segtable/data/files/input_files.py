"""Read a user's files: Parquet, CSV and JSON lines, by their suffixes, here or in object stores.

1. Formats without types (CSV, JSON) are read in the table's types. Their times follow one rule
   (``data.arrow.text_times``), however many rows have a zone.
2. If a file cannot be read, ``InvalidInput`` names the file and the reason. If an object store does
   not answer, or refuses access, it is a ``StorageError``: the same may work later.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import fs

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, StorageError
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time.interval import ALL_TIME, HOUR_US, Instant
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.arrow.storable_types import storable
from airflow_provider_segtable.data.arrow.text_times import TIME, are_times, parsed_times
from airflow_provider_segtable.data.files.filesystems import STORES, object_store

FORMATS = ("parquet", "csv", "json")
_OF_A_VALUE = ("conversion error", "error parsing", "changed from", "expected a zone")
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """A user's file: a path on this machine, or a URI of an object store.

    ``given`` is the format, by default that of the suffix; ``options`` are storage options.
    """

    place: str
    given: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse a URI of a scheme that is no object store's."""
        scheme = self.place.partition("://")[0] if self.remote else "file"
        if scheme not in ("file", *STORES):
            known = ", ".join(f"{each}://" for each in STORES)
            raise InvalidInput(f"{self.place!r} has an unknown scheme: use a path, or {known}")

    @property
    def remote(self) -> bool:
        """Return whether it is a URI."""
        return "://" in self.place

    @property
    def name(self) -> str:
        """Return its name, without folders."""
        return PurePosixPath(self.place).name

    @property
    def format(self) -> str:
        """Return the given format, or that of the suffix.

        Raises:
            InvalidInput: it is not known.
        """
        suffix = PurePosixPath(self.name.removesuffix(".gz")).suffix.lower()
        found = self.given or _BY_SUFFIX.get(suffix)
        if found not in FORMATS:
            raise InvalidInput(
                f"{self.place} has no known format: name it *.parquet, *.csv or *.jsonl, "
                f"or give --format {'|'.join(FORMATS)}"
            )
        return found

    def size(self) -> int:
        """Return its bytes; 0 if there is no such file."""
        return self._there().size or 0

    def is_file(self) -> bool:
        """Return whether it is there, as a file or an object."""
        return bool(self._there().type == fs.FileType.File)

    def is_folder(self) -> bool:
        """Return whether it is a folder, or other objects' names begin with it."""
        return bool(self._there().type == fs.FileType.Directory)

    def seekable(self) -> pa.NativeFile:
        """Open it for random access."""
        system, path = self._opened()
        return system.open_input_file(path)

    def stream(self) -> pa.NativeFile:
        """Open it to be read from its start, decompressed by its suffix."""
        system, path = self._opened()
        return system.open_input_stream(path, compression="detect")

    def _there(self) -> fs.FileInfo:
        system, path = self._opened()
        with _readable(self.place):
            return system.get_file_info(path)

    def _opened(self) -> tuple[fs.FileSystem, str]:
        if not self.remote:
            return fs.LocalFileSystem(), str(Path(self.place).absolute())
        if self.place.startswith("file://"):
            return fs.LocalFileSystem(), unquote(urlsplit(self.place).path)
        return object_store(self.place, self.options)


def schema_of(file: InputFile) -> pa.Schema:
    """Return the schema of a file, in types that a table can store."""
    kind = file.format
    with _readable(file.place):
        schema = pq.read_schema(file.seekable()) if kind == "parquet" else _inferred(_text(file))
    return pa.schema([storable(each) for each in schema])


def read_rows(file: InputFile, schema: pa.Schema) -> pa.Table:
    """Return all rows of a file; CSV and JSON are read by ``schema``.

    Raises:
        InvalidInput: the file is missing or broken.
        SchemaMismatch: a value does not fit the column's type.
    """
    read: dict[str, Callable[[], pa.Table]] = {
        # only the file: a folder "month=1/" in its path must not become a column
        "parquet": lambda: pq.ParquetFile(file.seekable()).read(),
        "csv": lambda: _read_csv(file.stream(), schema),
        "json": lambda: _read_json(file.stream(), schema),
    }
    kind = file.format
    with _readable(file.place):
        return read[kind]()


def event_times(file: InputFile, time_column: str) -> list[Instant] | None:
    """Return the hours of a Parquet file's event times, each once; None for other formats.

    Text files would have to be read whole.
    """
    if file.format != "parquet":
        return None
    with _readable(file.place):
        found = pq.ParquetFile(file.seekable()).read(columns=[time_column]).column(0)
    known = instants(found.drop_null()).to_numpy(zero_copy_only=False)
    inside = known[(known >= ALL_TIME.start) & (known < ALL_TIME.end)]
    return [int(hour) * HOUR_US for hour in np.unique(inside // HOUR_US)]


def _text(file: InputFile) -> pa.RecordBatchReader:
    if file.format == "csv":
        options = pc.ConvertOptions(strings_can_be_null=True)
        return pc.open_csv(file.stream(), convert_options=options)
    return pj.open_json(file.stream())


def _inferred(reader: pa.RecordBatchReader) -> pa.Schema:
    """Return the types of a text file's first rows, with one type for all times."""
    rows = pa.Table.from_batches(list(islice(reader, 1)), reader.schema)
    timed = (pa.types.is_timestamp(f.type) or _of_times(rows, f) for f in rows.schema)
    return pa.schema(
        [f.with_type(TIME) if is_time else f for f, is_time in zip(rows.schema, timed, strict=True)]
    )


def _of_times(rows: pa.Table, field: pa.Field) -> bool:
    return bool(pa.types.is_string(field.type)) and are_times(rows.column(field.name))


def _read_csv(stream: pa.NativeFile, schema: pa.Schema) -> pa.Table:
    options = pc.ConvertOptions(
        column_types=_as_text(schema), strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return _timed(pc.read_csv(stream, convert_options=options), schema)


def _read_json(stream: pa.NativeFile, schema: pa.Schema) -> pa.Table:
    options = pj.ParseOptions(explicit_schema=_as_text(schema))
    return _timed(pj.read_json(stream, parse_options=options), schema)


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Return the types that Arrow reads a text file in: times as texts."""
    return pa.schema(
        [f.with_type(pa.string()) if pa.types.is_timestamp(f.type) else f for f in schema]
    )


def _timed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of a text file with their times parsed."""
    for at, name in enumerate(rows.column_names):
        wanted = schema.field(name).type if name in schema.names else None
        if wanted is not None and pa.types.is_timestamp(wanted):
            rows = rows.set_column(at, name, parsed_times(rows.column(at), wanted.unit))
    return rows


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Translate errors of an object store that does not answer, or refuses access."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if "://" not in place:
            raise
        raise StorageError(
            f"{place} cannot be reached: {redacted(str(error))}: check the storage options, and "
            "try again"
        ) from error


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        with reaching(path):
            yield
    except pa.ArrowInvalid as error:
        if any(words in str(error) for words in _OF_A_VALUE):
            raise SchemaMismatch(f"{path}: {error}: correct the value or the schema") from error
        raise InvalidInput(
            f"{path} cannot be read: {error}: check that the file is complete"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}: check the path") from error
