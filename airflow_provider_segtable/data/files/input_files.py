"""Read a user's files: Parquet, CSV and JSON lines, by their suffixes.

1. Formats without types (CSV, JSON) are read in the table's types. Their times follow one rule
   (``data.arrow.text_times``), however many rows have a zone.
2. If a file cannot be read, ``InvalidInput`` names the file and the reason.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.arrow.storable_types import storable
from airflow_provider_segtable.data.arrow.text_times import TIME, are_times, parsed_times

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
        schema = pq.read_schema(path) if kind == "parquet" else _inferred(_opened(path, kind))
    return pa.schema([storable(field) for field in schema])


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


def _opened(path: Path, kind: str) -> pa.RecordBatchReader:
    if kind == "csv":
        return pc.open_csv(path, convert_options=pc.ConvertOptions(strings_can_be_null=True))
    return pj.open_json(path)


def _inferred(reader: pa.RecordBatchReader) -> pa.Schema:
    """Return the types of a text file's first rows, with one type for all times."""
    rows = pa.Table.from_batches(list(islice(reader, 1)), reader.schema)
    timed = (pa.types.is_timestamp(f.type) or _of_times(rows, f) for f in rows.schema)
    return pa.schema(
        [f.with_type(TIME) if is_time else f for f, is_time in zip(rows.schema, timed, strict=True)]
    )


def _of_times(rows: pa.Table, field: pa.Field) -> bool:
    return bool(pa.types.is_string(field.type)) and are_times(rows.column(field.name))


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    options = pc.ConvertOptions(
        column_types=_as_text(schema), strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return _timed(pc.read_csv(path, convert_options=options), schema)


def _read_json(path: Path, schema: pa.Schema) -> pa.Table:
    options = pj.ParseOptions(explicit_schema=_as_text(schema))
    return _timed(pj.read_json(path, parse_options=options), schema)


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
