"""Read files and streams with Spark, as rows to ingest.

1. The format is given, or follows from the suffix; a compression's suffix is ignored.
2. Text (CSV, JSON) is read in the table's own types, never guessed. Columns are found by the
   header's names, and a value that does not parse fails the ingest instead of becoming null.
3. Of CSV Spark only separates the fields, with the quotes and newlines of the local engine; tasks
   make values of them (``spark.tasks.reading``). Spark makes them itself if an option asks for
   one of its own conversions, such as ``dateFormat``. A file is read by one task, because newlines
   may be in quotes; the option ``multiLine=false`` divides it.
4. A number of JSON that is infinite in its column was too large for it, and is refused.
5. Parquet and ORC have their own types; the ingest checks whether these fit.
6. Rows to set aside are found by a pass of their own, whose results are written by the driver
   before any row is ingested (``data.files.text_values``); the rows are then read without them.
"""

import codecs
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.csv_format import CsvFormat, check_separated
from airflow_provider_segtable.data.files.text_values import (
    BadRows,
    FoundRow,
    Needed,
    is_needed,
    untimed,
)
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.spark_columns import (
    arrow_schema,
    column,
    instant,
    readable,
    spark_schema,
)
from airflow_provider_segtable.spark.tasks.reading import TextReader

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
    "csv": {
        "mode": "FAILFAST",
        "escape": '"',
        "multiLine": "true",
        "nullValue": "\x00null",  # in no file: an empty field without quotes
    },
    "json": {"mode": "FAILFAST"},
}
_OWN_CONVERSIONS = {
    *("dateformat", "timestampformat", "timestampntzformat", "timeformat", "locale", "mode"),
    *("nanvalue", "positiveinf", "negativeinf", "inferschema", "columnnameofcorruptrecord"),
}
"""Options of Spark's conversions from text."""
_CHARSETS = {
    "iso8859-1": "ISO-8859-1",
    "ascii": "US-ASCII",
    "utf-8-sig": "UTF-8",
    "utf-16-be": "UTF-16BE",
    "utf-16-le": "UTF-16LE",
}
"""Spark's names of encodings, by Python's."""


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
    csv: CsvFormat | None = None,
    bad: BadRows | None = None,
    place: str | None = None,
) -> DataFrame:
    """Return the rows of a batch source.

    Args:
        spark: the session.
        path: a file, folder or pattern that Spark can read.
        format: any of Spark's formats; by default from the suffix.
        options: Spark's options for the format; they override the defaults.
        schema: the table's schema, for text.
        csv: how a CSV file is written.
        bad: takes CSV rows that do not fit, before this function returns; then the last columns,
            ``ADDRESS``, say which row of which file each of the others is.
        place: what ``bad`` calls the source; its path by default.

    Raises:
        InvalidInput: the format is unknown, or Spark refuses the options.
        NotFound: there is nothing at the path.
    """
    csv = csv or CsvFormat()
    kind, settings = _settings(path, format, options, csv)
    with translated(f"reading {path}"):
        reader = spark.read.format(kind).options(**settings)
        if bad is not None and (schema is None or kind != "csv" or _converts(options)):
            return numbered(read_source(spark, path, format, options, schema=schema, csv=csv))
        if schema is None or kind not in _TEXT_OPTIONS:
            return reader.load(path)
        if kind == "json":
            return without_infinity(reader.schema(spark_schema(readable(schema))).load(path))
        names = _header(spark, path, settings) or schema.names
        check_separated(names, schema.names, path, settings.get("sep", ","))
        if _converts(options):
            return reader.schema(_types(schema, names)).load(path)
        texts = T.StructType([T.StructField(name, T.StringType()) for name in names])
        found = reader.schema(texts).load(path)
        if bad is None:
            return _typed(found, path, schema, csv)
        return _typed(numbered(found), path, schema, csv, bad, place or path)


ADDRESS = ("__segtable_number", "__segtable_file")
"""Columns of texts: a row's number in its file, and the file."""


def numbered(rows: DataFrame) -> DataFrame:
    """Return rows with their addresses.

    The number is null if several tasks read the rows, or they are of several files; the file is
    null if there is only one.
    """
    several = len(rows.inputFiles()) > 1
    nothing = F.lit(None).cast("string")
    alone = not several and rows.rdd.getNumPartitions() == 1
    number = F.monotonically_increasing_id().cast("string") if alone else nothing
    file = F.input_file_name() if several else nothing
    return rows.withColumns(dict(zip(ADDRESS, (number, file), strict=True)))


def complete(rows: DataFrame, needed: Needed, place: str, bad: BadRows) -> DataFrame:
    """Return numbered rows that have what they need; ``bad`` takes the others.

    Raises:
        ExecutionFailed: Spark failed.
    """
    reason, time = F.lit(None).cast("string"), needed.time
    for name in reversed([each for each in needed.columns if each in rows.columns]):
        missing = F.when(column(rows, name).isNull(), F.lit(is_needed(name)))
        reason = missing.otherwise(reason)
    if time in rows.columns and isinstance(
        rows.schema[time].dataType, T.TimestampType | T.TimestampNTZType | T.DateType
    ):
        known = instant(rows, time).isNotNull()
        reason = F.when(known, reason).otherwise(F.lit(untimed(time)))
    names = [name for name in rows.columns if name not in ADDRESS]
    shown = [
        column(rows, name).cast("string") if name == time else column(rows, name) for name in names
    ]
    with translated(f"setting rows of {place} aside"):
        lost = rows.where(reason.isNotNull()).select(*shown, *ADDRESS, reason)
        bad.add(place, (_line(row[-1], names, row[:-1]) for row in lost.toLocalIterator()))
    return rows.where(reason.isNull()).drop(*ADDRESS)


def _line(reason: str, names: list[str], row: Row) -> FoundRow:
    *values, number, file = row
    path = file and unquote(file.removeprefix("file://"))
    found = None if number is None else int(number)
    return path, found, reason, dict(zip(names, values, strict=True))


def _header(spark: SparkSession, path: str, settings: Mapping[str, str]) -> list[str]:
    """Return the names in the header of a CSV; empty if there is none."""
    if settings["header"].lower() != "true":
        return []
    return spark.read.format("csv").options(**settings).load(path).columns


def _converts(options: Mapping[str, str] | None) -> bool:
    """Return whether options ask for Spark's own conversions from text."""
    return any(name.lower() in _OWN_CONVERSIONS for name in options or ())


def _types(schema: pa.Schema, names: list[str]) -> T.StructType:
    """Return the columns of a CSV in the table's types; further ones are texts."""
    known = {field.name: field for field in spark_schema(readable(schema)).fields}
    return T.StructType([known.get(n, T.StructField(n, T.StringType())) for n in names])


def _typed(
    texts: DataFrame,
    path: str,
    schema: pa.Schema,
    csv: CsvFormat,
    bad: BadRows | None = None,
    place: str = "",
) -> DataFrame:
    """Return rows of texts as values of the table's types; those that do not fit go to ``bad``.

    Columns are numbered meanwhile: ``mapInArrow`` trips over dots and backticks.
    """
    names = texts.columns
    near = {field.name: field for field in readable(schema)}
    types = _types(schema, names)
    plain = T.StructType([T.StructField(f"c{n}", f.dataType) for n, f in enumerate(types)])
    reader = TextReader(
        place=path,
        columns={at: near[name] for at, name in enumerate(names) if name in near},
        shown=arrow_schema(plain),
        nulls=csv.nulls,
        fitting=bad is not None,
    )
    given = texts.toDF(*plain.names)
    if bad is not None:
        told = ", ".join(f"{name} string" for name in (*plain.names, "reason"))
        lost = given.mapInArrow(reader.aside, told).toLocalIterator()
        bad.add(place, (_line(row[-1], names[: -len(ADDRESS)], row[:-1]) for row in lost))
    return given.mapInArrow(reader.run, plain).toDF(*names)


def without_infinity(rows: DataFrame) -> DataFrame:
    """Return rows of JSON, which has no infinity: a number that became infinite was too large."""
    for field in rows.schema:
        if isinstance(field.dataType, T.FloatType | T.DoubleType):
            value, kind = column(rows, field.name), field.dataType.simpleString()
            text = f"column {field.name!r}: the number is too large for type {kind}: correct it"
            lost = F.raise_error(F.lit(text)).cast(field.dataType)
            huge = F.abs(value) == F.lit(float("inf"))
            rows = rows.withColumn(field.name, F.when(huge, lost).otherwise(value))
    return rows


def read_stream_source(
    spark: SparkSession,
    path: str,
    format: str | None = None,  # noqa: A002  # Spark's own word
    options: Mapping[str, str] | None = None,
    *,
    schema: pa.Schema,
    csv: CsvFormat | None = None,
) -> DataFrame:
    """Return a stream of the files that appear in a folder.

    A stream needs its types before the first file, so it uses the table's. A CSV must have the
    table's columns in the table's order; its header is checked. Durations of other than text files
    are numbers, as in ``read_source``: Spark would take any unit for microseconds.
    """
    csv = csv or CsvFormat()
    kind, settings = _settings(path, format, options, csv)
    if kind == "csv":
        settings = {"enforceSchema": "false", **settings}
    with translated(f"streaming from {path}"):
        reader = spark.readStream.format(kind).options(**settings)
        types = spark_schema(readable(schema))
        if kind == "csv" and not _converts(options):
            texts = T.StructType([T.StructField(name, T.StringType()) for name in schema.names])
            return _typed(reader.schema(texts).load(path), path, schema, csv)
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
    path: str, given: str | None, options: Mapping[str, str] | None, csv: CsvFormat
) -> tuple[str, dict[str, str]]:
    kind, implied = (given.lower(), {}) if given else format_of(path)
    form = _csv_options(csv, implied) if kind == "csv" else implied
    return kind, {**_TEXT_OPTIONS.get(kind, {}), **form, **(options or {})}


def _csv_options(csv: CsvFormat, implied: Mapping[str, str]) -> dict[str, str]:
    """Return the form of CSV files as options of Spark's reader."""
    name = codecs.lookup(csv.encoding).name
    return {
        "sep": csv.delimiter or implied.get("sep", ","),
        "encoding": _CHARSETS.get(name, name.upper()),
        "header": str(csv.header).lower(),
    }
