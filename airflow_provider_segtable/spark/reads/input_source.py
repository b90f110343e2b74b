"""Read files and streams with Spark, as rows to ingest.

1. The format is given, or follows from the suffix; a compression's suffix is ignored.
2. Text (CSV, JSON) is read in the table's own types, never guessed. Columns are found by the
   header's names, and a value that does not parse fails the ingest instead of becoming null.
3. Parquet and ORC have their own types; the ingest checks whether these fit.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema

_COMPRESSIONS = {".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate"}
_SUFFIXES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    ".parquet": ("parquet", {}),
    ".pq": ("parquet", {}),
    ".orc": ("orc", {}),
    ".avro": ("avro", {}),
    ".csv": ("csv", {}),
    ".tsv": ("csv", {"sep": "\t"}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
}
_TEXT_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}


def format_of(path: str) -> tuple[str, Mapping[str, str]]:
    """Return the format of a path's suffix, and its options.

    Raises:
        InvalidInput: if the suffix is unknown.
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(path.rstrip("/")).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise InvalidInput(
            f"the suffix of {path!r} is not a known format: give one (--format csv, json, parquet, "
            f"orc, ...), or use one of {', '.join(_SUFFIXES)}"
        )
    return _SUFFIXES[suffixes[-1]]


def read_source(
    spark: SparkSession,
    path: str,
    format: str | None = None,  # noqa: A002  # Spark's own word
    options: Mapping[str, str] | None = None,
    *,
    schema: pa.Schema | None = None,
) -> DataFrame:
    """Return the rows of a batch source.

    Args:
        spark: the session.
        path: a file, folder or pattern that Spark can read.
        format: any of Spark's formats; by default from the suffix.
        options: Spark's options for the format; they override the defaults.
        schema: the table's schema, for text.

    Raises:
        InvalidInput: the format is unknown, or Spark refuses the options.
        NotFound: there is nothing at the path.
    """
    kind, settings = _settings(path, format, options)
    with translated(f"reading {path}"):
        types = _types(spark, path, kind, settings, schema)
        reader = spark.read.format(kind).options(**settings)
        return (reader.schema(types) if types else reader).load(path)


def read_stream_source(
    spark: SparkSession,
    path: str,
    format: str | None = None,  # noqa: A002  # Spark's own word
    options: Mapping[str, str] | None = None,
    *,
    schema: pa.Schema,
) -> DataFrame:
    """Return a stream of the files that appear in a folder.

    A stream needs its types before the first file, so it uses the table's. A CSV must have the
    table's columns in the table's order; its header is checked. Durations of other than text files
    are numbers, as in ``read_source``: Spark would take any unit for microseconds.
    """
    kind, settings = _settings(path, format, options)
    if kind == "csv":
        settings = {"enforceSchema": "false", **settings}
    with translated(f"streaming from {path}"):
        reader = spark.readStream.format(kind).options(**settings)
        types = spark_schema(readable(schema))
        return reader.schema(types if kind in _TEXT_OPTIONS else _numbered(types)).load(path)


def _numbered(kind: Any) -> Any:
    """Return a type with whole numbers in place of durations, at any depth."""
    match kind:
        case T.DayTimeIntervalType():
            return T.LongType()
        case T.StructType():
            inside = [(each.name, _numbered(each.dataType)) for each in kind]
            return T.StructType([T.StructField(name, each) for name, each in inside])
        case T.ArrayType():
            return T.ArrayType(_numbered(kind.elementType))
        case T.MapType():
            return T.MapType(_numbered(kind.keyType), _numbered(kind.valueType))
    return kind


def _settings(
    path: str, given: str | None, options: Mapping[str, str] | None
) -> tuple[str, dict[str, str]]:
    kind, implied = (given.lower(), {}) if given else format_of(path)
    return kind, {**_TEXT_OPTIONS.get(kind, {}), **implied, **(options or {})}


def _types(
    spark: SparkSession,
    path: str,
    kind: str,
    settings: Mapping[str, str],
    schema: pa.Schema | None,
) -> T.StructType | None:
    if schema is None or kind not in _TEXT_OPTIONS:
        return None
    table = spark_schema(readable(schema))
    if kind == "json" or settings.get("header", "").lower() != "true":
        return table
    header = spark.read.format("csv").options(**settings).load(path).columns
    known = {field.name: field for field in table.fields}
    return T.StructType([known.get(n, T.StructField(n, T.StringType())) for n in header])
