"""Scan a table: read the rows of a request as Arrow, or return the plan of the read.

1. Only segments that may have such rows are opened: by the interval, and by the event times for
   which the condition can hold. Indexes leave out files before they are opened
   (``table.chosen_files``). In an opened file, row groups in which no row can match are skipped by
   their statistics (``data.parquet.segment_scan``).
2. Deleted rows are left out before the condition is evaluated, and hidden columns are read only
   where needed, whatever columns are requested.
3. Rows are read segment by segment, in root order within a chunk. If a higher version hides part
   of a chunk, the chunk is read with its event times clipped. Tombstones are not shown.
4. A window is read in the same way. The row filters of its parts choose the rows added since the
   start; parts of a change feed carry the change of their rows (``table.windows``).
5. The origin of rows (``core.reads.effects``) is computed only if its columns are requested.
6. Once the limit is reached, no further file is opened. Without a limit, the next small files of
   an object store are read while the rows of one are used (``data.files_ahead``).
7. ``explain`` returns the plan of the read: the same choice of files, columns and row groups, with
   the files left by each step. The first step leaves out the segments that the version does not
   show; only their chunks are decoded.
8. For a plan each chosen file is opened as it is for reading (``SegmentRead.plan``): its footer,
   and no rows. Deletion vectors are read, because they decide which row groups are read. Other
   files are not opened.
9. A read of a whole version is recorded when it ends, if the table has that switched on
   (``table.read_recorder``).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import KnownOrigins
from airflow_provider_segtable.core.reads.selection import (
    DeletesApplied,
    Extent,
    FilePlan,
    Layer,
    Merging,
    PrunedBy,
    PruneStep,
    ReadPlan,
    Selection,
    footer_steps,
    record_tests,
)
from airflow_provider_segtable.core.requests.read_request import ReadRequest, columns_read
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import ALL_TIME, Interval
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.data.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.files_ahead import PROCESSORS, read_ahead, read_beside
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, labelled_rows
from airflow_provider_segtable.data.keyed.group_reader import GroupReader, shown_defaults
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.parquet.descriptor import THREADS
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.rollup.rollup_rows import visible
from airflow_provider_segtable.data.row_filter import read_columns, with_origin_columns
from airflow_provider_segtable.data.rows import (
    duckdb_relation,
    pandas_frame,
    polars_frame,
    with_change_columns,
)
from airflow_provider_segtable.data.vector_file import row_filters
from airflow_provider_segtable.data.where import condition, timed
from airflow_provider_segtable.table.chosen_files import (
    chosen_groups,
    chosen_segments,
    pinned_keys,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.min_max import ColumnEnds, MinMax
from airflow_provider_segtable.table.parts import Clipped, MergedScan, Part, PartReader, Wanted
from airflow_provider_segtable.table.read_recorder import UNWATCHED, ReadWatch, read_shape
from airflow_provider_segtable.table.settled_groups import with_settlements
from airflow_provider_segtable.table.windows import ChangeFeed, KeyedFeed, added_part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The chosen files of a scan, and their reads."""

    selection: Selection[Any]
    reads: Sequence[SegmentRead]
    deletes: DeletesApplied
    merging: Merging | None = None


def explained(scan: "Scan") -> ReadPlan:
    """Return the plan of a scan; errors as for reading it."""
    rules, request = scan.state.table.kind.rules, scan.request
    chosen = _parts(scan) if rules is None else _groups(scan, rules)
    files = _looked_into(chosen.reads)
    timeline = scan.state.timeline
    summaries = timeline.visible_summaries()
    return ReadPlan(
        table=scan.ports.uri,
        version=scan.version,
        since_version=None if scan.start is None else scan.start.n,
        where=None if request.where is None else str(request.where),
        interval=None if request.interval is None else str(request.interval),
        chunks=len({chunk.interval for chunk, found in summaries.items() if found.files}),
        hidden_segments=len(timeline) - sum(found.visible for found in summaries.values()),
        steps=(*_steps(timeline, chosen.selection.layers), *footer_steps(files)),
        files=files,
        known_columns=tuple(scan.state.table.schema.names),
        deletes=chosen.deletes,
        merging=chosen.merging,
        index_notes=chosen.selection.notes,
        layers=chosen.selection.layers,
    )


def _parts(scan: "Scan") -> _Chosen:
    selection = scan.selection()
    parts = [*scan.chosen(selection)]
    return _Chosen(
        selection=selection,
        reads=[read for _, read in scan.readings(parts)],
        deletes=_deletes(scan.state, parts),
    )


def _groups(scan: "Scan", rules: MergeRules) -> _Chosen:
    merged = scan.merged_scan(rules)
    selection = merged.found
    reads = [read for group in selection.left for read in merged.reads(group)]
    paths = {read.segment.path for read in reads}

    def shown(group: FileGroup) -> FileGroup | None:
        left = tuple(segment for segment in group.segments if segment.path in paths)
        return replace(group, segments=left) if left else None

    return _Chosen(
        selection=selection.narrowed(PrunedBy.FATES, shown),
        reads=reads,
        deletes=DeletesApplied(),
        merging=_merging(selection.left, scan.state.timeline),
    )


def _looked_into(reads: Iterable[SegmentRead]) -> tuple[FilePlan, ...]:
    """Return the plans of files by their footers, several at a time, each file once."""
    each = {read.segment.path: read for read in reads}
    with ThreadPoolExecutor(THREADS) as pool:
        return tuple(pool.map(SegmentRead.plan, each.values()))


def _steps(timeline: Timeline, layers: Iterable[Layer]) -> tuple[PruneStep, ...]:
    """Return the steps that choose files."""
    summaries = timeline.visible_summaries().values()
    shown = Extent(sum(each.files for each in summaries), sum(each.size for each in summaries))
    hidden = _hidden_files(timeline)
    present = Extent(shown.files + len(hidden), shown.bytes + sum(hidden.values()))
    steps = [PruneStep(PrunedBy.HIDDEN, present, shown)]
    for layer in layers:
        files = layer.files
        after = Extent(len(files), sum(segment.size for segment in files.values()))
        steps.append(PruneStep(layer.by, steps[-1].after, after, layer.index))
    return tuple(steps)


def _hidden_files(timeline: Timeline) -> dict[str, int]:
    """Return the sizes of files that no visible segment has, by path.

    A segment that was carried over shares its file with a hidden one.
    """
    hidden = [segment for segment in timeline.hidden_segments() if segment.path]
    near = timeline.visible_near(segment.id.interval for segment in hidden)
    shown = {segment.path for segment in near}
    return {segment.path: segment.size for segment in hidden if segment.path not in shown}


def _deletes(state: State, parts: Iterable[Part]) -> DeletesApplied:
    each = {part.segment.id: part for part in parts}.values()
    filters = [replace(part.row_filter, chosen=None) for part in each]
    held = [found for found in filters if not found.passes_all]
    counted = [found for found in held if found.runs and not found.predicates]
    vectors = (some for part in each for some in state.deletions(part.segment).values())
    return DeletesApplied(
        files=len(held),
        rows=sum(found.deleted_rows() for found in counted),
        uncounted_files=len(held) - len(counted),
        vector_files=len({deletion.path for some in vectors for deletion in some}),
        predicates=len({one for found in held for one in found.predicates}),
    )


def _merging(groups: Sequence[FileGroup], timeline: Timeline) -> Merging:
    files = [segment for group in groups for segment in group.segments]
    chunks = {segment.id.chunk for segment in files}
    inside = {segment.id for chunk in chunks for segment in timeline.base(chunk)}
    bases = sum(segment.id in inside for segment in files)
    return Merging(
        file_groups=len(groups),
        merged=sum(not group.merged for group in groups),
        base_files=bases,
        log_files=len(files) - bases,
        most_runs=max((group.runs for group in groups), default=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A read of one version; nothing is read before a method asks for it.

    Attributes:
        ports: the table's ports.
        state: the version.
        request: the columns, rows and version to read.
        start: the version before the window, if only a window is read.
        where: its condition, over the table's columns.

    Raises:
        SchemaMismatch: the table has no such column.
        InvalidInput: the condition is not parsable, or names a missing column.
    """

    ports: TableContext
    state: State
    request: ReadRequest
    start: State | None = None
    where: Condition | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compare the request with the table."""
        known = self._columns
        where = timed(self.request.where, self.ports.clock.now(), known.names)
        if self.origin_columns:
            self.state.table.kind.check_window(self.ports.uri)
        if self.request.base_only and self.state.table.kind.rules is None:
            raise InvalidInput(
                f"base_only reads the base files of a primary-key table, and {self.ports.uri} has "
                "no primary key: leave it out"
            )
        found = None if where is None else condition(where, known, self.state.table.time_column)
        object.__setattr__(self, "where", found)

    def __repr__(self) -> str:
        """Return the table, the version, and the request."""
        of = self.request
        since, changes = self.start and self.start.n, of.changes or None
        asked = {"columns": of.columns, "where": of.where, "interval": of.interval}
        asked |= {"since_version": since, "changes": changes, "limit": of.limit}
        said = [f"{name}={value!s}" for name, value in asked.items() if value is not None]
        return f"Scan({', '.join([repr(self.ports.uri), f'version={self.version}', *said])})"

    @property
    def version(self) -> int:
        """Return the number of the last event that the scan sees."""
        return self.state.n

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        names = columns_read(self.request, self._known.names)
        known = with_origin_columns(self._known)
        return pa.schema([known.field(name) for name in names])

    @property
    def origin_columns(self) -> tuple[str, ...]:
        """Return the hidden columns among those to read."""
        names = columns_read(self.request, self._known.names)
        known = {*self._known.names}
        return tuple(name for name in names if name not in known)

    def interval(self) -> Interval | None:
        """Return the interval of event times outside which no row is wanted; None if empty."""
        asked = self.request.interval or ALL_TIME
        if self.where is None:
            return asked
        return self.where.interval and asked.clip(self.where.interval)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, batch by batch; only ``rolled_up`` needs all of them in memory."""
        left = self.request.limit
        for batch in self._all_batches() if left != 0 else ():
            yield batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    return

    def _all_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows without the limit."""
        if self._rolls_up:
            yield from _batches(self._rolled_up())
            return
        rules = self.state.table.kind.rules
        if rules is not None:
            yield from self._of_keys(rules)
            return
        names, where, watch = self.schema.names, self.where, self._watch(measured=True)
        hidden = self.origin_columns
        for part, batches in self.batches_of(self.readings(self._watched_parts(watch))):
            for batch in batches:
                kept = batch if where is None else where.keep(batch)
                watch.saw(part.segment, kept.num_rows)
                shown = read_columns(kept, origins=part.origins, change=part.change, names=hidden)
                yield shown.select(names)
        watch.ended()

    def _watch(self, *, measured: bool) -> ReadWatch:
        """Return the watch of this read; windows and reads with the log store have none."""
        if self.start is not None or self.request.include_log:
            return UNWATCHED

        return self.ports.watch_read(
            self.state.table,
            lambda: read_shape(
                self.state.table.time_column if self.request.interval else "",
                [self.where] if self.where else [],
                self.schema.names,
                measured=measured,
            ),
        )

    def _watched_parts(self, watch: ReadWatch) -> Iterator[Part]:
        """Yield the parts to read, with their choice known to a watch."""
        if self.start is not None:
            yield from self.parts()
        else:
            yield from self.chosen(watch.chosen(self.selection()))

    def batches_of(
        self, each: Iterator[tuple[Part, SegmentRead]]
    ) -> Iterator[tuple[Part, Iterator[pa.RecordBatch]]]:
        """Yield parts with their rows; without a limit, the next files are read meanwhile."""
        remote = is_remote(self.ports.files)
        if self.request.limit is not None or (not remote and PROCESSORS == 1):
            for part, read in each:
                yield part, read.batches()
            return
        ahead = (
            read_ahead(each, _rows_of, _size_of)
            if remote
            else read_beside(each, _rows_of, _size_of, lambda batch: batch.nbytes)
        )
        with closing(ahead):
            for (part, _), batches in ahead:
                yield part, batches

    def explain(self) -> ReadPlan:
        """Return the plan of the read: the files, the files left out by each step, and bytes.

        Footers of the files that are read are opened, and deletion vectors; no rows are read.
        ``print`` shows the plan, ``facts`` has it as JSON values.

        Raises:
            InvalidInput: a change feed is requested, which is read event by event.
        """
        if self.request.changes:
            raise InvalidInput(
                "a change feed is read event by event, not by one plan: leave changes out to "
                "explain the rows added"
            )
        return explained(self)

    def to_arrow(self) -> pa.Table:
        """Read the rows into one Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; it reads lazily."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of the rows for DuckDB, Polars and others: each call reads anew."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Read the rows into a pandas DataFrame.

        Raises:
            DependencyMissing: pandas is not installed.
        """
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Read the rows into a Polars DataFrame.

        Raises:
            DependencyMissing: polars is not installed.
        """
        return polars_frame(self.to_arrow())

    def to_duckdb(self) -> Any:
        """Return a DuckDB relation over the rows; each query reads them.

        Raises:
            DependencyMissing: duckdb is not installed.
        """
        return duckdb_relation(self)

    def count(self) -> int:
        """Return the number of rows, reading as little as possible.

        If the log records a segment's root addresses, only deletion vectors are read. Otherwise
        it reads hidden columns, event times of clipped chunks, and columns of predicate deletes
        and of the condition. Of a primary-key table it reads the keys of rows that are merged.
        """
        rules, limit = self.state.table.kind.rules, self.request.limit
        plain = self.request.where is None and not self.request.changes
        if rules is not None and plain and self.start is None:
            narrow = replace(self, request=replace(self.request, columns=()))
            found = narrow.merged_scan(rules).count() if limit != 0 else 0
            return found if limit is None else min(found, limit)
        if not plain or self.request.rolled_up or rules is not None:
            narrow = replace(self, request=replace(self.request, columns=(), where=self.where))
            return sum(batch.num_rows for batch in narrow.to_batches())
        found = 0
        for _, rows in self.counts() if limit != 0 else ():
            found += rows
            if limit is not None and found >= limit:
                return limit
        return found

    def min_max(self, column: str) -> MinMax:
        """Return the least and the greatest value of a column: ``scan.min_max("price").max``.

        Nulls and NaN are left out, minus zero is zero; both are None without any value. Statistics
        in footers are enough of files of which all rows are shown; of other files those are read
        that may have a lesser or a greater value (``table.min_max``).

        Raises:
            SchemaMismatch: there is no such column.
            InvalidInput: the column's type has no order.
        """
        request, table = (
            replace(self.request, columns=(column,), where=self.where),
            self.state.table,
        )
        narrow, defaults = replace(self, request=request), shown_defaults(table)
        ends = ColumnEnds(
            column=column,
            kind=narrow.schema.field(column).type,
            where=self.where,
            time_column=table.time_column,
            files=self.ports.files,
            views=self.ports.entries,
        )
        windowed = self.start is not None or request.changes or request.limit is not None
        filled = column in defaults or bool(defaults and self.where)
        if windowed or filled or self._rolls_up or narrow.origin_columns:
            return ends.of_batches(narrow.to_batches())
        if table.kind.rules is not None:
            return ends.of_groups(narrow.merged_scan(table.kind.rules))
        chosen = narrow.chosen(narrow.selection())
        return ends.of_files([read for _, read in narrow.readings(chosen)])

    def counts(self) -> Iterator[tuple[Segment, int]]:
        """Yield the segments that are read, each with its number of rows.

        Not of a primary-key table, whose rows are merged from several segments.
        """
        for part in self._plain_parts():
            yield part.segment, self._rows_in(part)

    def parts(self, roots: Collection[SegmentId] | None = None) -> Iterator[Part]:
        """Yield the parts to read; with ``roots``, only parts that may hold rows of these roots."""
        yield from self._with_origins(self._plain_parts(roots))

    def _plain_parts(self, roots: Collection[SegmentId] | None = None) -> Iterator[Part]:
        """Yield the parts without the origins of their rows."""
        if self.start is not None and self.state.table.kind.rules is not None:
            raise InvalidInput(
                f"{self.ports.uri} has a primary key: its windows are read by key, in this process "
                "(Table.scan, the command line), not by parts of files"
            )
        wanted = self._wanted()
        if self.start is None or not self.request.changes:
            yield from self._filtered(self.selection(roots))
        elif wanted is not None:
            yield from ChangeFeed(self.reader, self.ports.log, wanted).parts(self.start, self.state)

    def selection(self, roots: Collection[SegmentId] | None = None) -> Selection[Clipped]:
        """Return the segments to read, of a version or of rows added to it."""
        wanted = self._wanted()
        if wanted is None:
            return Selection.begun(PrunedBy.TIME_CHUNKS, ())
        return chosen_segments(self.ports, self.state, wanted, roots=roots, start=self.start)

    def chosen(self, selection: Selection[Clipped]) -> Iterator[Part]:
        """Yield the parts of a selection."""
        return self._with_origins(self._filtered(selection))

    def _with_origins(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield parts with the origins of their rows, if these are requested."""
        known, wanted = KnownOrigins(self.state.timeline), self.origin_columns
        for part in parts:
            yield replace(part, origins=known.of(part.segment)) if wanted else part

    def _filtered(self, selection: Selection[Clipped]) -> Iterator[Part]:
        """Yield the parts of a selection, with their row filters."""
        found = selection.left
        segments = (each.segment for each in found)
        filters = row_filters(self.ports.files, self.state, segments, self.ports.entries)
        for segment, clip in found:
            part = Part(segment=segment, row_filter=filters[segment.id], clip=clip)
            yield part if self.start is None else added_part(part, self.start)

    def readings(self, parts: Iterable[Part]) -> Iterator[tuple[Part, SegmentRead]]:
        """Yield parts, each with the read of its file for this scan."""
        reader, schema = self.reader, self._physical if self._rolls_up else None
        where = None if self._rolls_up else self.where  # rows are merged first, then filtered
        columns = None if self._rolls_up else self._needed
        for part in parts:
            asked = part.origins is not None and not self._rolls_up
            yield (
                part,
                reader.reading(part, columns=columns, schema=schema, where=where, addressed=asked),
            )

    @property
    def reader(self) -> PartReader:
        """Return the reader of the parts."""
        table, checked = self.state.table, self.request.checked
        ports = self.ports
        return PartReader(files=ports.files, table=table, checked=checked, views=ports.entries)

    def _wanted(self) -> Wanted | None:
        """Return the wanted rows as a test of segments; None if no row can be wanted."""
        interval, where = self.interval(), self.where
        if interval is None:
            return None
        return Wanted(
            interval=self.request.interval if where is None else interval,
            conditions=() if where is None else (where,),
            time_column=self.state.table.time_column,
            merged=self._rolls_up,
        )

    @property
    def _columns(self) -> pa.Schema:
        """Return the table's columns."""
        return to_arrow(self.state.table.schema)

    @property
    def _known(self) -> pa.Schema:
        """Return the columns that can be read: the table's, and those of a change feed."""
        known = self._columns
        return with_change_columns(known) if self.request.changes else known

    @property
    def _physical(self) -> pa.Schema:
        """Return the columns of files, hidden ones among them."""
        return physical_schema(self._columns, self.state.table.kind)

    @property
    def _needed(self) -> list[str]:
        """Return the columns to read: those of the rows and of the condition."""
        known = {*self._columns.names}
        stored = [name for name in self.schema.names if name in known]
        if self.where is None:
            return stored
        # a filter needs a column, or a batch would lose its number of rows
        time = [] if stored or self.where.columns else [self.state.table.time_column]
        return list(dict.fromkeys([*stored, *self.where.columns, *time]))

    @property
    def _rolls_up(self) -> bool:
        return self.request.rolled_up and self.state.table.kind.merges

    def _rows_in(self, part: Part) -> int:
        known = part.known_rows
        if known is not None:
            return known
        return sum(rows.num_rows for rows in self.reader.reading(part, columns=[]).batches())

    def _of_keys(self, rules: MergeRules) -> Iterator[pa.RecordBatch]:
        """Yield the rows, or the changes of rows, of a table with a primary key."""
        if self.start is not None and self.request.changes:
            return self._changes_of_keys(rules, self.start)
        return self._merged(rules)

    def _merged(self, rules: MergeRules) -> Iterator[pa.RecordBatch]:
        scan, watch = self.merged_scan(rules), self._watch(measured=False)
        watch.chosen(scan.found)
        yield from scan.batches()
        watch.ended()

    def merged_scan(self, rules: MergeRules) -> MergedScan:
        """Return the read of a table with a primary key."""
        start = self.start
        return MergedScan(
            files=self.ports.files,
            table=self.state.table,
            rules=rules,
            columns=self.schema.names,
            found=self.groups(rules),
            where=self.where,
            checked=self.request.checked,
            since=None if start is None else start.time,
            views=self.ports.entries,
            limited=self.request.limit is not None,
        )

    def groups(self, rules: MergeRules) -> Selection[FileGroup]:
        """Return the file groups to read of a table with a primary key."""
        wanted = self._wanted()
        if wanted is None:
            return Selection.begun(PrunedBy.TIME_CHUNKS, ())
        base_only = self.request.base_only
        found = chosen_groups(
            self.ports, self.state, rules, wanted, start=self.start, base_only=base_only
        )
        if base_only or self.start is not None or self._asks_for_keys(rules):
            return found
        return replace(found, left=with_settlements(self.ports, self.state, found.left))

    def _asks_for_keys(self, rules: MergeRules) -> bool:
        """Return whether the condition asks for some keys, of which a few pages are read."""
        if self.where is None:
            return False
        tests = record_tests(self.where.predicates, rules)
        return pinned_keys(tests, rules, self.state) is not None

    def _changes_of_keys(self, rules: MergeRules, start: State) -> Iterator[pa.RecordBatch]:
        """Yield the change feed of a table with a primary key."""
        reader = GroupReader(self.ports.files, self.state.table, checked=self.request.checked)
        names, asked = self.schema.names, self.request.interval
        feed = KeyedFeed(self.ports.log)
        for changed in feed.changes(start, self.state, reader, rules):
            for batch in labelled_rows(changed, reader, asked):
                matching = batch if self.where is None else self.where.keep(batch)
                yield matching.select(names)

    def _rolled_up(self) -> pa.Table:
        """Return the rows with those of equal keys merged; the condition filters the result.

        Raises:
            InvalidInput: the table has sketches, which only Spark can merge.
        """
        from airflow_provider_segtable.data.table_kinds import arrow_kind_of

        table, where = self.state.table, self.where
        kind = arrow_kind_of(table.kind)
        kind.check_readable()
        physical = self._physical
        watch = self._watch(measured=False)
        each = self.batches_of(self.readings(self._watched_parts(watch)))
        batches = (batch for _, some in each for batch in some)
        rows = pa.Table.from_batches(batches, physical)
        watch.ended()
        merged = visible(kind.merged(rows, table.time_column))
        if where is not None:
            kept = (where.keep(batch) for batch in merged.to_batches())
            merged = pa.Table.from_batches(kept, merged.schema)
        return merged.select(self.schema.names)


def _rows_of(one: tuple[Part, SegmentRead]) -> Iterator[pa.RecordBatch]:
    return one[1].batches()


def _size_of(one: tuple[Part, SegmentRead]) -> int:
    return one[1].segment.size


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table's batches; a table without columns keeps its number of rows."""
    if rows.column_names:
        yield from rows.to_batches()
    elif rows.num_rows:
        one = pa.record_batch([pa.nulls(rows.num_rows)], names=["none"])
        yield one.select([])
