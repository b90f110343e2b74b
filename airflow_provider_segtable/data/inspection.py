"""Inspecting one data file against its descriptor; reads only.

1. Footer: size, Parquet format, segment id, checksum, rows, row groups, columns.
2. Bytes: each block is compared with its checksum.
   Rows: their number; event times inside the time chunk and ``[time_min, time_max]``; sorted by
   ``clustering``; rollup events add up.
3. A lexicographic order is visible in the rows, so it is checked, across batches. A z-order is over
   ranks that only its writer had, so it is not checked. Ties are ordered by event time; where
   other columns come before it (``TableKind.tie_columns``), only the order's own are compared.
4. Root addresses: the hidden columns exist exactly if ``roots`` requires them. Every row has an
   address, its root is one of ``roots``, and no two rows have the same address.
5. Records of primary-key tables: sorted by key, keys unique, roots known
   (``data.keyed.group_reader``).
"""

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    ChecksumMismatch,
    CorruptTable,
    SchemaMismatch,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.recovery.diagnosis import disagreements
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.data.keyed.group_reader import RecordCheck
from airflow_provider_segtable.data.parquet.descriptor import (
    check_bytes,
    read_descriptor,
    read_observed,
)
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.data.row_filter import Numbers, hidden_of
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort_keys import column_codes, composed, is_sorted
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a file; ``code`` is a stable word."""

    code: str
    what: str


def stored(table: TableDefinition, number: int) -> pa.Schema:
    """Return the columns of a table's files of a schema."""
    return files_columns(table.schema_of(number), table.kind_of(number))


def inspect_footer(files: DataFiles, segment: Segment, table: TableDefinition) -> list[Problem]:
    """Check a file without decoding its rows.

    Raises:
        NotFound: the file is missing.
        UnsupportedFormat: written by a newer segtable.
    """
    problems: list[Problem] = []
    with files.open(segment.path) as source:
        if source.size != segment.size:
            sizes = f"it has {source.size} bytes, the log says {segment.size}"
            problems.append(Problem("wrong-size", sizes))
    try:
        found = _described(files, segment)
        names = _columns(files, segment.path)
    except (CorruptTable, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return [*problems, Problem("bad-footer", str(error))]
    if not segment.adopted and found.id != segment.file_id:
        whose = f"its footer says it is {found.id}, the log says {segment.file_id}"
        return [*problems, Problem("foreign-file", whose)]
    if segment.footer and found.footer != segment.footer:
        problem = "its footer, or an index before it, was damaged after it was written"
        problems.append(Problem("wrong-checksum", problem))
    problems += [Problem("wrong-footer", each) for each in disagreements(segment, found)]
    addresses = () if segment.traced else (ROOT, ROW)
    columns = _needed(stored(table, segment.schema), segment)
    missing = [name for name in (*columns, *addresses) if name not in names]
    if missing:
        problems.append(Problem("missing-columns", f"it lacks the columns {', '.join(missing)}"))
    stray = [name for name in (ROOT, ROW) if name in names and name not in addresses]
    if stray:
        shown = ", ".join(stray)
        problem = f"it has the columns {shown}, but the log says where its rows come from"
        problems.append(Problem("stray-addresses", problem))
    return problems


def _described(files: DataFiles, segment: Segment) -> Segment:
    if segment.adopted:
        return read_observed(files, segment)
    return read_descriptor(files, segment.path)


def _needed(columns: pa.Schema, segment: Segment) -> list[str]:
    """Return the columns that a segment's file must have; an adopted one may lack nullable ones."""
    return [each.name for each in columns if not (segment.adopted and each.nullable)]


def _columns(files: DataFiles, path: str) -> frozenset[str]:
    with files.open(path) as source, parquet_file(SourceFile(source)) as parquet:
        return frozenset(parquet.schema_arrow.names)


def inspect_bytes(files: DataFiles, segment: Segment) -> list[Problem]:
    """Compare every byte of a file with its checksums; no bytes if an older version wrote it.

    Raises:
        NotFound: the file is missing.
    """
    try:
        check_bytes(files, segment)
    except ChecksumMismatch as error:
        return [Problem("wrong-checksum", str(error))]
    except (CorruptTable, UnsupportedFormat):
        return []  # the footer and row checks report that
    return []


def inspect_rows(files: DataFiles, segment: Segment, table: TableDefinition) -> list[Problem]:
    """Decode and check every row of a file, without checksums; each code is reported once.

    Raises:
        NotFound: the file is missing.
    """
    seen = _Seen(segment=segment, table=table)
    rules = table.kind.rules
    try:
        seen.records = None if rules is None else RecordCheck.of(files, segment, rules)
        for batch in SegmentRead(
            files,
            segment,
            schema=stored(table, segment.schema),
            time_column=table.time_column,
            addressed=not segment.traced,
            checked=False,
        ).batches():
            seen.look(batch)
    except (CorruptTable, UnsupportedFormat, SchemaMismatch, pa.ArrowException, OSError) as error:
        return [*seen.problems.values(), Problem("unreadable-rows", str(error))]
    seen.close()
    return list(seen.problems.values())


@dataclass(slots=True)
class _Seen:
    """Checks of a file's rows so far; ``last`` is the last row's sort columns."""

    segment: Segment
    table: TableDefinition
    rows: int = 0
    events: int = 0
    last: pa.RecordBatch | None = None
    records: RecordCheck | None = None
    problems: dict[str, Problem] = field(default_factory=dict)
    numbers: dict[str, list[Numbers]] = field(default_factory=dict)

    def look(self, batch: pa.RecordBatch) -> None:
        """Check more rows."""
        if not batch.num_rows:
            return
        self._times(instants(batch.column(self.table.time_column)))
        self.rows += batch.num_rows
        if EVENTS in batch.schema.names:
            self.events += pc.sum(batch.column(EVENTS)).as_py() or 0
        if not self.segment.traced:
            self._addresses(batch)
        if self.records is None:
            self._order(batch)
            return
        for code, problem in self.records.look(batch):
            self._say(code, problem.__str__)

    def close(self) -> None:
        """Check the totals."""
        rows, events = self.segment.rows, self.segment.events
        if self.rows != rows:
            self._say(
                "wrong-rows", lambda: f"it has {counted(self.rows, 'row')}, the log says {rows}"
            )
        if EVENTS in stored(self.table, self.segment.schema).names and self.events != events:
            self._say(
                "wrong-events", lambda: f"{counted(self.events, 'event')}, the log says {events}"
            )
        for root, parts in self.numbers.items():
            found, times = np.unique(np.concatenate(parts), return_counts=True)
            if (times > 1).any():
                problem = f"row {found[np.argmax(times > 1)]} of {root} occurs twice"
                self._say("doubled-address", problem.__str__)

    def _say(self, code: str, problem: Callable[[], str]) -> None:
        if code not in self.problems:
            self.problems[code] = Problem(code, problem())

    def _addresses(self, batch: pa.RecordBatch) -> None:
        nulls = max(batch.column(name).null_count for name in (ROOT, ROW))
        if nulls:
            self._say("null-address", lambda: f"{counted(nulls, 'row')} without a root address")
            return
        roots, codes, numbers = hidden_of(batch)
        for code, root in enumerate(roots):
            some = numbers[codes == code]
            if not len(some):
                continue
            self.numbers.setdefault(root, []).append(some)
            if some.min() < 0 or not self._may_hold(root):
                problem = f"row {some.min()} of {root} is not in its inputs"
                self._say("foreign-address", problem.__str__)

    def _may_hold(self, root: str) -> bool:
        try:
            return self.segment.may_hold(SegmentId.parse(root))
        except CorruptTable:
            return False

    def _times(self, times: pa.Int64Array) -> None:
        segment, chunk = self.segment, self.segment.id.interval
        if times.null_count:
            self._say("null-time", lambda: f"{counted(times.null_count, 'row')} without event time")
        ends = pc.min_max(times)
        if ends["min"].as_py() is None:
            return
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low < chunk.start or high >= chunk.end:
            stray = low if low < chunk.start else high
            self._say("outside-chunk", lambda: f"a row at {iso(stray)} is outside {chunk}")
        if low < segment.time_min or high > segment.time_max:
            stray = low if low < segment.time_min else high
            bounds = f"{iso(segment.time_min)} to {iso(segment.time_max)}"
            self._say("outside-times", lambda: f"a row at {iso(stray)} is outside {bounds}")

    def _order(self, batch: pa.RecordBatch) -> None:
        order = Order.parse(self.segment.clustering)
        if not order.columns or order.curve != "lexicographic":
            return
        keys = pa.RecordBatch.from_pydict(dict(self._keys(batch, order)))
        whole = [keys] if self.last is None else [self.last, keys]
        joined = pa.Table.from_batches(whole)
        codes = [
            column_codes(column, column.slice(0, 0))
            for column in (_flat(joined.column(name)) for name in joined.column_names)
        ]
        if not is_sorted(composed(codes)):
            self._say("unsorted", lambda: f"its rows are not sorted by {order}")
        self.last = keys.slice(keys.num_rows - 1)

    def _keys(self, batch: pa.RecordBatch, order: Order) -> Iterator[tuple[str, pa.Array]]:
        for name in order.columns:
            yield name, batch.column(name)
        time = self.table.time_column
        if time in self.table.kind.tie_columns(time)[:1]:
            yield "__time", instants(batch.column(time))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
