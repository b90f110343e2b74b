"""Read a snapshot, a window of versions, or the origin of rows as a DataFrame.

A snapshot, with Spark's own Parquet reader:

1. The visible files come from the log. Spark gets their names and the table's schema, so it lists
   nothing and infers nothing.
2. Segments wholly inside the requested interval are read without a filter; the others with a filter
   on the event time. Segments in which no row can match a condition, by their event times or by an
   index, are not read (``table.chosen_files``). Event times choose files only where the session's
   zone is UTC: in another zone, a time without zone means another instant.
3. Spark filters deleted rows by their bits. The bit is that of the row number in the file, and in a
   set in the plan (``native_files``). Where hidden columns have the rows' addresses, the driver
   finds the numbers; of very many rows, tasks compare the addresses (``row_bitmaps``). Rollup
   tables use the predicates of predicate deletes. Files without applicable deletes are read
   unfiltered; of files with known numbers of rows that are only counted, nothing is read.
4. Files of each schema are read by its own names and types, then brought to the present columns
   (``spark_columns``).
5. Columns that Spark's reader does not support are read by pyarrow in tasks (``keyed_scan``): the
   same rows, but slower, because they cross into Spark one by one. So are files in memory, and all
   files where this Spark's interfaces do not fit (``native_files``); then the plan says so.
6. Footers are compared with their checksums here; Spark's reader compares pages with Parquet's
   own, but not page headers (ADR 0015). ``Snapshot.checked`` switches both off.
7. Until a major compaction, the files of a rollup table may have several rows of a group. With
   ``rolled_up`` these are merged, so that a query's answer does not depend on compactions.

Windows (rows added since a version, change feeds) and the origin of rows:

8. The driver finds the parts of the window, as ``Table`` does (``table.scan``): descriptors,
   row filters, and the change or the origins of each part's rows.
9. Added rows are read as those of a snapshot. Parts that need more than their files' columns, or
   hidden columns to tell added rows, are read by pyarrow in tasks: a change has its own constants,
   and a plan with a branch for each event would not be practical.
10. Of a table with a primary key, tasks merge the files of each bucket (``keyed_scan``). The pieces
    of its change feed are one for each bucket and stretch of events (``data.keyed.file_groups``).
11. A condition that only Spark evaluates is applied to all rows of the window. Filters that Spark
    pushes down leave out files by their event times.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql.types import StructType

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import holds_any
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.selection import Item, Selection
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.requests.read_request import (
    ORIGIN_COLUMNS,
    ReadRequest,
    columns_read,
    read_request,
)
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.core.segment import Segment, SegmentId, named_roots
from airflow_provider_segtable.core.time import ALL_TIME, Interval
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.open_files import held_files
from airflow_provider_segtable.data.parquet.descriptor import check_footers
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.row_filter import Flags, RowFilter
from airflow_provider_segtable.data.vector_file import row_filters
from airflow_provider_segtable.data.where import timed
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.keyed_scan import (
    MOST_LOOKED_AT,
    NAMES,
    arrow_scan,
    dealt,
    keyed_scan,
    merged_rows,
    read_in_tasks,
    tasks_for,
)
from airflow_provider_segtable.spark.reads.native_files import NativeRead, native_fault
from airflow_provider_segtable.spark.reads.row_bitmaps import by_root, marks_of, unmarked
from airflow_provider_segtable.spark.spark_columns import (
    FileColumns,
    column,
    identified,
    known_condition,
    matching,
    means_the_same,
    readable,
    spark_schema,
    within,
)
from airflow_provider_segtable.spark.table_kinds import spark_kind_of
from airflow_provider_segtable.spark.tasks.reading import (
    PREFIX,
    FeedReading,
    SegmentPart,
    SegmentReading,
    copied,
)
from airflow_provider_segtable.table.chosen_files import chosen_groups, chosen_segments
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.parts import Clipped, Part, Wanted, clipped
from airflow_provider_segtable.table.read_recorder import read_shape
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.settled_groups import with_settlements
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules
from airflow_provider_segtable.table.windows import KeyedFeed, start_read


# Windows and origins
def shows_origin(request: ReadRequest, known: Sequence[str]) -> bool:
    """Return whether a request names a hidden column of the origin of rows."""
    return any(name in ORIGIN_COLUMNS and name not in known for name in request.columns or ())


def narrowed(request: ReadRequest, pushed: Condition | None) -> ReadRequest:
    """Return the request without event times at which ``pushed`` cannot hold."""
    possible = pushed and pushed.interval
    inside = possible and (request.interval or ALL_TIME).clip(possible)
    return replace(request, interval=inside) if inside else request


def window_scan(
    spark: SparkSession, ports: TableContext, state: State, request: ReadRequest
) -> DataFrame:
    """Return the rows of a window that ends with a version, or of the version if there is no start.

    Raises:
        WindowExpired: the window's start is no longer kept.
        SchemaMismatch: a column does not exist, or Spark cannot hold its type.
        InvalidInput: the condition is not SQL, or this kind of table has no windows.
    """
    if request.where is not None and not isinstance(request.where, str):
        raise InvalidInput(f"{request.where} is not text: Spark needs the condition in SQL")
    start = start_read(ports.log, request, state)
    counted = (state.table.time_column,) if request.columns == () else request.columns
    everything = replace(request, columns=counted, where=None)  # without a column, no row counts
    asked = Scan(ports=ports, state=state, request=everything, start=start)
    frame = _read(spark, _narrowed(spark, asked, request))
    if request.where is not None:
        with translated("looking for the rows to read"):
            frame = frame.where(request.where)
    names = () if request.columns == () else asked.schema.names
    return frame.select([column(frame, name) for name in names])


def _narrowed(spark: SparkSession, asked: Scan, request: ReadRequest) -> Scan:
    """Return the scan of all columns that the condition needs; by itself it filters nothing."""
    if request.where is None:
        return asked
    every = replace(asked, request=replace(request, columns=None, where=None))
    try:
        known = replace(asked, request=replace(request, columns=None))
    except InvalidInput:  # only Spark reads the condition
        return every
    if known.where and not means_the_same(spark, known.where, every.schema):
        return every
    tested = known.where.columns if known.where else ()
    names = tuple(dict.fromkeys([*asked.schema.names, *tested]))
    return replace(known, request=replace(request, columns=names))


def _read(spark: SparkSession, scan: Scan) -> DataFrame:
    """Return the rows of the scan's parts, in its columns."""
    kinds = spark_schema(readable(scan.schema))
    if scan.state.table.kind.rules is not None:
        return _of_keys(spark, scan, kinds)
    parts = [*scan.parts()]
    native = [part for part in parts if _is_native(part)]
    others = [part for part in parts if not _is_native(part)]
    frames = [_read_natively(spark, scan, native)] if native else []
    if others or not native:
        frames.append(_read_by_tasks(spark, scan, others, kinds))
    return reduce(DataFrame.union, frames)


def _is_native(part: Part) -> bool:
    """Return whether files alone have the rows of a part, and the log names those left out."""
    row_filter = part.row_filter
    by_number = bool(row_filter.runs) or row_filter.chosen is None
    return part.change is None and part.origins is None and by_number


def _read_natively(spark: SparkSession, scan: Scan, parts: Sequence[Part]) -> DataFrame:
    snapshot = Snapshot(ports=scan.ports, state=scan.state, checked=scan.request.checked)
    asked = _Asked(
        spark,
        snapshot,
        snapshot.schema,
        list(scan.schema.names),
        row_filters={part.segment.id: part.row_filter for part in parts},
    )
    return asked.rows(Clipped(part.segment, part.clip) for part in parts)


def _read_by_tasks(
    spark: SparkSession, scan: Scan, parts: Sequence[Part], kinds: StructType
) -> DataFrame:
    work = [
        SegmentPart(
            segment=part.segment,
            row_filter=part.row_filter,
            clip=part.clip,
            change=part.change,
            origins=part.origins,
        )
        for part in parts
    ]
    reading = SegmentReading(
        schema=stored_columns(scan.state.table.schema),
        time_column=scan.state.table.time_column,
        columns=tuple(scan.schema.names),
        checked=scan.request.checked,
    )
    time_column = scan.state.table.time_column
    return read_in_tasks(spark, scan.ports, work, reading, kinds, time_column=time_column)


def _of_keys(spark: SparkSession, scan: Scan, kinds: StructType) -> DataFrame:
    """Return the rows or changes of a window of a primary-key table."""
    if scan.request.changes and scan.start is not None:
        return _changes_of_keys(spark, scan, scan.start, kinds)
    snapshot = Snapshot(ports=scan.ports, state=scan.state, checked=scan.request.checked)
    groups = scan.groups(merge_rules(scan.state, scan.ports.uri)).left
    tests = () if scan.where is None else scan.where.predicates
    names = scan.schema.names or [scan.state.table.time_column]  # to count rows
    return merged_rows(spark, snapshot, names, groups, tests, start=scan.start)


def _changes_of_keys(spark: SparkSession, scan: Scan, start: State, kinds: StructType) -> DataFrame:
    """Return the changes of a window of a primary-key table."""
    feed = KeyedFeed(scan.ports.log)
    pieces = [piece for some in feed.pieces(start, scan.state) for piece in some]
    reading = FeedReading(
        table=scan.state.table,
        rules=merge_rules(scan.state, scan.ports.uri),
        interval=scan.request.interval,
        checked=scan.request.checked,
    )
    return read_in_tasks(
        spark,
        scan.ports,
        dealt(pieces, tasks_for(spark, pieces)),
        reading,
        kinds,
        time_column=scan.state.table.time_column,
    )


# Snapshots
def scan(
    spark: SparkSession,
    snapshot: Snapshot,
    interval: Interval | None = None,
    columns: Sequence[str] | None = None,
    *,
    where: str | None = None,
    rolled_up: bool = False,
    addressed: bool = False,
) -> DataFrame:
    """Return the rows of a snapshot that are not deleted.

    Args:
        spark: the session.
        snapshot: the table at one version.
        interval: only rows with event time in it.
        columns: only these, in this order.
        where: only rows that match a Spark SQL expression.
        rolled_up: merge rows of equal keys: return one row per group of a rollup table; ``where``
            filters these.
        addressed: add two columns, ``__segtable_root`` (text) and ``__segtable_row`` (bigint),
            which name the row, for ``change.delete(addresses=...)`` only. Some are root addresses,
            others are ``<interval>/<file>`` and the row number in that file.

    Raises:
        SchemaMismatch: a column does not exist, or Spark cannot hold its type.
        InvalidName: Spark has no reader for the table's URI.
        InvalidInput: rows of this kind of table have no addresses.
    """
    request = read_request(
        columns=columns,
        where=where,
        interval=interval,
        rolled_up=rolled_up,
        checked=snapshot.checked,
    )
    return read(spark, snapshot.ports, snapshot.state, request, addressed=addressed)


def rows_to_change(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    addressed: bool = True,
    carried: Sequence[str] = (),
    where: Where | None = None,
) -> DataFrame:
    """Return all rows under the name ``target``, with copies of the columns ``carried``.

    Rows for which ``where`` does not hold may be left out: the caller filters by it.
    """
    request, time_column = read_request(checked=snapshot.checked), snapshot.state.table.time_column
    pushed = known_condition(spark, where, snapshot.schema, time_column)
    return read(
        spark,
        snapshot.ports,
        snapshot.state,
        request,
        addressed=addressed,
        carried=carried,
        pushed=pushed,
    ).alias("target")


def read(
    spark: SparkSession,
    ports: TableContext,
    state: State,
    request: ReadRequest,
    *,
    addressed: bool = False,
    carried: Sequence[str] = (),
    pushed: Condition | None = None,
) -> DataFrame:
    """Return the rows of a version that a read request asks for; see ``scan``.

    Of the columns ``carried``, the last columns are exact copies (``tasks.reading``). Rows
    for which ``pushed`` does not hold may be left out: the caller filters by it.
    """
    if request.base_only:
        raise InvalidInput("base_only is read without Spark: Table.scan(base_only=True)")
    check_in_driver(spark, "scan")
    where_now = timed(request.where, ports.clock.now(), state.table.schema.names)
    request = replace(request, where=where_now)  # the time by which files are chosen is Spark's
    if request.windowed or shows_origin(request, state.table.schema.names):
        return window_scan(spark, ports, state, narrowed(request, pushed))
    snapshot = Snapshot(ports=ports, state=state, checked=request.checked)
    table, known = state.table, snapshot.schema
    wanted = columns_read(request, known.names)
    if addressed:
        table.kind.check_addresses(ports.uri)
    where = known_condition(spark, request.where, known, table.time_column)
    tested = known.names if where is None else where.columns
    names = wanted if request.where is None else tuple(dict.fromkeys([*wanted, *tested]))

    given = tuple(each for each in (where, pushed) if each)
    rows = Wanted(
        interval=request.interval,
        conditions=given,
        time_column=table.time_column,
        merged=request.rolled_up,
    )
    asked = _Stored(spark, snapshot, rows, addressed, tuple(carried))
    frame = spark_kind_of(table.kind).shown(
        asked, known, names, table.time_column, rolled_up=request.rolled_up
    )
    if request.where is None and not addressed and not carried:
        return frame
    if request.where is not None:
        with translated("looking for the rows to read"):
            frame = frame.where(request.where)
    more = (*(NAMES.names if addressed else ()), *(PREFIX + name for name in carried))
    return frame.select([column(frame, name) for name in (*wanted, *more)])


def addresses(spark: SparkSession, snapshot: Snapshot, roots: Iterable[SegmentId]) -> DataFrame:
    """Return the address columns of segments that may hold rows of ``roots``."""
    wanted = frozenset(roots)
    asked = _Asked(spark, snapshot, snapshot.schema, [], addressed=True)
    near = snapshot.state.timeline.lookup_near(root.interval for root in wanted)
    return asked.rows(each for each in clipped(near) if holds_any(each.segment, wanted))


@dataclass(frozen=True, slots=True)
class _Stored:
    """The rows of a snapshot that a request may want: ``Stored`` of ``spark_kind``."""

    spark: SparkSession
    snapshot: Snapshot
    wanted: Wanted
    addressed: bool
    carried: tuple[str, ...]

    def rows(self, schema: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """Return columns of all rows, given the schema of the files."""
        found = chosen_segments(self.snapshot.ports, self.snapshot.state, self.wanted)
        return self._read(schema, columns, self._recorded(columns, found).left)

    def rows_by_key(self, columns: Sequence[str]) -> DataFrame:
        """Return columns of one row for each primary key."""
        rules = merge_rules(self.snapshot.state, self.snapshot.ports.uri)
        ports, state = self.snapshot.ports, self.snapshot.state
        found = chosen_groups(ports, state, rules, self.wanted)
        return keyed_scan(
            self.spark,
            self.snapshot,
            columns,
            self._read,
            groups=with_settlements(ports, state, self._recorded(columns, found).left),
            tests=self.wanted.tests,
            carried=self.carried,
        )

    def _recorded(self, columns: Sequence[str], found: Selection[Item]) -> Selection[Item]:
        """Return a choice of files after its record as a read, unless it is of rows to change."""
        if self.addressed or self.carried:
            return found
        table, wanted = self.snapshot.state.table, self.wanted
        watch = self.snapshot.ports.watch_read(
            table,
            lambda: read_shape(
                wanted.time_column if wanted.interval else "",
                wanted.conditions,
                columns,
                measured=False,
            ),
        )
        watch.chosen(found)
        watch.ended()
        return found

    def _read(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        files: Iterable[Clipped],
        row_filters: Mapping[SegmentId, RowFilter] = MappingProxyType({}),
    ) -> DataFrame:
        asked = _Asked(
            self.spark,
            self.snapshot,
            schema,
            list(columns),
            addressed=self.addressed,
            carried=self.carried,
            row_filters={**row_filters},
        )
        return asked.rows(files)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a group of segments is read: its clip interval, and the names of its rows, if any.

    ``schema`` is the number of the schema that its files were written with. Files that are ``held``
    are in this process alone. Of ``marked`` files, rows are left out by their numbers.
    """

    clip: Interval | None
    schema: int
    marked: bool = False
    placed: bool = False
    hidden: bool = False
    held: bool = False
    predicates: tuple[Predicate, ...] = ()

    @property
    def counted(self) -> bool:
        """Return whether the log knows the number of rows."""
        return not (self.clip or self.hidden or self.predicates)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One scan: a snapshot and the requested rows and columns."""

    spark: SparkSession
    snapshot: Snapshot
    known: pa.Schema
    wanted: list[str]
    addressed: bool = False
    carried: tuple[str, ...] = ()
    row_filters: dict[SegmentId, RowFilter] = field(default_factory=dict)
    marks: dict[SegmentId, Flags] = field(default_factory=dict)
    looked_up: set[SegmentId] = field(default_factory=set)

    def rows(self, visible: Iterable[Clipped]) -> DataFrame:
        """Return the rows of segments, each clipped to its interval."""
        found = list(visible)
        new = [segment for segment, _ in found if segment.id not in self.row_filters]
        ports, state = self.snapshot.ports, self.snapshot.state
        found_now = row_filters(ports.files, state, dict.fromkeys(new), ports.entries)
        self.row_filters.update(found_now)
        self._look_up(segment for segment, _ in found)
        ways: dict[_Way, list[Segment]] = {}
        for segment, clip in found:
            ways.setdefault(self._way(clip, segment), []).append(segment)
        frames = [*self._counted(ways)]
        frames += [self._frame(way, some) for way, some in ways.items()]
        return reduce(DataFrame.union, frames) if frames else self._empty()

    def _empty(self) -> DataFrame:
        copies = [copied(self.known.field(name)) for name in self.carried]
        columns = [*_fields(self.known, self.wanted), *(NAMES if self.addressed else ())]
        empty = readable(pa.schema([*columns, *copies]))
        return self.spark.createDataFrame([], spark_schema(empty))

    def _counted(self, ways: dict[_Way, list[Segment]]) -> Iterator[DataFrame]:
        """Yield rows without columns for files that need not be read for that; forget these."""
        if self.wanted or self.addressed or self.carried:
            return
        some = [way for way in ways if way.counted]
        segments = [segment for way in some for segment in ways.pop(way)]
        gone = (self.marks[s.id].sum() for s in segments if s.id in self.marks)
        count = sum(segment.rows for segment in segments) - int(sum(gone))
        if count:
            yield self.spark.range(count).select()

    def _way(self, clip: Interval | None, segment: Segment) -> _Way:
        row_filter = self.row_filters[segment.id]
        numbered = bool(row_filter.runs) or segment.id in self.looked_up
        if row_filter.runs and not row_filter.passes_all and segment.id not in self.marks:
            self._mark(segment, row_filter.gone())
        return _Way(
            clip,
            segment.schema,
            marked=segment.id in self.marks,
            placed=self.addressed and numbered,
            hidden=not numbered and (bool(row_filter.deleted) or self.addressed),
            held=segment.path in held_files(self.snapshot.ports.files),
            predicates=row_filter.predicates,
        )

    def _mark(self, segment: Segment, gone: Flags) -> None:
        if gone.any():
            self.marks[segment.id] = gone

    def _look_up(self, segments: Iterable[Segment]) -> None:
        """Find the numbers of deleted rows of files whose hidden columns have their addresses.

        Beyond ``MOST_LOOKED_AT`` rows, tasks compare the addresses.
        """
        left = MOST_LOOKED_AT
        for segment in () if self.addressed else segments:
            row_filter = self.row_filters[segment.id]
            named = not row_filter.runs and row_filter.deleted and row_filter.chosen is None
            if not named or segment.rows > left:
                continue
            left -= segment.rows
            self.looked_up.add(segment.id)
            self._mark(segment, marks_of(self.snapshot, segment, row_filter))

    def _frame(self, way: _Way, segments: list[Segment]) -> DataFrame:
        time = self.snapshot.state.table.time_column
        asked = [*self.wanted, *([time] if way.clip else [])]
        fields = _fields(self.known, list(dict.fromkeys(asked)))
        stored = FileColumns.of(self.snapshot.state.table, way.schema, fields)
        plain = readable(fields) == fields and readable(stored.schema) == stored.schema
        fault = native_fault(self.spark) if plain and not way.held else ""
        if plain and not way.held and not fault:
            if self.snapshot.checked:
                check_footers(self.snapshot.ports.files, segments)
            frame = self._sifted(self._read(way, segments, fields), way, segments)
        else:
            frame = arrow_scan(
                self.spark,
                self.snapshot,
                segments,
                identified(self.snapshot.state.table, fields),
                self.row_filters,
                addressed=self.addressed,
                carried=self.carried,
                why=fault,
            )
            plain = False
        frame = frame.where(within(frame, time, way.clip)) if way.clip else frame
        as_read = plain and not (way.hidden or way.predicates or self.addressed)
        if as_read and fields.names == self.wanted and not self.carried:
            return frame
        return frame.select([column(frame, name) for name in self._shown])

    @property
    def _shown(self) -> list[str]:
        names = NAMES.names if self.addressed else []
        return [*self.wanted, *names, *(PREFIX + name for name in self.carried)]

    def _read(self, way: _Way, segments: list[Segment], fields: pa.Schema) -> DataFrame:
        ports = self.snapshot.ports
        known = {*self.known.names}.difference(fields.names)
        sifting = [n for s in segments for n in self.row_filters[s.id].reads if n in known]
        more = [self.known.field(name) for name in dict.fromkeys(sifting)]
        stored = FileColumns.of(self.snapshot.state.table, way.schema, pa.schema([*fields, *more]))
        reading = NativeRead(
            spark=self.spark,
            ports=ports,
            schema=spark_schema(pa.schema([*stored.schema, *(NAMES if way.hidden else ())])),
            checked=self.snapshot.checked,
            placed=way.placed,
        )
        marks = [self.marks[segment.id] for segment in segments] if way.marked else ()
        with translated(f"reading {ports.uri} at version {self.snapshot.version}"):
            return stored.shown(reading.rows(segments, marks))

    def _sifted(self, frame: DataFrame, way: _Way, segments: list[Segment]) -> DataFrame:
        for predicate in way.predicates:
            frame = frame.where(~F.coalesce(matching(predicate, frame), F.lit(False)))
        if not way.hidden:
            return frame
        given = [(segment, self.row_filters[segment.id]) for segment in segments]
        roots = (str(root) for segment in segments for root in named_roots(segment))
        return unmarked(frame, by_root(given), roots)


def _fields(known: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    there = {*known.names}
    for name in columns:
        if name not in there:
            raise no_column(name, known.names)
    return pa.schema([known.field(name) for name in columns])


__all__ = ["addresses", "read", "rows_to_change", "scan"]
