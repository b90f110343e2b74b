"""Merge on Spark: join a source to a table once, for deleted and for appended rows.

1. The source is evaluated once, however often conflicts repeat the merge. Its rows are numbered.
2. It is joined to a snapshot's rows with their addresses, and the matches are evaluated once, too.
   A source row is unmatched if its number is missing from the matches. It is inserted with the
   defaults of columns that it lacks.

SQL expressions as new values of columns:

3. A value of another type is cast by SQL's store assignment. If the cast changes the value, the
   running change fails, whatever ``spark.sql.ansi.enabled`` is. Floating columns take the nearest
   number.
4. Columns that Spark cannot hold exactly (nanoseconds) and that are not set are carried along as
   copies (``tasks.reading``). What an expression computes from them has microseconds.

Millions of row addresses from Spark, as bitmaps for the log:

5. Each partition becomes one row per root (``tasks.writing``); the driver unites them.
6. A scan names rows of traced segments by place. The driver turns places into root addresses by
   the runs of the segment with that file.
7. Addresses given by a caller are looked up in the snapshot: addresses of deleted or unknown rows
   are left out.
"""

from array import array
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, reduce
from operator import and_

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    SchemaMismatch,
    SegtableError,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import Matched, Merge, Sql, Unmatched
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import AnyChunk, Timeline
from airflow_provider_segtable.data.parquet.table_file import default_of
from airflow_provider_segtable.data.row_filter import flags_of
from airflow_provider_segtable.data.vector_file import Rows
from airflow_provider_segtable.spark.driver.file_locations import place
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import addresses, rows_to_change
from airflow_provider_segtable.spark.reads.row_bitmaps import Words, marked, words_of
from airflow_provider_segtable.spark.spark_columns import column, readable, spark_schema
from airflow_provider_segtable.spark.tasks.reading import PREFIX, copied, inexact
from airflow_provider_segtable.spark.tasks.writing import PACKED, packed
from airflow_provider_segtable.table.changes.row_change import Selected
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot

_EXACT = (T.IntegralType, T.DecimalType)


# New values of columns
def expression(name: str, value: object) -> Column:
    """Return the new value of a column as a Spark expression.

    Raises:
        InvalidInput: it is no SQL text.
    """
    if not isinstance(value, Sql):
        raise InvalidInput(f"{name} = {value!r} is not SQL text: use Table.update for plain values")
    return F.expr(value.text)


def carried(schema: pa.Schema, given: Collection[str]) -> tuple[str, ...]:
    """Return the columns that are not set, and that Spark cannot hold exactly."""
    return tuple(each.name for each in schema if each.name not in given and inexact(each))


def assigned(frame: DataFrame, values: Mapping[str, Column], schema: pa.Schema) -> list[Column]:
    """Return the new values by column, cast to the types of the table's columns.

    Raises:
        SchemaMismatch: a value cannot become its column's type.
    """
    types = spark_schema(readable(pa.schema([schema.field(name) for name in values])))
    found = frame.select(*(value.alias(name) for name, value in values.items())).schema
    return [
        _stored(value, now.dataType, kind).alias(name)
        for (name, value), now, kind in zip(
            values.items(), found.fields, (field for field in types.fields), strict=True
        )
    ]


def _stored(value: Column, now: T.DataType, field: T.StructField) -> Column:
    kind = field.dataType
    if now == kind:
        return value
    if isinstance(now, T.NullType):
        return value.cast(kind)
    if isinstance(kind, T.NumericType) != isinstance(now, T.NumericType) or (
        isinstance(kind, T.ArrayType | T.MapType | T.StructType | T.BinaryType | T.BooleanType)
    ):
        raise SchemaMismatch(
            f"column {field.name!r} is {kind.simpleString()} and cannot be set to "
            f"{now.simpleString()}: cast it"
        )
    cast = value.try_cast(kind)
    lost = cast.isNull()
    if isinstance(kind, _EXACT):
        lost = lost | (cast != value)
    message = F.concat(
        F.lit(f"column {field.name} is {kind.simpleString()} and cannot hold "),
        value.cast("string"),
    )
    return F.when(value.isNotNull() & lost, F.raise_error(message).cast(kind)).otherwise(cast)


MOST_ROWS = 1 << 32


# Row addresses as bitmaps
@dataclass(frozen=True, slots=True)
class Collected:
    """The rows that a frame names, by root; ``named`` counts duplicates too."""

    rows: Rows
    named: int

    @property
    def matched(self) -> int:
        """Return the number of distinct rows."""
        return sum(map(len, self.rows.values()))


def collected(frame: DataFrame, state: State) -> Collected:
    """Return the rows that a frame names by the columns of ``scan(addressed=True)``.

    Raises:
        InvalidInput: a name is malformed, or its file has been cleaned.
        ExecutionFailed, InvalidInput: Spark failed, or refused the frame.
    """
    with translated("looking for the rows to change"):
        given = frame.select(ROOT, F.col(ROW).cast("bigint").alias(ROW))
        real = given.where(F.col(ROOT).isNotNull() & F.col(ROW).between(0, MOST_ROWS - 1))
        found = real.mapInArrow(packed, spark_schema(PACKED)).toArrow()
    named: dict[str, BitMap] = {}
    for name, bits in zip(found["name"].to_pylist(), found["bits"].to_pylist(), strict=True):
        named[name] = named.get(name, BitMap()) | _bitmap(bits)
    count = sum(found["rows"].to_pylist())
    return Collected(rows=rooted(named, state), named=count)


def present(spark: SparkSession, snapshot: Snapshot, rows: Rows) -> Collected:
    """Return the rows of ``rows`` that exist in a snapshot."""
    wanted = {root: some for root, some in rows.items() if some}
    if not wanted:
        return Collected(rows={}, named=0)
    bitmaps = {str(root): _words(some) for root, some in wanted.items()}
    for segment in snapshot.state.timeline.visible_near(root.interval for root in wanted):
        some = _places(segment, wanted) if segment.path and segment.traced else BitMap()
        if some:
            bitmaps[place(segment.path)] = _words(some)
    return collected(marked(addresses(spark, snapshot, wanted), bitmaps), snapshot.state)


def _bitmap(bits: bytes) -> BitMap:
    return BitMap(array("I", np.flatnonzero(flags_of(bits)).astype(np.uint32).tobytes()))


def _words(rows: BitMap) -> Words:
    flags = np.zeros(rows.max() + 1, np.bool_)
    flags[np.frombuffer(rows.to_array(), np.uint32)] = True
    return words_of(flags)


def rooted(named: Mapping[str, BitMap], state: State) -> dict[SegmentId, BitMap]:
    """Return rows by root, from names that are roots or places.

    Only the chunks near a place are decoded.

    Raises:
        InvalidInput: a name is malformed, or its file is not in the table.
    """
    folders = {name.partition("/")[0] for name in named if "/" in name}
    near = {chunk.key: chunk for each in folders for chunk in _chunks_of(each, state.timeline)}
    known = (s for chunk in near.values() for s in chunk.unpacked.segments() if s.path and s.traced)
    places = {place(segment.path): segment for segment in known}
    found: dict[SegmentId, BitMap] = {}
    for name, rows in named.items():
        for root, some in _by_root(name, rows, places):
            found[root] = found[root] | some if root in found else some
    return found


def _chunks_of(folder: str, timeline: Timeline) -> Iterator[AnyChunk]:
    """Return the chunks that may have files of a folder: those that overlap its interval."""
    try:
        return timeline.chunks(Interval.from_name(folder))
    except (ValueError, SegtableError):
        return iter(())


def _by_root(
    name: str, rows: BitMap, places: Mapping[str, Segment]
) -> Iterator[tuple[SegmentId, BitMap]]:
    if "/" not in name:
        yield _root(name), rows
        return
    if name not in places:
        raise InvalidInput(
            f"{name} is not in the table any more: scan a newer snapshot for addresses"
        )
    at = 0
    for run in places[name].runs:
        some = rows & BitMap(range(at, at + run.rows))
        if some:
            yield run.root, some.shift(run.start - at)
        at += run.rows


def _root(name: str) -> SegmentId:
    try:
        return SegmentId.parse(name)
    except CorruptTable as error:
        raise InvalidInput(f"no address: {error}; take them from scan(addressed=True)") from None


def _places(segment: Segment, wanted: Rows) -> BitMap:
    """Return the positions of rows in a traced segment's file."""
    found, at = BitMap(), 0
    for run in segment.runs:
        if run.root in wanted:
            some = wanted[run.root] & BitMap(range(run.start, run.start + run.rows))
            found |= some.shift(at - run.start)
        at += run.rows
    return found


NUMBER = "__segtable_number"
"""The column that numbers the rows of a source."""


# The join of a source to a table
class SourceFrame:
    """A DataFrame of a request; for a merge its rows are evaluated once and numbered."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    @cached_property
    def numbered(self) -> DataFrame:
        """Return the rows, evaluated and numbered."""
        with translated("reading the source of a merge"):
            numbered = self.frame.withColumn(NUMBER, F.monotonically_increasing_id())
            return numbered.localCheckpoint().alias("source")


@dataclass(frozen=True, slots=True)
class Joining:
    """One merge on one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    request: Merge
    source: SourceFrame

    def found(self) -> Selected[DataFrame]:
        """Return the rows to delete, and the rows to append."""
        schema, matched = self.snapshot.schema, self.request.matched
        with translated("joining the source of a merge"):
            joined = self._joined()
            new = self._updated(joined, schema)
            copies = (of_side("target", name) for name in self.copies)
            addresses = (F.col(ROOT), F.col(ROW), F.col(NUMBER))
            kept = joined.select(*addresses, *new, *copies).localCheckpoint()
        gone = collected(kept, self.snapshot.state)
        if matched is not Matched.IGNORE and gone.named > gone.matched:
            self._refuse_doubles(joined, kept)
        coming = self._coming(kept, gone)
        with translated("reading the source of a merge"):
            some = coming is not None and not coming.isEmpty()
        return Selected(
            rows={} if matched is Matched.IGNORE else gone.rows,
            matched=gone.matched,
            new=coming if some else None,
            count=coming.count if coming is not None and some else lambda: 0,
        )

    @property
    def columns(self) -> list[str]:
        """Return the columns of the source."""
        return self.source.frame.columns

    @property
    def copies(self) -> dict[str, pa.Field]:
        """Return the exact copies that updated rows have (``tasks.reading``)."""
        if self.request.matched is not Matched.UPDATE:
            return {}
        schema = self.snapshot.schema
        given = self._fresh(schema) if self.request.set is None else self.request.set
        return {PREFIX + name: copied(schema.field(name)) for name in carried(schema, given)}

    def _joined(self) -> DataFrame:
        """Return the table joined to the source: one row per match."""
        target = self._target()
        if isinstance(self.request.on, Sql):
            return target.join(self.source.numbered, F.expr(self.request.on.text))
        same = (of_side("target", name) == of_side("source", name) for name in self.request.on)
        return target.join(self.source.numbered, reduce(and_, same))

    def _target(self) -> DataFrame:
        """Return the rows of the table, under the name ``target``."""
        exactly = [name.removeprefix(PREFIX) for name in self.copies]
        return rows_to_change(self.spark, self.snapshot, carried=exactly)

    def _updated(self, joined: DataFrame, schema: pa.Schema) -> list[Column]:
        """Return the new values of matched rows; empty unless they are updated."""
        if self.request.matched is not Matched.UPDATE:
            return []
        if self.request.set is not None:
            given = {name: expression(name, of) for name, of in self.request.set.items()}
        else:
            given = {name: of_side("source", name) for name in self._fresh(schema)}
        values = {name: given.get(name, of_side("target", name)) for name in schema.names}
        return assigned(joined, values, schema)

    def _fresh(self, schema: pa.Schema) -> list[str]:
        fresh = {*schema.names}.difference(self.request.keys)
        return [name for name in self.columns if name in fresh]

    def _coming(self, kept: DataFrame, gone: Collected) -> DataFrame | None:
        parts = []
        if self.request.matched is Matched.UPDATE and gone.matched:
            parts.append(kept.drop(ROOT, ROW, NUMBER))
        if self.request.unmatched is Unmatched.INSERT:
            met = kept.select(F.col(NUMBER).alias("met"))
            alone = self.source.numbered.join(met, F.col(NUMBER) == F.col("met"), "left_anti")
            parts.append(alone.select(*self._inserted_columns(alone), *self._no_copies()))
        return reduce(DataFrame.union, parts) if parts else None

    def _inserted_columns(self, alone: DataFrame) -> list[Column]:
        """Return the columns of inserted rows; those that the source lacks have their defaults."""
        there = {*self.columns}
        values = {
            field.name: column(alone, field.name)
            if field.name in there
            else F.lit(default_of(field).as_py())
            for field in given_schema(self.snapshot.state.table)
        }
        return assigned(alone, values, self.snapshot.schema)

    def _no_copies(self) -> list[Column]:
        """Return nulls in place of copies, for rows that Spark has whole."""
        kinds = spark_schema(readable(pa.schema(self.copies.values())))
        return [F.lit(None).cast(each.dataType).alias(each.name) for each in kinds]

    def _refuse_doubles(self, joined: DataFrame, kept: DataFrame) -> None:
        with translated("looking for what matches twice"):
            twice = kept.groupBy(ROOT, ROW).count().where("count > 1").first()
            if twice is None:
                return
            one = joined.where((F.col(ROOT) == twice[ROOT]) & (F.col(ROW) == twice[ROW]))
            shown = [of_side("target", name) for name in self.request.keys] or [F.col("target.*")]
            key = one.select(*shown).drop(ROOT, ROW).first()
        given = key.asDict() if key else {}
        told = ", ".join(f"{name} = {value!r}" for name, value in given.items())
        raise InvalidInput(
            f"{twice['count']} rows of the source match one row of the table, that with {told}: "
            "the merge is ambiguous; keep one of them"
        )


def of_side(side: str, name: str) -> Column:
    """Return a column of a side of the join, by its literal name."""
    return F.col(f"{side}.`" + name.replace("`", "``") + "`")
