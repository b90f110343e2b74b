"""Divide a file group into rows that are shown as they are, and rows that are merged at read.

1. Each row of a file has one fate over the files of its group (``row_fates``). Readers show
   rows that are neither lost nor tombstones nor open, in any columns, as those of plain files. They
   merge only the open rows (``partial_update``).
2. Fates are computed from known ones: by a settlement of the version, or by the largest sorted run
   of the group. That run has one row for each key, so these are shown unless they are tombstones;
   statistics in the footers tell where there are none, and nothing is read to find that out.
3. The other files are the *tail*. Rows of known files with a key of the tail are *touched*: they
   and the tail are merged, and get other fates. No other row is looked at. Lost rows are not
   touched: they are lower than a row that is, and merging takes maxima
   (``core.tables.merge_rules``).
4. A process keeps the fates of each group in memory, and goes on from them when files were added
   (``KnownFates``). So after a commit the first read looks at its keys, and later reads at none.
5. A read of few keys asks for fates at hand only: it merges the records of its keys otherwise.
6. A group whose tail has more rows than the known files is not divided: all of it is merged.
7. A division is plain data: file descriptors and row filters. Any reader may use it, also in tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import AllOf, Compare, Compares
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.core.timeline import sorted_run
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.keyed.group_reader import GroupReader, as_run
from airflow_provider_segtable.data.keyed.key_groups import Flags, KeyGroups, RootOrders
from airflow_provider_segtable.data.keyed.keyed_rows import with_root
from airflow_provider_segtable.data.keyed.merging import key_codes, latest, windows
from airflow_provider_segtable.data.keyed.row_fates import (
    Fates,
    FileFates,
    RowFates,
    RowNumbers,
    row_numbers,
)
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import RowFilter, bits_of
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.data.sort_keys import Indices, whole


# Divisions
@dataclass(frozen=True, slots=True)
class Filtered:
    """A file, the filter of its rows, and the number of rows that it leaves."""

    segment: Segment
    row_filter: RowFilter
    rows: int


@dataclass(frozen=True, slots=True)
class Division:
    """The rows of a file group: shown as they are (``plain``), and to be merged (``rest``)."""

    plain: tuple[Filtered, ...]
    rest: tuple[Filtered, ...]

    @property
    def filters(self) -> dict[SegmentId, RowFilter]:
        """Return the filters of the rest, by segment."""
        return {each.segment.id: each.row_filter for each in self.rest}


def divided(
    reader: GroupReader,
    segments: Sequence[Segment],
    rules: MergeRules,
    settled: Fates | None = None,
    *,
    at_hand: bool = False,
) -> Division | None:
    """Return the division of a file group; None if all of it is to be merged.

    Args:
        reader: reads the group's files.
        segments: the files with rows; all of the group, or those that a condition on the key left.
        rules: how the records of a key become its row.
        settled: the fates by a settlement that the version uses.
        at_hand: whether to compute no fates.
    """
    known = reader.known(("fates", segments[0].id.chunk), lambda: (KnownFates(), _rows(segments)))
    fates = known.at_hand(segments, settled)
    if fates is None and not at_hand:
        with reader.ahead(segments) as ahead:
            fates = known.of(ahead, segments, rules, settled)
    if fates is None:
        return None
    pairs = [_of_file(each, fates[each.id.partition]) for each in segments]
    return Division(
        plain=tuple(plain for plain, _ in pairs if plain is not None),
        rest=tuple(rest for _, rest in pairs if rest is not None),
    )


def _rows(segments: Iterable[Segment]) -> int:
    return sum(segment.rows for segment in segments)


def _of_file(segment: Segment, fates: FileFates) -> tuple[Filtered | None, Filtered | None]:
    """Return the shown rows of a file, and its rows to be merged; None for none."""
    shown = RowFilter.by_number(segment, deleted=fates.unshown)
    merged = RowFilter.by_number(segment, chosen=fates.open)
    return (
        Filtered(segment, shown, fates.shown) if fates.shown else None,
        Filtered(segment, merged, fates.open_rows) if fates.open else None,
    )


# Known fates
Files = frozenset[tuple[int, str, int]]
"""Files by partition, path and completion time: a restore may change the first and the last."""


def _names(segments: Iterable[Segment]) -> Files:
    return frozenset((each.id.partition, each.path, each.completed) for each in segments)


@dataclass(slots=True)
class KnownFates:
    """The fates of a file group's rows that a process has computed last, over ``files``."""

    files: Files = frozenset()
    fates: Mapping[int, RowFates] = field(default_factory=dict)
    packed: Fates = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def at_hand(self, segments: Sequence[Segment], settled: Fates | None) -> Fates | None:
        """Return the fates over all files of a group if they are known."""
        with self.lock:
            if _names(segments) == self.files:
                return self.packed
        if settled is not None and settled.keys() >= {each.id.partition for each in segments}:
            return settled
        return None

    def of(
        self,
        reader: GroupReader,
        segments: Sequence[Segment],
        rules: MergeRules,
        settled: Fates | None,
    ) -> Fates | None:
        """Return the fates over all files of a group; None if they are not worth it.

        Arguments as for ``divided``.
        """
        wanted = _names(segments)
        with self.lock:
            if wanted == self.files:  # another thread was first
                return self.packed
            before = self._before(reader, segments, rules, settled)
            if before is None:
                return None
            fates = settled_fates(reader, segments, rules, before)
            packed = {partition: each.packed() for partition, each in fates.items()}
            if not wanted < self.files:  # those of an earlier version
                self.files, self.fates, self.packed = wanted, fates, packed
            return packed

    def _before(
        self,
        reader: GroupReader,
        segments: Sequence[Segment],
        rules: MergeRules,
        settled: Fates | None,
    ) -> Mapping[int, RowFates] | None:
        """Return the fates to go on from, which cover at least half of the rows."""
        partitions = {segment.id.partition for segment in segments}
        if self.files and self.files <= _names(segments):
            known: Iterable[int] = self.fates
        elif settled is not None:
            known = settled.keys() & partitions
        else:
            known = [segment.id.partition for segment in largest_run(segments)]
        own = [segment for segment in segments if segment.id.partition in {*known}]
        if 2 * _rows(own) < _rows(segments):
            return None
        if known is self.fates:
            return self.fates
        if settled is not None:
            return {partition: settled[partition].unpacked() for partition in known}
        return run_fates(reader, own, rules)


def largest_run(segments: Iterable[Segment]) -> list[Segment]:
    """Return the files of the sorted run with the most rows."""
    runs: dict[Any, list[Segment]] = {}
    for segment in segments:
        runs.setdefault(sorted_run(segment), []).append(segment)
    return max(runs.values(), key=_rows)


# Fates of one sorted run
def run_fates(
    reader: GroupReader, run: Sequence[Segment], rules: MergeRules
) -> dict[int, RowFates]:
    """Return the fates of the rows of one sorted run, by partition, over its files alone."""
    deleted = {segment: _deletions(reader, segment) for segment in run}
    if rules.partial and any(
        len(rows) for rows in deleted.values()
    ):  # a tombstone and an upsert may have one key
        return settled_fates(reader, run, rules)
    return {
        segment.id.partition: RowFates(segment.rows, tombstones=rows)
        for segment, rows in deleted.items()
    }


_DELETES = Compare(OP, Compares.EQUAL, DELETE)


def _deletions(reader: GroupReader, segment: Segment) -> RowNumbers:
    """Return the tombstones of a file; row groups without any are not read, by statistics."""
    test = by_predicate(_DELETES, reader.table.time_column)
    found = [np.zeros(0, np.int64)]
    for (read,) in reader.reads([segment], [OP], test, addressed=True):
        for batch in read.batches():
            gone = np.asarray(batch.column(OP)) == DELETE
            found.append(np.asarray(batch.column(ROW))[gone])
    return row_numbers(np.concatenate(found))


# Touched rows
def touched_rows(
    reader: GroupReader,
    own: Sequence[Segment],
    tail: Sequence[Segment],
    key: Sequence[str],
) -> dict[int, Flags]:
    """Return the rows of some files with a key that occurs in others, by partition.

    Args:
        reader: reads the files.
        own: the files with the rows.
        tail: the files with the keys, which fit into memory.
        key: the columns of the key.
    """
    keys = _keys_of(reader, tail, key)
    if not keys.num_rows:
        return {}
    find = _finder(keys, key)
    test = _near(keys.column(0), key[0], reader.table.time_column)
    found = {}
    for segment in own:
        flags = np.zeros(segment.rows, bool)
        for (read,) in reader.reads([segment], key, test, addressed=True):
            for batch in read.batches():
                flags[np.asarray(batch.column(ROW))[find(batch)]] = True
        if flags.any():
            found[segment.id.partition] = flags
    return found


def _keys_of(reader: GroupReader, segments: Sequence[Segment], key: Sequence[str]) -> pa.Table:
    """Return the keys of files, in any order, with repetitions."""
    reads = [read for run in reader.reads(segments, key) for read in run]
    batches = [batch for read in reads for batch in read.batches()]
    none = pa.schema([reader.schema.field(name) for name in key])
    return pa.Table.from_batches(batches, batches[0].schema if batches else none)


def _finder(keys: pa.Table, key: Sequence[str]) -> Callable[[pa.RecordBatch], Indices]:
    """Return a function that returns the rows of a batch, sorted by key, with one of the keys."""
    if len(key) == 1 and _is_number(keys.column(0).type):
        wanted = np.unique(_numbers(keys.column(0)))
        return lambda batch: _places(_numbers(batch.column(0)), wanted)
    known = Keys.of(keys, key, nulls=True)
    return lambda batch: np.flatnonzero(known.find(batch) >= 0)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind))


def _numbers(column: pa.Array | pa.ChunkedArray) -> Indices:
    return np.asarray(whole(column).cast(pa.int64()))


def _places(rows: Indices, wanted: Indices) -> Indices:
    """Return the places in sorted rows of values that are sorted, too; a value may occur twice."""
    if not len(rows):
        return rows
    near = wanted[np.searchsorted(wanted, rows[0]) : np.searchsorted(wanted, rows[-1], "right")]
    first, after = (np.searchsorted(rows, near, side) for side in ("left", "right"))
    present = after > first
    return np.union1d(first[present], after[present] - 1)


def _near(keys: pa.ChunkedArray, name: str, time_column: str) -> Condition | None:
    """Return the condition that a key's first column is between the least and the greatest one."""
    if not pa.types.is_signed_integer(keys.type) and not pa.types.is_string(keys.type):
        return None
    ends = pc.min_max(keys).as_py()
    low = Compare(name, Compares.AT_LEAST, ends["min"])
    return by_predicate(AllOf((low, Compare(name, Compares.AT_MOST, ends["max"]))), time_column)


# Settling
_FILE = HIDDEN + "file"


def settled_fates(
    reader: GroupReader,
    segments: Sequence[Segment],
    rules: MergeRules,
    known: Mapping[int, RowFates] | None = None,
) -> dict[int, RowFates]:
    """Return the fates of the rows of a file group, by partition; in bounded memory.

    Args:
        reader: reads the files; keys, the columns that order records, and operations.
        segments: all files of the group with rows.
        rules: how the records of a key become its row.
        known: the fates of some files, over these alone: only their rows with a key of the others
            are looked at again, which have to fit into memory.
    """
    fates = dict(known or {})
    own = [segment for segment in segments if segment.id.partition in fates]
    tail = [segment for segment in segments if segment.id.partition not in fates]
    touched = touched_rows(reader, own, tail, rules.key) if own and tail else {}
    filters: dict[SegmentId, RowFilter] = {}
    for segment in own:
        fate = fates[segment.id.partition]
        flags = touched.get(segment.id.partition, np.zeros(0, bool))
        rows = np.setdiff1d(np.flatnonzero(flags).astype(np.uint32), fate.lost, assume_unique=True)
        if len(rows):
            filters[segment.id] = RowFilter.by_number(segment, chosen=bits_of(rows))
            fates[segment.id.partition] = fate.without(rows)
    fates |= {segment.id.partition: RowFates(segment.rows) for segment in tail}
    compared = [*(segment for segment in own if segment.id in filters), *tail]
    for partition, found in _fates_of(reader, compared, rules, filters).items():
        fates[partition] = fates[partition].joined(found)
    return fates


def _fates_of(
    reader: GroupReader,
    segments: Sequence[Segment],
    rules: MergeRules,
    filters: Mapping[SegmentId, RowFilter],
) -> dict[int, RowFates]:
    """Return the fates of the rows that filters leave, by partition; merged window by window."""
    columns = list(dict.fromkeys([*rules.key, rules.ordering or OP, OP, ROOT_PARTITION]))
    found: dict[int, list[tuple[Indices, ...]]] = {}
    with reader.opened(segments) as opened:
        orders = RootOrders.of_table(opened.roots(segments))
        reads = opened.reads(segments, columns, filters=filters, addressed=True)
        partitions = [read.segment.id.partition for run in reads for read in run]
        numbers = {partition: at for at, partition in enumerate(partitions)}
        runs = [as_run(run, _placed_rows(run, numbers)) for run in reads]
        for parts in windows(runs, rules.key):
            table = pa.concat_tables(parts)
            fates = _window_fates(table, rules, orders)
            files, rows = np.asarray(table.column(_FILE)), np.asarray(table.column(ROW))
            for at in np.unique(files):
                here = files == at
                sets = tuple(rows[here & flags] for flags in fates)
                found.setdefault(partitions[at], []).append(sets)
    return {
        partition: RowFates(0, *(row_numbers(np.concatenate(s)) for s in zip(*some, strict=True)))
        for partition, some in found.items()
    }


def _placed_rows(reads: Sequence[SegmentRead], numbers: Mapping[int, int]) -> Iterator[pa.Table]:
    """Yield the rows of a run with their roots, and the numbers of their files."""
    for read in reads:
        number = numbers[read.segment.id.partition]
        for batch in read.batches():
            rows = pa.Table.from_batches([batch]).drop_columns([ROOT])
            file = pa.array(np.full(rows.num_rows, number, np.int64))
            yield with_root(rows.append_column(_FILE, file), read.segment.file_id.partition)


def _window_fates(
    table: pa.Table, rules: MergeRules, orders: RootOrders
) -> tuple[Flags, Flags, Flags]:
    """Return which rows of a window are lost, winning tombstones, and open.

    With ``partial_update`` all rows of a key with several ones are open: its row is composed of
    them. With ``latest`` one of them wins, as a whole.
    """
    keys = KeyGroups.of(key_codes(table, rules))
    lost, opened = (np.zeros(table.num_rows, bool) for _ in range(2))
    if rules.partial:
        opened[keys.contest().rows] = True
    elif keys.contested.any():
        lost[:] = True
        lost[latest(table, keys, rules, orders).rows] = False
    deletes = np.asarray(whole(table.column(OP))) == DELETE
    return lost, deletes & ~lost & ~opened, opened
