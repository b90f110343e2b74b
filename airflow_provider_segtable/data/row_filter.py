"""Row filters: the root addresses of a segment's rows, and which rows are deleted.

1. A row filter is plain data that can be sent to a task. The reader of a segment's file applies it
   to each batch, to add root addresses, to drop deleted rows, or to choose rows by address.
2. Addresses come from the segment's runs. If it has none, they come from the file's hidden columns
   (``ROOT``, ``ROW``), which every batch must then include.
3. In a rollup table rows have no address; its deletes are predicates over visible columns.
4. Tasks receive deletion vectors as sets of row numbers in packed bits (``Bits``).
5. Hidden columns show the origin of rows (``core.reads.effects``), as Arrow (``ORIGIN``).
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import Predicate, columns_of
from airflow_provider_segtable.core.reads.effects import Origin, Origins, RowChange
from airflow_provider_segtable.core.requests.read_request import COMPLETION_TIME, INSTANT
from airflow_provider_segtable.core.segment import ROOT, ROW, Run, Segment, SegmentId
from airflow_provider_segtable.core.tables.field_ids import HIDDEN_IDS
from airflow_provider_segtable.data.arrow_schema import FIELD_ID
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.rows import labelled
from airflow_provider_segtable.data.sort_keys import Indices

# Sets of row numbers as packed bits
Bits: TypeAlias = bytes
"""A set of row numbers as compressed packed bits, least significant bit first."""

Flags: TypeAlias = npt.NDArray[np.bool_]


def bits_of(rows: Sequence[int] | npt.NDArray[np.uint32]) -> Bits:
    """Return ascending row numbers as bits."""
    flags = np.zeros(rows[-1] + 1 if len(rows) else 0, np.bool_)
    flags[np.asarray(rows, dtype=np.int64)] = True
    return zlib.compress(np.packbits(flags, bitorder="little").tobytes(), level=1)


def flags_of(bits: Bits) -> Flags:
    """Return the bits as flags from row 0 on; rows after the last flag are not in the set."""
    return np.unpackbits(_unzipped(bits), bitorder="little").view(np.bool_)


@lru_cache(maxsize=1024)
def packed_of(bits: Bits) -> npt.NDArray[np.uint8]:
    """Return the bits, eight rows a byte; cached, since every batch needs them."""
    return _unzipped(bits)


def flags_between(bits: Bits, start: int, rows: int) -> Flags:
    """Return flags of ``rows`` rows from ``start`` on; fewer if the bits end before."""
    skipped = start % 8
    some = packed_of(bits)[start // 8 : -(-(start + rows) // 8)]
    return np.unpackbits(some, bitorder="little")[skipped : skipped + rows].view(np.bool_)


def count_between(bits: Bits, start: int, rows: int) -> int:
    """Return how many of ``rows`` rows from ``start`` on are in a set, without a flag for each."""
    packed, end = packed_of(bits), start + rows
    inner = packed[-(-start // 8) : end // 8]
    if len(inner) < 2 or not hasattr(np, "bitwise_count"):
        return int(flags_between(bits, start, rows).sum())
    edges = (flags_between(bits, start, -start % 8), flags_between(bits, end - end % 8, end % 8))
    return int(np.bitwise_count(inner).sum()) + sum(int(some.sum()) for some in edges)


def _unzipped(bits: Bits) -> npt.NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(bits), np.uint8)


# Row filters of segments
Rows: TypeAlias = pa.Table | pa.RecordBatch
AnyRows = TypeVar("AnyRows", pa.Table, pa.RecordBatch)
Numbers: TypeAlias = npt.NDArray[np.int64]
RowSets: TypeAlias = Mapping[str, Bits | None]
"""Row numbers by root, as text; None stands for all rows of a root."""

ROOT_TYPE = pa.dictionary(pa.int32(), pa.string())
ADDRESS: "tuple[pa.Field[Any], ...]" = (
    pa.field(ROOT, pa.string(), nullable=False, metadata={FIELD_ID: str(HIDDEN_IDS)}),
    pa.field(ROW, pa.int64(), nullable=False, metadata={FIELD_ID: str(HIDDEN_IDS + 1)}),
)
"""The hidden columns, as files store them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The addresses and the deletes of one segment's rows.

    Attributes:
        runs: the rows' lineage; empty when stored in hidden columns or not needed.
        deleted: deleted row numbers by root (as text), of the deletes that apply to the segment.
        predicates: predicate deletes of a rollup table: matching rows are deleted.
        chosen: only these rows; all if None.
    """

    runs: tuple[Run, ...] = ()
    deleted: Mapping[str, Bits] = field(default_factory=dict)
    predicates: tuple[Predicate, ...] = ()
    chosen: RowSets | None = None

    @staticmethod
    def by_number(
        segment: Segment, *, deleted: Bits = b"", chosen: Bits | None = None
    ) -> "RowFilter":
        """Return a filter of a file's rows by their numbers in it; all rows without sets."""
        name = str(segment.id)
        return RowFilter(
            runs=(Run(segment.id, 0, segment.rows),),
            deleted={name: deleted} if deleted else {},
            chosen=None if chosen is None else {name: chosen},
        )

    @staticmethod
    def idle(segment: Segment) -> "RowFilter":
        """Return the row filter of a segment without deleted rows."""
        return RowFilter(runs=segment.runs)

    @property
    def passes_all(self) -> bool:
        """Return whether no row is left out: no deletes apply, and all rows are chosen."""
        return not self.deleted and not self.predicates and self.chosen is None

    @property
    def holds_back(self) -> bool:
        """Return whether a row is deleted; without runs, whether one may be."""
        return not self.passes_all and (not self.runs or self.deleted_rows() > 0)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns that ``kept`` needs."""
        addressed = self.deleted or self.chosen is not None
        hidden = (ROOT, ROW) if addressed and not self.runs else ()
        named = (name for predicate in self.predicates for name in columns_of(predicate))
        return (*hidden, *dict.fromkeys(named))

    def kept(self, rows: Rows, first: int) -> Flags | None:
        """Return flags of the live rows; None if no row is deleted.

        Args:
            rows: consecutive rows of the file, with the columns of ``reads`` at least.
            first: the number of the first one in the file.
        """
        if self.passes_all:
            return None
        gone = np.zeros(rows.num_rows, np.bool_)
        for predicate in self.predicates:
            gone |= _flags(pc.fill_null(matches(rows, predicate), False))
        if self.deleted:
            gone |= self._among(self.deleted, rows, first)
        if self.chosen is not None:
            gone |= ~self._among(self.chosen, rows, first)
        return ~gone if gone.any() else None

    def sifted(self, rows: AnyRows, first: int) -> AnyRows:
        """Return the live rows."""
        if len(self.runs) == 1 and self.chosen is None and not self.predicates:
            kept = _kept_of_run(self.runs[0], self.deleted, rows.num_rows, first)
        else:
            flags = self.kept(rows, first)
            kept = None if flags is None else pa.array(flags)
        return rows if kept is None else _filtered(rows, kept)

    def gone(self) -> Flags:
        """Return flags of the file's rows that are left out; requires runs."""
        count = sum(run.rows for run in self.runs)
        return self._gone_between(0, count)

    def deleted_rows(self) -> int:
        """Return the number of rows that are left out; requires runs."""
        if self.chosen is not None or self.predicates:
            return int(self.gone().sum())
        named = ((run, self.deleted.get(str(run.root))) for run in self.runs)
        return sum(count_between(b, run.start, run.rows) for run, b in named if b is not None)

    def may_keep(self, first: int, count: int) -> bool:
        """Return whether a row may be left of ``count`` rows of the file from ``first`` on."""
        return not self.runs or not count or not self._gone_between(first, count).all()

    def _gone_between(self, first: int, count: int) -> Flags:
        gone = _by_runs(self.runs, self.deleted, count, first)
        if self.chosen is not None:
            gone |= ~_by_runs(self.runs, self.chosen, count, first)
        return gone

    def _among(self, sets: RowSets, rows: Rows, first: int) -> Flags:
        """Return flags of the rows whose addresses are in the sets."""
        if self.runs:
            return _by_runs(self.runs, sets, rows.num_rows, first)
        return _by_columns(sets, rows)

    def addressed(self, rows: AnyRows, first: int) -> AnyRows:
        """Return rows with the hidden columns, added from the runs if the segment has any."""
        if not self.runs:
            return rows
        names: dict[str, int] = {}
        codes = np.empty(rows.num_rows, np.int32)
        numbers = np.empty(rows.num_rows, np.int64)
        for at, run in _overlapping(self.runs, first, rows.num_rows):
            codes[at : at + run.rows] = names.setdefault(str(run.root), len(names))
            numbers[at : at + run.rows] = np.arange(run.start, run.start + run.rows)
        roots = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names), pa.string()))
        return rows.append_column(ROOT, roots).append_column(ROW, pa.array(numbers))


def _flags(column: pa.BooleanArray | pa.ChunkedArray) -> Flags:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _kept_of_run(
    run: Run, deleted: Mapping[str, Bits], count: int, first: int
) -> pa.BooleanArray | None:
    """Return flags of the live rows among ``count`` rows of a file that is one run; None if all.

    The bits of a set are Arrow's own: no row is looked at in Python.
    """
    bits = deleted.get(str(run.root))
    if not bits or not count:
        return None
    start = run.start + first
    some = packed_of(bits)[start // 8 : -(-(start + count) // 8)]
    missing = -(-(start % 8 + count) // 8) - len(some)
    if missing:
        some = np.concatenate([some, np.zeros(missing, np.uint8)])
    buffers = [None, pa.py_buffer(some)]
    gone = pa.BooleanArray.from_buffers(pa.bool_(), count, buffers, 0, start % 8)
    return pc.invert(gone) if gone.true_count else None


_FEW = 0.2
"""The share of filtered rows up to which columns are filtered one by one.

A batch is filtered by row numbers, which costs twice as much if most rows stay.
"""


def _filtered(rows: AnyRows, kept: pa.BooleanArray) -> AnyRows:
    if not isinstance(rows, pa.RecordBatch) or len(kept) - kept.true_count > _FEW * len(kept):
        return rows.filter(kept)
    if not rows.num_columns:
        return rows.slice(0, kept.true_count)
    columns = [column.filter(kept) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


_NONE = np.zeros(0, np.uint8)


def _by_runs(runs: Sequence[Run], sets: RowSets, count: int, first: int) -> Flags:
    found = np.zeros(count, np.bool_)
    for at, run in _overlapping(runs, first, count) if sets else ():
        name = str(run.root)
        if name not in sets:
            continue
        bits = sets[name]
        if bits is None:
            found[at : at + run.rows] = True
        else:
            flags = flags_between(bits, run.start, run.rows)
            found[at : at + len(flags)] = flags
    return found


def _by_columns(sets: RowSets, rows: Rows) -> Flags:
    names, codes, numbers = hidden_of(rows)
    whole = np.array([n in sets and sets[n] is None for n in names], np.bool_)
    given = [sets.get(name) for name in names]
    bits = [_NONE if some is None else packed_of(some) for some in given]
    lengths = np.array([len(some) for some in bits], np.int64)
    starts = np.cumsum(lengths) - lengths
    known = numbers >> 3 < lengths[codes]
    row = numbers[known]
    eight = np.concatenate([*bits, _NONE])[starts[codes[known]] + (row >> 3)]
    found = whole[codes]
    found[known] = eight >> (row & 7).astype(np.uint8) & 1
    return found


def hidden_of(rows: Rows) -> tuple[list[str], npt.NDArray[np.int32], Numbers]:
    """Return the hidden columns' roots, each row's index into the roots, and its row number."""
    if not rows.num_rows:
        return [], np.zeros(0, np.int32), np.zeros(0, np.int64)
    roots = rows.column(ROOT)
    if isinstance(roots, pa.ChunkedArray):
        roots = roots.unify_dictionaries().combine_chunks()
    coded = roots if pa.types.is_dictionary(roots.type) else roots.dictionary_encode()
    numbers = np.asarray(rows.column(ROW).to_numpy(), dtype=np.int64)
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False), numbers


def _overlapping(runs: Sequence[Run], first: int, count: int) -> Iterator[tuple[int, Run]]:
    """Yield the parts of runs among ``count`` rows from ``first`` on, each with its offset."""
    at = -first
    for run in runs:
        low, high = max(at, 0), min(at + run.rows, count)
        if low < high:
            yield low, Run(run.root, run.start + low - at, high - low)
        at += run.rows
        if at >= count:
            return


def with_addresses(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the hidden columns last, whether it has them already or not."""
    shown = [field for field in schema if field.name not in (ROOT, ROW)]
    return pa.schema([*shown, *ADDRESS])


def row_filter_of(row_filters: Mapping[SegmentId, RowFilter], segment: Segment) -> RowFilter:
    """Return a segment's row filter; an idle one if none is given."""
    return row_filters.get(segment.id) or RowFilter.idle(segment)


# Columns of the origin of rows
_TIME = pa.timestamp("us", tz="UTC")
ORIGIN = pa.schema([(INSTANT, _TIME), (COMPLETION_TIME, _TIME)])
"""The columns; null where the origin is unknown."""


def with_origin_columns(known: pa.Schema) -> pa.Schema:
    """Return a table's columns, and those hidden ones whose names it does not have."""
    names = {*known.names}
    return pa.schema([*known, *(field for field in ORIGIN if field.name not in names)])


def with_origins(rows: pa.RecordBatch, origins: Origins, names: Sequence[str]) -> pa.RecordBatch:
    """Return rows, which have the address columns, with the hidden columns ``names``."""
    roots, codes, _ = hidden_of(rows)
    found = [origins.get(root, Origin(0, 0)) for root in roots]
    columns = {
        INSTANT: np.array([each.instant for each in found], np.int64)[codes],
        COMPLETION_TIME: np.array([each.completed for each in found], np.int64)[codes],
    }
    for name in names:
        rows = rows.append_column(ORIGIN.field(name), times_of(columns[name]))
    return rows


def read_columns(
    rows: pa.RecordBatch,
    *,
    origins: Origins | None,
    change: RowChange | None,
    names: Sequence[str],
) -> pa.RecordBatch:
    """Return rows with the columns that a read adds to the table's: origins, or their change."""
    shown = rows if origins is None else with_origins(rows, origins, names)
    return shown if change is None else labelled(shown, change)


def times_of(micros: Indices) -> pa.Array:
    """Return times in µs as a column; 0 is null."""
    return pa.array(micros, mask=micros == 0).cast(_TIME)
