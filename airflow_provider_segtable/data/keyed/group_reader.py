"""Read the files of one file group as runs of records, and check such files.

Files of primary-key tables: their names, their runs, and the roots of their records.

1. Names have the form of RFC-66: ``<bucket>_<instant>.log.<version>_<token>.parquet`` for log
   files, ``<bucket>_<token>_<instant>.parquet`` for base files, below the folder of the time chunk.
   The token is unguessable, and every author has its own, so no two authors ever share a name.
2. The root of a record is the number in the id that its log file was written with: it is random,
   and stays the file's own wherever the log puts the file.
3. A log file's records have one root, its own, which its descriptor and its name describe. If its
   name has ``IN_ORDER`` for the instant, the log orders it: by the time of its commit. A file
   that compaction wrote has records of many roots; its footer describes the roots of its
   rows (``ROOTS``).
4. All files are sorted by key, so a file is a run as it is. The files of a base are one run.

The columns of records, and of the rows that readers see:

5. Files of earlier schemas are read in the table's present columns, hidden ones included, by the
   ids of columns (``data.parquet.table_file``).
6. With ``partial_update`` a record that lacks a column does not set it, so it has no default: a
   null stays null through all merges, and the default is put in for the readers of a merged row.
   Else a late record of an earlier schema would set a default over another record's value.
7. With ``latest`` a record is the whole row: it has the defaults of the columns that its file
   lacks.

Runs of a file group:

8. The runs share the rows that are held at once, in proportion to their own rows. So a window of
   keys takes about one batch of each run (``data.keyed.merging.merge_runs``), and memory does not
   grow with the number of runs.

Checks of a file's records (the check itself reads nothing; the caller passes the rows):

9. A file is sorted by key and has one row for a key; with ``partial_update`` up to two, a tombstone
   and then an upsert.
10. The operation is a known one, and every root is known: ``OWN`` in a log file, in other files one
    of the roots that the footer describes.
"""

import base64
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    GROUPS_ONLY,
    OP,
    OWN,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    MergeRules,
)
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import sorted_run
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.files_ahead import loaded_ahead
from airflow_provider_segtable.data.keyed.key_groups import SCHEMA, Root
from airflow_provider_segtable.data.keyed.keyed_rows import Part, with_root
from airflow_provider_segtable.data.keyed.merging import OneBatch
from airflow_provider_segtable.data.open_files import is_remote, open_known
from airflow_provider_segtable.data.parquet.checked_tail import Views
from airflow_provider_segtable.data.parquet.descriptor import (
    CheckedSource,
    OpenedOnce,
    SegmentFiles,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.data.parquet.segment_scan import BATCH_ROWS, WHOLE, SegmentRead
from airflow_provider_segtable.data.parquet.table_file import (
    default_of,
    files_columns,
    plain_columns,
    stored_columns,
)
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.rows import with_columns
from airflow_provider_segtable.data.sort_keys import column_codes, composed
from airflow_provider_segtable.ports.files import DataFiles

# Names and roots of files
ROOTS = b"segtable.roots"
IN_ORDER: Instant = 0
"""Stands, in the name of a log file, for the time of its commit."""
_LOG = re.compile(
    r"(?P<bucket>\d+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_(?P<token>\w+)\.parquet"
)


def log_path(segment_id: SegmentId, instant: Instant, version: int, token: str) -> str:
    """Return the path of a log file; ``version`` counts the files of one write in the bucket."""
    name = f"{segment_id.bucket}_{instant}.log.{version}_{token}.parquet"
    return f"data/{segment_id.interval.name}/{name}"


def base_path(segment_id: SegmentId, instant: Instant, token: str) -> str:
    """Return the path of a base file; the later-generation id is unique within one write."""
    name = f"{segment_id.bucket}_{segment_id.partition}-{token}_{instant}.parquet"
    return f"data/{segment_id.interval.name}/{name}"


def own_root(segment: Segment) -> Root:
    """Return the root that a log file is.

    Raises:
        CorruptTable: its name is not that of a log file.
    """
    found = _LOG.fullmatch(segment.path.rpartition("/")[2])
    if not found:
        raise CorruptTable(
            f"{segment.path} of segment {segment.id} is neither a log file by its name, nor does "
            "its footer describe its records: restore the file"
        )
    return Root(
        partition=segment.file_id.partition,
        instant=int(found["instant"]) or segment.completed,
        log_version=int(found["version"]),
        write_token=found["token"],
        completed=segment.completed,
    )


def roots_in(files: DataFiles, segments: Iterable[Segment]) -> pa.Table:
    """Return the roots of the records in some files, as a table of ``root_orders.SCHEMA``.

    The files are not checked here.
    """
    filled = [segment for segment in segments if segment.rows]
    found = [described_roots(files, segment) for segment in filled]
    logs = (one for one, roots in zip(filled, found, strict=True) if roots is None)
    return pa.concat_tables([own_roots(logs), *(roots for roots in found if roots is not None)])


def own_roots(logs: Iterable[Segment]) -> pa.Table:
    """Return the roots that log files are, as a table; errors as ``own_root``."""
    roots = [own_root(segment) for segment in logs]
    columns = [[getattr(root, name) for root in roots] for name in SCHEMA.names]
    return pa.table(columns, schema=SCHEMA)


def described_roots(files: DataFiles, segment: Segment) -> pa.Table | None:
    """Return the roots that a file's footer describes; None of a log file, which is its own root.

    Raises:
        CorruptTable: the entry of the footer is broken.
    """
    with open_known(files, segment.path, segment.size) as source:
        entry = (
            source.tail.entries
            if isinstance(source, CheckedSource)
            else read_footer(source).metadata
        ).get(ROOTS)
    return None if entry is None else _decoded(entry, segment)


def merged_roots(metadata: Mapping[bytes, bytes], segment: Segment) -> tuple[int, ...]:
    """Return the numbers of the roots that a footer describes; none of a log file.

    Raises:
        CorruptTable: the entry is broken.
    """
    entry = metadata.get(ROOTS)
    if entry is None:
        return ()
    numbers: list[int] = _decoded(entry, segment).column("partition").to_pylist()
    return tuple(numbers)


def roots_entry(roots: pa.Table) -> dict[bytes, bytes]:
    """Return the footer entry that describes the roots of a file's records."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(roots)
    return {ROOTS: base64.b64encode(sink.getvalue())}


def _decoded(entry: bytes, segment: Segment) -> pa.Table:
    try:
        with pa.ipc.open_stream(base64.b64decode(entry, validate=True)) as reader:
            found = reader.read_all()
        return found.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptTable(
            f"{segment.path} of segment {segment.id}: the footer's roots are broken ({error})"
        ) from None


def run_of(reads: Iterable[SegmentRead]) -> Iterator[pa.Table]:
    """Yield the rows of one run's files that match, with their roots.

    Args:
        reads: the files, in the order of their ids; a condition's columns are among those read.
    """
    for read in reads:
        for kept in read.matching():
            yield with_root(pa.Table.from_batches([kept]), read.segment.file_id.partition)


def as_run(
    reads: Sequence[SegmentRead], rows: Iterator[pa.Table], *, beside: bool = False
) -> Iterable[pa.Table]:
    """Return the rows of a run's files, as one batch if they are few; see ``OneBatch``."""
    few = sum(read.segment.rows for read in reads) <= reads[0].batch_rows
    return OneBatch(rows, beside) if few else rows


# The columns of records and of shown rows
@dataclass(slots=True)
class _Known:
    """The columns of the tables that were asked for last, by the identity of their definitions.

    A read asks for them several times for each file, and to compare definitions would take longer.
    """

    tables: tuple[tuple[TableDefinition, pa.Schema, pa.Schema], ...] = ()

    def of(self, table: TableDefinition) -> tuple[TableDefinition, pa.Schema, pa.Schema]:
        """Return a table, and its columns with ids and without."""
        for known in self.tables:
            if known[0] is table:
                return known
        kind = table.kind
        columns = files_columns(kind.input_schema(table.schema, table.time_column), kind)
        found = table, columns, plain_columns(columns)
        self.tables = (found, *self.tables[:_KNOWN_TABLES])
        return found


_KNOWN_TABLES = 7
_KNOWN = _Known()


def record_columns(table: TableDefinition) -> pa.Schema:
    """Return the columns of a table's files to read records by, with ids."""
    return _KNOWN.of(table)[1]


def shown_defaults(table: TableDefinition) -> dict[str, pa.Scalar]:
    """Return the values other than null that readers see where no record has set a column."""
    rules = table.kind.rules
    if rules is None or not rules.partial:
        return {}
    found = {field.name: default_of(field) for field in stored_columns(table.schema)}
    return {name: value for name, value in found.items() if value.is_valid}


def with_defaults(rows: pa.Table, defaults: dict[str, pa.Scalar]) -> pa.Table:
    """Return merged rows with defaults in place of nulls."""
    given = {*rows.column_names}
    filled = {
        name: pc.fill_null(rows.column(name), value)
        for name, value in defaults.items()
        if name in given and rows.column(name).null_count
    }
    return with_columns(rows, filled)


# Runs of a file group
_ROWS_HELD = 262_144
_BYTES_HELD = 32 << 20
_LEAST = 1_024


View = TypeVar("View")
Filters = Mapping[SegmentId, RowFilter]
_NO_FILTERS: Filters = {}


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads file groups of a table; ``checked`` compares bytes with their checksums.

    ``views`` has tails of files that were read before, ``fates`` those of rows, which are computed
    once a process (``data.keyed.settled_rows``). Threads read small runs ``beside`` each other
    where a read is a round trip: on a disk they would wait for Python's lock, and take half as long
    again as one thread. Files are opened for each use, unless the reader is one of ``opened``.
    """

    files: DataFiles
    table: TableDefinition
    checked: bool = True
    views: Views | None = None
    fates: Views | None = None
    beside: bool = False

    def known(self, key: Hashable, made: Callable[[], tuple[View, int]]) -> View:
        """Return what the process knows of a file group's rows; made anew if it keeps nothing."""
        return made()[0] if self.fates is None else self.fates.view(key, made)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the records, with the hidden columns."""
        return _KNOWN.of(self.table)[2]

    @contextmanager
    def ahead(self, segments: Iterable[Segment]) -> Iterator["GroupReader"]:
        """Return a reader that loads small files whole, before they are read, from a store."""
        small = [segment for segment in _in_turn(segments) if segment.size <= WHOLE]
        with loaded_ahead(self.files, small) as files:
            yield replace(self, files=files)

    @contextmanager
    def opened(self, segments: Iterable[Segment]) -> Iterator["GroupReader"]:
        """Return a reader that opens each file of the segments once, and checks it then.

        Files of a store are opened beside each other. Small ones are loaded whole, unless tails are
        kept: then a condition leaves few pages to read.
        """
        given, remote = [*segments], is_remote(self.files)
        with ExitStack() as until:
            ahead = self if self.views is not None else until.enter_context(self.ahead(given))
            checked = SegmentFiles(ahead.files, given, views=self.views)
            once = OpenedOnce(checked if self.checked else ahead.files, until)
            if remote:
                once.open_all(segment.path for segment in _in_turn(given))
            yield replace(self, files=once, checked=False, beside=remote)

    def roots(self, segments: Iterable[Segment]) -> pa.Table:
        """Return the roots of the records in files, as a table of ``root_orders.SCHEMA``."""
        return roots_in(self.files, segments)

    def runs(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        part: Part | None = None,
        filters: Filters = _NO_FILTERS,
        words: Sequence[str] = (),
    ) -> list[Iterable[pa.Table]]:
        """Return the sorted runs of the segments.

        Args:
            segments: segments of one file group, or with a part, of several.
            columns: the columns to read, hidden ones among them; all if None.
            where: only rows that match; its columns are among those read.
            part: only rows of this part; all rows if None.
            filters: row filters of files, by segment; all rows of the others.
            words: columns to return as dictionaries.
        """
        reads = self.reads(segments, columns, where, filters=filters, words=words)
        return [self._run(group, part) for group in reads]

    def reads(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        *,
        filters: Filters = _NO_FILTERS,
        addressed: bool = False,
        words: Sequence[str] = (),
    ) -> list[list[SegmentRead]]:
        """Return the reads of the files with rows, by run.

        Arguments as for ``runs``; ``addressed`` adds the segment and the row number of each row.
        """
        ordered = _in_turn(segments)
        groups = groupby(ordered, key=lambda s: (s.id.chunk, sorted_run(s)))
        share, schema = _share(ordered), record_columns(self.table)
        return [
            [
                SegmentRead(
                    self.files,
                    segment,
                    schema=schema,
                    time_column=self.table.time_column,
                    columns=columns,
                    checked=self.checked,
                    where=where,
                    row_filter=_filter_of(segment, filters, addressed=addressed),
                    addressed=addressed,
                    batch_rows=min(BATCH_ROWS, max(_LEAST, held)),
                    views=self.views,
                    words=words,
                )
                for segment in group
            ]
            for group in ([*some] for _, some in groups)
            for held in [int(share * sum(segment.rows for segment in group))]
        ]

    def repeating(self, segments: Iterable[Segment], rules: MergeRules) -> list[str]:
        """Return the columns of few distinct values in all files, by which no row is compared."""
        compared = {*rules.key, rules.ordering, *rules.fixed, *(g.ordering for g in rules.groups)}
        reads = (read for run in self.reads(segments) for read in run)
        found = [read.repeating() for read in reads]
        some = set.intersection(*found) if found else set()
        return sorted(name for name in some if name not in compared and not name.startswith(HIDDEN))

    def plain(
        self,
        segment: Segment,
        columns: Sequence[str],
        where: Condition | None,
        row_filter: RowFilter,
        clip: Interval | None,
    ) -> SegmentRead:
        """Return the read of rows of a file that are shown as they are.

        Args:
            segment: the file.
            columns: the columns to read, in order.
            where: leave out row groups in which no row matches.
            row_filter: the rows.
            clip: only rows with event times in it.
        """
        return SegmentRead(
            self.files,
            segment,
            schema=record_columns(self.table),
            time_column=self.table.time_column,
            columns=columns,
            clip=clip,
            row_filter=row_filter,
            checked=self.checked,
            where=where,
            views=self.views,
        )

    def _run(self, group: Sequence[SegmentRead], part: Part | None) -> Iterable[pa.Table]:
        run = as_run(group, run_of(group), beside=self.beside)
        if part is None or all(part.encloses(read.segment) for read in group):
            return run
        time_column = self.table.time_column
        return (rows.filter(pa.array(part.of(rows, time_column))) for rows in run)


def _in_turn(segments: Iterable[Segment]) -> list[Segment]:
    """Return the files with rows, in the order in which they are read."""
    filled = (segment for segment in segments if segment.rows)
    return sorted(filled, key=lambda s: (s.id.chunk, -s.shard.base, s.shard.group, s.id))


def _filter_of(segment: Segment, filters: Filters, *, addressed: bool) -> RowFilter | None:
    """Return a file's row filter: the given one, or one that leaves all rows and numbers them."""
    found = filters.get(segment.id)
    if found is None and addressed:
        return RowFilter.by_number(segment)
    return found


def _share(segments: Sequence[Segment]) -> float:
    """Return the share of their rows that may be held at once."""
    rows = sum(segment.rows for segment in segments)
    size = sum(segment.size for segment in segments)
    return min(_ROWS_HELD / max(1, rows), _BYTES_HELD / max(1, size))


# Checks of a file's records
Fault = tuple[str, str]
"""A stable word, and a sentence."""


@dataclass(slots=True, kw_only=True)
class RecordCheck:
    """The check of one file; ``last`` is the last row's key and operation.

    Attributes:
        rules: how the records of a key become its row.
        roots: the roots that its rows may name.
        last: the last row that was seen.
    """

    rules: MergeRules
    roots: pa.Array
    last: pa.Table | None = None

    @staticmethod
    def of(files: DataFiles, segment: Segment, rules: MergeRules) -> "RecordCheck":
        """Return the check of a file.

        Raises:
            CorruptTable: the footer does not describe its roots.
        """
        known = described_roots(SegmentFiles(files, [segment]), segment)
        own = pa.array([OWN], pa.int64())
        return RecordCheck(rules=rules, roots=own if known is None else known.column("partition"))

    def look(self, batch: pa.RecordBatch) -> Iterator[Fault]:
        """Yield the faults of more rows."""
        rows = pa.Table.from_batches([batch]).select([*self.rules.key, OP])
        joined = rows if self.last is None else pa.concat_tables([self.last, rows])
        yield from self._keys(joined)
        self.last = rows.slice(rows.num_rows - 1)
        if not np.isin(np.asarray(batch.column(OP)), (UPSERT, DELETE, GROUPS_ONLY)).all():
            yield "unknown-operation", "a row is neither an upsert nor a delete"
        yield from self._roots(batch)

    def _keys(self, rows: pa.Table) -> Iterator[Fault]:
        codes = []
        for name in self.rules.key:
            column = pa.concat_arrays(rows.column(name).chunks)
            if column.null_count:
                yield "null-key", f"{counted(column.null_count, 'row')} without {name}"
            codes.append(column_codes(column, column.slice(0, 0)))
        order = composed(codes).rows
        if (order[1:] < order[:-1]).any():
            yield "unsorted", f"its rows are not sorted by {', '.join(self.rules.key)}"
        deletes = np.asarray(rows.column(OP)) == DELETE
        pair = deletes[:-1] & ~deletes[1:] if self.rules.partial else False
        twice = np.flatnonzero((order[1:] == order[:-1]) & ~np.asarray(pair, bool))
        if len(twice):
            key = rows.select(list(self.rules.key)).slice(int(twice[0]), 1).to_pylist()[0]
            yield "doubled-key", f"key {key} occurs twice"

    def _roots(self, batch: pa.RecordBatch) -> Iterator[Fault]:
        for name in batch.schema.names:
            if name != ROOT_PARTITION and not name.startswith(ROOT_OF):
                continue
            found = pc.unique(batch.column(name)).drop_null()
            strange = found.filter(pc.invert(pc.is_in(found, value_set=self.roots)))
            if len(strange) or (name == ROOT_PARTITION and batch.column(name).null_count):
                which = f"root {strange[0]}" if len(strange) else "no root"
                yield "unknown-root", f"a row has {which} in {name}, which nothing describes"
