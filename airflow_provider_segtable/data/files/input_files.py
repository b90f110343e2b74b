"""Read a user's files: Parquet, CSV and JSON lines, by their suffixes, here or in object stores.

1. Formats without types (CSV, JSON) are read in the table's types. Their times follow one rule
   (``data.files.text_values``), however many rows have a zone. The fields of a CSV file are read as
   texts, which ``text_values`` converts; ``CsvFormat`` describes how the file is written.
2. A value that does not fit its column, or is too large for it, refuses the file by row, column
   and value.
3. If a file cannot be read, ``InvalidInput`` names the file and the reason. If an object store does
   not answer, or refuses access, it is a ``StorageError``: the same may work later.

Names of files: paths, URIs of object stores, and patterns of either.

4. ``*``, ``?`` and ``[...]`` match within one name, ``**`` any number of folders. The name of an
   existing file is not a pattern.
5. ``only_spark_reads`` recognises the files that only Spark reads: folders, ``{a,b}``, other
   formats, schemes without an adapter here, and stores that this process cannot reach.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from glob import glob
from itertools import islice
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any
from urllib.parse import quote as percent_quoted
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import fs

from airflow_provider_segtable.core.counted import numbered_row
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, StorageError
from airflow_provider_segtable.core.requests.csv_format import CsvFormat, check_separated
from airflow_provider_segtable.core.schemes import object_stores, store_of
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import ALL_TIME, HOUR_US, Instant
from airflow_provider_segtable.data.arrow_schema import storable
from airflow_provider_segtable.data.files.text_values import (
    NULL_TEXTS,
    TIME,
    BadRows,
    are_times,
    first_fault,
    shown,
    typed,
    without_nulls,
)
from airflow_provider_segtable.data.open_files import object_store
from airflow_provider_segtable.data.rows import instants

# Contents of files
LONGEST_ROW = 8 << 20
"""The most bytes of a row of a CSV file."""
FORMATS = ("parquet", "csv", "json")
_OF_A_VALUE = ("conversion error", "error parsing", "changed from", "expected a zone")
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """A user's file: a path on this machine, or a URI of an object store.

    ``given`` is the format, by default that of the suffix; ``options`` are storage options, and
    ``csv`` is how a CSV file is written.
    """

    place: str
    given: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    csv: CsvFormat = field(default_factory=CsvFormat)

    def __post_init__(self) -> None:
        """Refuse a URI of a scheme that is no object store's."""
        scheme = self.place.partition("://")[0] if self.remote else "file"
        if scheme != "file" and store_of(scheme) is None:
            known = ", ".join(f"{each}://" for each in object_stores())
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
    def form(self) -> CsvFormat:
        """Return how the file is written if it is a CSV, with its delimiter."""
        return replace(self.csv, delimiter=self.csv.separator(self.name))

    @property
    def format(self) -> str:
        """Return the given format, or that of the suffix.

        Raises:
            InvalidInput: it is not known.
        """
        suffix = PurePosixPath(self.name.removesuffix(".gz")).suffix.lower()
        found = self.given or _BY_SUFFIX.get(suffix)
        if self.given and self.given not in FORMATS:
            raise InvalidInput(
                f"{self.given!r} is not a format that is read here: give one of "
                f"{', '.join(FORMATS)}, or let Spark read the file (--engine spark)"
            )
        if found not in FORMATS:
            raise InvalidInput(
                f"{self.place} has no known format: name it *.parquet, *.csv or *.jsonl, "
                f"or give --format {'|'.join(FORMATS)}; a folder is given by its files "
                f"({self.place.rstrip('/')}/*.parquet), or read by Spark (--engine spark)"
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
        _check_lines(file)
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
        "csv": lambda: typed_texts(read_texts(file, schema), schema),
        "json": lambda: _read_json(file, schema),
    }
    kind = file.format
    with _readable(file.place):
        _check_lines(file)
        return read[kind]()


def read_fitting(
    file: InputFile, schema: pa.Schema, bad: BadRows
) -> "tuple[pa.Table, pa.Array[pa.Int64Scalar]]":
    """Return rows as ``read_rows`` does, and their numbers; CSV rows that do not fit go to ``bad``.

    Raises:
        InvalidInput: the file is missing or broken.
        SchemaMismatch: a value of another format does not fit the column's type.
    """
    if file.format != "csv":
        rows = read_rows(file, schema)
        return rows, pa.array(np.arange(rows.num_rows))
    with _readable(file.place):
        texts, numbers = bad.fitting_texts(read_texts(file, schema), schema, file.place)
        return typed_texts(texts, schema), numbers


def nulls_in_texts(file: InputFile, schema: pa.Schema) -> dict[str, list[str]]:
    """Return texts that often stand for null, each with the columns that they made texts.

    Without them, the other values of such a column are numbers or times. Only CSV files have any.

    Args:
        file: the file.
        schema: its schema, as ``schema_of`` returns it.
    """
    texts = [each.name for each in schema if pa.types.is_string(each.type)]
    if file.format != "csv" or not texts:
        return {}
    likely = tuple(sorted(NULL_TEXTS - {""}))
    again = replace(file, csv=replace(file.csv, nulls=(*file.csv.nulls, *likely)))
    with _readable(file.place):
        better = _inferred(_text(again))
        rows = pa.Table.from_batches(list(islice(_text(file), 1))).select(texts)
    found: dict[str, list[str]] = {}
    for name in texts:
        kind = better.field(name).type
        if not pa.types.is_string(kind) and not pa.types.is_null(kind):
            named = pc.unique(rows.column(name).cast(pa.string())).to_pylist()
            for text in sorted(NULL_TEXTS.intersection(filter(None, named))):
                found.setdefault(text, []).append(name)
    return found


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


def read_texts(file: InputFile, schema: pa.Schema) -> pa.Table:
    """Return the fields of a CSV file as texts, null where they are.

    Raises:
        pyarrow.ArrowInvalid: the file is broken, or not in its encoding.
        InvalidInput: another delimiter separates its columns.
    """
    used = file.csv.separator(file.name)
    names = None if file.csv.header else schema.names
    options = {"read_options": _reading(file.csv, names), "parse_options": _parsing(used)}
    with pv.open_csv(file.stream(), **options) as reader:
        found = reader.schema.names
    check_separated(found, schema.names, file.place, used)
    convert = pv.ConvertOptions(
        column_types={name: pa.string() for name in found},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    rows = pv.read_csv(file.stream(), convert_options=convert, **options)
    texts = [without_nulls(column, file.csv.nulls) for column in rows.columns]
    return pa.table(texts, names=rows.column_names)


def typed_texts(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return texts as values of a table's types; further columns stay texts.

    Raises:
        SchemaMismatch: a text is no value of its column's type.
    """
    known = {field.name: field.type for field in schema}
    names = rows.column_names
    values = [
        typed(texts, name, known[name]) if name in known else texts
        for name, texts in zip(names, rows.columns, strict=True)
    ]
    return pa.table(values, names=names)


def _reading(csv: CsvFormat, names: list[str] | None = None) -> pv.ReadOptions:
    return pv.ReadOptions(encoding=csv.encoding, column_names=names or None, block_size=LONGEST_ROW)


def _parsing(separator: str) -> pv.ParseOptions:
    return pv.ParseOptions(delimiter=separator, newlines_in_values=True)


def _text(file: InputFile) -> pa.RecordBatchReader:
    if file.format == "json":
        return pj.open_json(file.stream())
    if not file.csv.header:
        raise InvalidInput(f"{file.place} has no header, so it names no columns: give their schema")
    used = file.csv.separator(file.name)
    options = pv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=["", *file.csv.nulls],
    )
    reader = pv.open_csv(
        file.stream(),
        read_options=_reading(file.csv),
        parse_options=_parsing(used),
        convert_options=options,
    )
    check_separated(reader.schema.names, (), file.place, used)
    return reader


def _check_lines(file: InputFile) -> None:
    """Refuse a JSON file that is one array, and not one object a line."""
    if file.format != "json":
        return
    with file.stream() as opened:
        start = opened.read(1024)
    if start.lstrip().startswith(b"["):
        here = file.name if file.remote else file.place
        raise InvalidInput(
            f"{file.place} is one JSON array, and JSON lines are read, which have one object a "
            f"line: convert it, e.g. with jq -c '.[]' {quote(here)} > "
            f"{quote(str(PurePosixPath(here).with_suffix('.jsonl')))}"
        )


def _inferred(reader: pa.RecordBatchReader) -> pa.Schema:
    """Return the types of a text file's first rows, with one type for all times."""
    rows = pa.Table.from_batches(list(islice(reader, 1)), reader.schema)
    timed = (pa.types.is_timestamp(f.type) or _of_times(rows, f) for f in rows.schema)
    return pa.schema(
        [f.with_type(TIME) if is_time else f for f, is_time in zip(rows.schema, timed, strict=True)]
    )


def _of_times(rows: pa.Table, field: pa.Field) -> bool:
    return bool(pa.types.is_string(field.type)) and are_times(rows.column(field.name))


def _read_json(file: InputFile, schema: pa.Schema) -> pa.Table:
    try:
        return _json_rows(file.stream(), schema)
    except pa.ArrowInvalid:
        _refuse_json(file.stream().readall().splitlines(keepends=True), schema)
        raise


def _json_rows(stream: Any, schema: pa.Schema) -> pa.Table:
    nullable = [f.with_nullable(nullable=True) for f in schema]  # the table's check names the row
    texts = pa.schema(
        [f.with_type(pa.string()) if pa.types.is_timestamp(f.type) else f for f in nullable]
    )
    rows = pj.read_json(stream, parse_options=pj.ParseOptions(explicit_schema=texts))
    times = {f.name: f.type for f in schema if pa.types.is_timestamp(f.type)}
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if name not in times and pa.types.is_floating(column.type):
            _refuse_infinite(column, name)
        columns.append(typed(column, name, times[name]) if name in times else column)
    return pa.table(columns, names=rows.column_names)


def _refuse_infinite(values: pa.ChunkedArray, name: str) -> None:
    """Refuse infinity: JSON has none, so it is a number that is too large for the column."""
    row = pc.index(pc.is_inf(values.cast(pa.float64())), True).as_py()
    if row >= 0:
        raise SchemaMismatch(
            f"{numbered_row(row)}, column {name!r}: the number is too large for type "
            f"{values.type}: correct it, or make the column wider"
        )


def _refuse_json(lines: list[bytes], schema: pa.Schema) -> None:
    """Refuse lines of JSON by the first one that cannot be read, if it is one line's fault.

    Raises:
        SchemaMismatch: a value does not fit its column; the message has the row and the column.
    """

    def parse(some: list[bytes]) -> object:
        return _json_rows(pa.BufferReader(b"".join(some)), schema) if some else None

    lines = [line for line in lines if line.strip()]
    row = first_fault(lines, parse)
    try:
        value, written = json.loads(lines[row]), json.loads(lines[row], parse_float=str)
    except (ValueError, IndexError):
        return  # no JSON: the error of the whole file says so
    for name in schema.names if isinstance(value, dict) else ():
        try:
            parse([json.dumps({name: value.get(name)}).encode()])
        except (pa.ArrowInvalid, SchemaMismatch):
            raise SchemaMismatch(
                f"{numbered_row(row)}, column {name!r}: {shown(str(written[name]))} is not a value "
                f"of type {schema.field(name).type}: correct it, or change the column"
            ) from None


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
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{path}: {error}") from None
    except UnicodeError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error}: give its encoding (--encoding latin-1, encoding=)"
        ) from error
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise InvalidInput(
                f"{path} cannot be read: {error}: it is not UTF-8: give its encoding "
                "(--encoding latin-1, encoding=)"
            ) from error
        if any(words in str(error) for words in _OF_A_VALUE):
            raise SchemaMismatch(f"{path}: {error}: correct the value or the schema") from error
        raise InvalidInput(
            f"{path} cannot be read: {error}: check that the file is complete"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}: check the path") from error


# Names and patterns of files
_MAGIC = re.compile(r"[*?\[]")
_WILD = re.compile(r"(\*\*/|\*|\?|\[[^\]/]+\])")
_AS_REGEX = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}


def expanded(name: str, options: Mapping[str, str]) -> list[str]:
    """Return the files of a pattern, sorted; any other name, or one without files, itself."""
    if name.startswith("file://"):
        name = unquote(urlsplit(name).path)
    if not _MAGIC.search(name) or InputFile(name, options=options).is_file():
        return [name]
    found = _listed(name, options) if "://" in name else glob(name, recursive=True)  # noqa: PTH207
    return sorted(found) or [name]


def found_files(
    name: str, kind: str | None, options: Mapping[str, str], csv: CsvFormat | None = None
) -> list[InputFile]:
    """Return the files of a name or pattern that are there, sorted.

    Raises:
        InvalidInput: the URI has an unknown scheme.
        StorageError: the store cannot be reached.
    """
    form = csv or CsvFormat()
    named = (InputFile(each, kind, options, form) for each in expanded(name, options))
    return [file for file in named if file.is_file()]


def only_spark_reads(names: Sequence[str], kind: str | None, options: Mapping[str, str]) -> str:
    """Return why only Spark can read files; empty if this process can, or they are not there."""
    return next((why for name in names if (why := _why(name, kind, options))), "")


def _why(name: str, kind: str | None, options: Mapping[str, str]) -> str:
    scheme = name.partition("://")[0] if "://" in name else "file"
    if scheme != "file" and store_of(scheme) is None:
        return f"{name} has a scheme that is read by Spark only"
    try:
        if InputFile(name, options=options).is_folder():
            return f"{name} is a folder"
        named = expanded(name, options)
    except (StorageError, InvalidInput) as error:
        return f"this process cannot read it: {error}"
    if "{" in name and not any(InputFile(each, options=options).is_file() for each in named):
        return f"{name} is a pattern of Spark's"
    if all(readable(each, kind) for each in named):
        return ""
    return f"{name} is not one of {', '.join(FORMATS)}"


def readable(name: str, kind: str | None) -> bool:
    """Return whether a name, or the given format, is of a format that this process reads."""
    try:
        return bool(InputFile(name, kind).format)
    except InvalidInput:
        return False


def _listed(pattern: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the objects that match a pattern; listed below its part without wildcards."""
    start = _MAGIC.search(pattern)
    base = pattern[: start.start() if start else None].rpartition("/")[0]
    rest = pattern[len(base) + 1 :]
    if base.endswith(":/"):  # the bucket itself is a pattern
        return
    system, folder = object_store(base, options)
    wanted = _regex(rest)
    selector = fs.FileSelector(folder, recursive="/" in rest, allow_not_found=True)
    with reaching(pattern):
        there = system.get_file_info(selector)
    for each in there:
        path = each.path[len(folder) + 1 :]
        if each.type == fs.FileType.File and wanted.fullmatch(path):
            yield f"{base}/{percent_quoted(path, safe='/=:+@,')}"


def _regex(pattern: str) -> re.Pattern[str]:
    parts = (
        _AS_REGEX.get(part) or part.replace("[!", "[^")
        if _WILD.fullmatch(part)
        else re.escape(unquote(part))
        for part in _WILD.split(pattern)
    )
    return re.compile("".join(parts))
