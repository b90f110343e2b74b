"""Read data files by Spark's own Parquet reader, without some of their rows.

1. The log has path and size of each file, so Spark lists nothing (``SegtableReader.java``).
2. Rows are left out by their numbers in a file. Their bits are one array in the plan of the scan;
   a constant column of each file has the number of its first bit. Nothing is joined, and no task
   of its own is started: columns are pruned and filters reach the reader as without such rows.
3. More bits than ``MOST_WORDS`` would be too much for each task to receive. They are broadcast,
   once to each executor, and joined by a number of the file (``row_bitmaps``).
4. Place and number name a row where its file has no addresses (``dataframe_scan``).
5. A Spark whose inner interfaces differ cannot load the class. Then tasks read the same rows with
   pyarrow, more slowly, and the plan says why (``native_fault``).
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment
from airflow_provider_segtable.data.row_filter import Flags
from airflow_provider_segtable.spark.driver.file_locations import (
    file_locations,
    parquet_options,
    place,
)
from airflow_provider_segtable.spark.driver.java_classes import java_class
from airflow_provider_segtable.spark.reads.row_bitmaps import Words, unmarked_numbers
from airflow_provider_segtable.spark.spark_columns import column
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

MOST_WORDS = 4 << 20
"""Most words of 64 bits that a plan has: 32 MiB, for 268 million rows of files with marks."""

Marks: TypeAlias = Sequence[Flags]
"""Flags of the rows of each file: those to leave out."""

_CLASS = "segtable.SegtableReader"
_LOG = logging.getLogger(__name__)
_FIRST = "__segtable_first"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRead:
    """A read of files by Spark's own reader.

    Attributes:
        spark: the session.
        ports: the table's ports.
        schema: the columns to read, under their names in the files.
        checked: compare pages with Parquet's checksums.
        placed: add the columns ``ROOT`` (the place of the file) and ``ROW`` (the number in it).
        most: the most words of marks in a plan.
    """

    spark: SparkSession
    ports: TableContext
    schema: T.StructType
    checked: bool
    placed: bool = False
    most: int = MOST_WORDS

    def rows(self, segments: Sequence[Segment], marks: Marks = ()) -> DataFrame:
        """Return the rows of files, without marked ones; marks are those of all files, or none.

        Raises:
            InvalidName: Spark has no reader for the table's URI.
            UnsafePath: a symbolic link is in the way of a local file.
            ExecutionFailed: this Spark's interfaces differ.
        """
        words = [_padded(flags) for flags in marks]
        joined = sum(map(len, words)) > self.most
        frame = self._read(segments, words, joined=joined)
        if joined:
            bits = dict(enumerate(words))
            frame = unmarked_numbers(frame, bits, _FIRST, self._reader.row_number)
        return self._shown(frame) if joined or self.placed else frame

    def _shown(self, frame: DataFrame) -> DataFrame:
        """Return the requested columns of a frame."""
        columns = [column(frame, name) for name in self.schema.names]
        if self.placed:
            columns += [column(frame, ROOT), column(frame, self._reader.row_number).alias(ROW)]
        return frame.select(columns)

    def _read(
        self, segments: Sequence[Segment], words: Sequence[Words], *, joined: bool
    ) -> DataFrame:
        reader, numbered = self._reader, bool(words) or self.placed
        number = [T.StructField(reader.row_number, T.LongType())] if numbered else []
        firsts: Iterable[int] = range(len(words)) if joined else _firsts(words)
        constants = [T.StructField(_FIRST, T.LongType(), nullable=False)] if words else []
        if self.placed:
            constants.append(T.StructField(ROOT, T.StringType(), nullable=False))
        request = {
            "options": parquet_options(checked=self.checked),
            "schema": T.StructType([*self.schema.fields, *number]).jsonValue(),
            "constants": T.StructType(constants).jsonValue(),
            "files": [*self._files(segments, firsts if words else None)],
            "first": _FIRST,
            "columns": self._columns,
        }
        marks = None if joined or not words else np.concatenate(words).astype("<i8").tobytes()
        session = self.spark._jsparkSession  # noqa: SLF001  # there is no other way
        return DataFrame(reader.java.read(session, json.dumps(request), marks), self.spark)

    def _files(
        self, segments: Sequence[Segment], firsts: Iterable[int] | None
    ) -> Iterator[list[Any]]:
        """Yield path, size and constants of each file."""
        paths = file_locations(self.ports.uri, self.ports.storage_options, segments)
        numbers = iter(firsts) if firsts is not None else None
        for segment, path in zip(segments, paths, strict=True):
            first = [] if numbers is None else [next(numbers)]
            where = [place(segment.path)] if self.placed else []
            yield [path, segment.size, [*first, *where]]

    @property
    def _columns(self) -> list[str]:
        """Return the names of the columns that rows without marked ones keep."""
        return [*self.schema.names, *((ROOT, self._reader.row_number) if self.placed else ())]

    @property
    def _reader(self) -> "JavaReader":
        return java_reader(self.spark.sparkContext)


@dataclass(frozen=True, slots=True)
class JavaReader:
    """The reader in Java, and the column by which it numbers the rows of a file."""

    java: "JavaObject"
    row_number: str


def native_fault(spark: SparkSession) -> str:
    """Return why Spark's own reader cannot read named files in a session; empty if it can."""
    found = _loaded(spark.sparkContext)
    return found if isinstance(found, str) else ""


def java_reader(context: SparkContext) -> JavaReader:
    """Return the reader of a driver; the first call compiles it.

    Raises:
        ExecutionFailed: this Spark's interfaces differ.
    """
    found = _loaded(context)
    if isinstance(found, str):
        raise ExecutionFailed(f"{found}: read the table by format('segtable') or scan")
    return found


@lru_cache(maxsize=1)
def _loaded(context: SparkContext) -> JavaReader | str:
    """Return the reader of a driver, or why it cannot be loaded."""
    source = package_files(__package__) / "SegtableReader.java"
    try:
        java = java_class(context, _CLASS, source).newInstance()
        return JavaReader(java, java.rowNumber())
    except Py4JError as error:
        reason = str(getattr(error, "java_exception", error)).partition("\n")[0]
        _LOG.warning("Spark %s cannot load %s: %s", context.version, _CLASS, reason)
        return (
            f"because Spark {context.version} has other interfaces than its own reader needs "
            f"for named files ({reason})"
        )


def _padded(flags: Flags) -> Words:
    """Return flags as words of 64 bits, least first."""
    packed = np.packbits(flags, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view("<i8")


def _firsts(words: Iterable[Words]) -> Iterator[int]:
    """Yield the number of the first bit of each file."""
    first = 0
    for some in words:
        yield first
        first += 64 * len(some)
