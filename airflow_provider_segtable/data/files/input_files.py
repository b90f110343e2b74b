"""Read a user's files: Parquet, CSV and JSON lines, by their suffixes.

1. Formats without types (CSV, JSON) are read in the table's types.
2. If a file cannot be read, ``InvalidInput`` names the file and the reason.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch

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


def file_format(path: Path, given: str | None = None) -> str:
    """Return ``given``, or the format of the suffix of ``path``."""
    name = path.name.removesuffix(".gz")
    found = given or _BY_SUFFIX.get(Path(name).suffix.lower())
    if found not in FORMATS:
        raise InvalidInput(
            f"{path} has no known format: name it *.parquet, *.csv or *.jsonl, "
            f"or give --format {'|'.join(FORMATS)}"
        )
    return found


def schema_of(path: Path, given: str | None = None) -> pa.Schema:
    """Return the schema of a file, in types that a table can store."""
    kind = file_format(path, given)
    with _readable(path):
        if kind == "parquet":
            schema = pq.read_schema(path)
        elif kind == "csv":
            schema = pc.open_csv(path).schema
        else:
            schema = pj.open_json(path).schema
    return pa.schema([_storable(field) for field in schema])


def read_rows(path: Path, schema: pa.Schema, given: str | None = None) -> pa.Table:
    """Return all rows of a file; CSV and JSON are read by ``schema``.

    Raises:
        InvalidInput: the file is missing or broken.
        SchemaMismatch: a value does not fit the column's type.
    """
    kind = file_format(path, given)
    read: dict[str, Callable[[], pa.Table]] = {
        # only the file: a folder "month=1/" in its path must not become a column
        "parquet": lambda: pq.ParquetFile(path).read(),
        "csv": lambda: _read_csv(path, schema),
        "json": lambda: _read_json(path, schema),
    }
    with _readable(path):
        return read[kind]()


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    # Arrow infers times, so that it reads them with and without zone; the table's own check then
    # casts them. With an explicit zone it would refuse times without one.
    types = {f.name: f.type for f in schema if not pa.types.is_timestamp(f.type)}
    options = pc.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return pc.read_csv(path, convert_options=options)


def _read_json(path: Path, schema: pa.Schema) -> pa.Table:
    types = pa.schema([f for f in schema if not pa.types.is_timestamp(f.type)])
    rows = pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=types))
    for at, name in enumerate(rows.column_names):
        column = rows.column(at)
        wanted = schema.field(name).type if name in schema.names else column.type
        if pa.types.is_timestamp(wanted) and pa.types.is_string(column.type):
            rows = rows.set_column(at, name, _times(column, wanted))
    return rows


def _times(texts: pa.ChunkedArray, wanted: pa.TimestampType) -> pa.ChunkedArray:
    """Parse ISO 8601 times; without a zone they are UTC."""
    try:
        return texts.cast(pa.timestamp(wanted.unit, "UTC"))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp(wanted.unit))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
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


def _storable(field: pa.Field) -> pa.Field:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, pa.string() if pa.types.is_null(kind) else kind, field.nullable)
