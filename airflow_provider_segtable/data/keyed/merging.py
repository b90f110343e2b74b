"""Merge rows of equal keys: in memory by the table's engine, and as sorted runs in bounded memory.

``core.tables.merge_rules`` defines the result; here it is computed.

Merging in memory:

1. Engine ``latest`` keeps the highest record of a key, as a whole row.
2. Engine ``partial_update`` makes a row of each register's highest record. Its registers are
   computed only for contested keys: the highest record that sets each register, and its highest
   deletion. The row of any other key is its own merge.
3. Of equal codes the later row is higher. A file's tombstone stands before the upsert of its key,
   so a register that the tombstone of its own file has spared is spared in every later merge.
4. With ``partial_update`` a contested key becomes up to two rows: its tombstone (the highest
   deletion of each register), then an upsert of the registers that are higher than their deletion.
5. A hidden column is computed as a choice among the column itself and further values (``_Slots``).

Merging sorted runs (log files, a base file, or both), in bounded memory:

6. A run is the rows of a file as batches, sorted by key (``data.keyed.keyed_rows``). The order of
   batches is checked here, and the order of the rows in a batch where they are merged.
7. The merge goes through the keys in *windows*. Of the runs with batches left, each has a last key
   in the rows at hand. A window ends before the least of these keys, so no run has further rows of
   the window's keys. A run is read on when less than half of a batch is left: else every batch of
   every run would end a window. If all runs have ended, as those of small files do at once, all
   rows at hand are one window. The first batches of many runs are read by several threads where a
   read is a round trip.
8. The rows of a window are merged in memory. If one run alone contributes to a window, the result
   is that run's rows, untouched.
9. Memory holds up to one and a half batches of every run and one window, however large the runs
   are. If the batches are in proportion to the runs (``data.keyed.group_reader``), a window takes
   about one of each.
10. Tombstones are kept unless all their roots completed before ``drop_tombstones_before``. A merge
    that drops them must include all files of the file group below some root: else an older record
    outside the merge would come back.

Source of the idea: merge of sorted runs (Knuth 5.4.1), by blocks, as in external sorting.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.tables.merge_rules import (
    AT_OF,
    DELETE,
    GROUPS_ONLY,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    ColumnGroup,
    MergeEngine,
    MergeRules,
)
from airflow_provider_segtable.data.arrow_schema import of_any_length
from airflow_provider_segtable.data.keyed.key_groups import (
    NONE,
    Contest,
    Flags,
    KeyGroups,
    MergedRows,
    Order,
    Places,
    RootOrders,
    codes_of,
    kept,
    numbers,
    record_codes,
    text_codes,
)
from airflow_provider_segtable.data.sort_keys import (
    Codes,
    Indices,
    Numbers,
    composed,
    is_sorted,
    valid,
    whole,
)

NEVER, ALWAYS = -(2**63), 2**63 - 1
"""Bounds for tombstones: none is dropped, all are."""


# The engine that keeps the latest record
def latest(table: pa.Table, keys: KeyGroups, rules: MergeRules, roots: RootOrders) -> MergedRows:
    """Return the highest row of each key."""
    rows = keys.order[keys.starts]
    contest = keys.contest()
    some = pa.array(contest.rows)
    values = whole(table.column(rules.ordering)).take(some) if rules.ordering else None
    order = Order(values, numbers(table.column(ROOT_PARTITION))[contest.rows])
    (codes,) = record_codes([order], roots)
    rows[keys.contested] = contest.rows[contest.highest(codes)]
    return MergedRows(rows)


# Registers of contested keys
@dataclass(frozen=True, slots=True)
class Register:
    """The state of one register in each contested key; places are the contest's.

    Attributes:
        codes: the order of the register in each row.
        roots: its root in each row.
        winner: the highest record that sets it, ``NONE`` if none does or it was deleted.
        deletion: the highest tombstone; ``NONE`` if there is none.
        values: the ordering values of each row, if files keep them for this register.
    """

    codes: Numbers
    roots: Indices
    winner: Indices
    deletion: Indices
    values: pa.Array | None = None

    @property
    def alive(self) -> Flags:
        """Return in which keys it is set."""
        flags: Flags = self.winner != NONE
        return flags


def _register(
    contest: Contest, order: Order, codes: Numbers, sets: Flags, deletes: Flags
) -> Register:
    winner, deletion = contest.highest(codes, sets), contest.highest(codes, deletes)
    set_at, deleted_at = codes[winner], codes[deletion]
    spared = (set_at > deleted_at) | ((set_at == deleted_at) & (winner > deletion))
    winner[(deletion != NONE) & ~spared] = NONE
    return Register(codes, order.roots, winner, deletion, order.values)


@dataclass(frozen=True, slots=True)
class Contested:
    """The contested rows of a table."""

    table: pa.Table
    contest: Contest
    rules: MergeRules
    ops: Indices
    own: Indices

    @staticmethod
    def of(table: pa.Table, keys: KeyGroups, rules: MergeRules) -> "Contested":
        """Return the contested rows of a table."""
        contest = keys.contest()
        ops, own = (numbers(table.column(name))[contest.rows] for name in (OP, ROOT_PARTITION))
        return Contested(table, contest, rules, ops, own)

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        return whole(self.table.column(name)).take(pa.array(self.contest.rows))

    def sets(self, name: str) -> Flags:
        """Return in which rows a column is not null."""
        return valid(whole(self.table.column(name)))[self.contest.rows]

    @property
    def deletes(self) -> Flags:
        """Return which rows are tombstones."""
        flags: Flags = self.ops == DELETE
        return flags

    def roots_of(self, name: str) -> tuple[Indices, Flags]:
        """Return a register's roots, and where a row keeps an order of its own for it."""
        column = self.column(ROOT_OF + name)
        differs = valid(column)
        return np.where(differs, numbers(column), self.own), differs

    def single_order(self, name: str, order: Order) -> Order:
        """Return the order of a column that is a register; ``order``, the rows', if it is that."""
        roots, differs = self.roots_of(name)
        if not differs.any():
            return order
        if order.values is None:
            return Order(None, roots)
        kept_values = self.column(AT_OF + name)
        both = pa.concat_arrays([order.values, kept_values])
        places = np.arange(len(roots)) + np.where(differs, len(roots), 0)
        return Order(both.take(pa.array(places)), roots)

    def record_registers(
        self, singles: Sequence[str], roots: RootOrders
    ) -> tuple[Register, dict[str, Register]]:
        """Return the register of the row, and the registers of single columns."""
        values = self.column(self.rules.ordering) if self.rules.ordering else None
        own = Order(values, self.own)
        orders = {name: self.single_order(name, own) for name in singles}
        distinct = {id(order): order for order in (own, *orders.values())}
        codes = dict(zip(distinct, record_codes([*distinct.values()], roots), strict=True))
        of_rows = codes[id(own)]
        row = _register(self.contest, own, of_rows, self.ops == UPSERT, self.deletes)
        registers = {}
        for name, order in orders.items():
            # Tombstones have no order of their own for a column: theirs is the row's.
            its_codes = np.where(self.deletes, of_rows, codes[id(order)])
            sets = ~self.deletes & self.sets(name)
            registers[name] = _register(self.contest, order, its_codes, sets, self.deletes)
        return row, registers

    def group_register(self, group: ColumnGroup, roots: RootOrders) -> Register:
        """Return the register of a column group."""
        its_roots, _ = self.roots_of(group.ordering)
        sets = self.sets(group.ordering)
        order = Order(self.column(group.ordering), its_roots)
        (codes,) = record_codes([order], roots)
        return _register(self.contest, order, codes, sets & ~self.deletes, sets & self.deletes)

    def greatest(self, name: str) -> Indices:
        """Return the place of the greatest value of a column; ``NONE`` if all are null."""
        return self.contest.highest(codes_of([self.column(name)]).rows, self.sets(name))


# The engine of partial updates
def partial_update(
    table: pa.Table, keys: KeyGroups, rules: MergeRules, roots: RootOrders
) -> MergedRows:
    """Return the merged rows of each key."""
    some = Contested.of(table, keys, rules)
    if not len(some.contest.starts):
        return MergedRows(keys.order[keys.starts])
    row, columns = some.record_registers(rules.singles(table.column_names), roots)
    groups = {group: some.group_register(group, roots) for group in rules.groups}
    merge = _Merge(table, some, row, columns, groups, _Slots.of(keys, row, groups))
    return MergedRows(merge.slots.rows, merge.sources(), merge.values())


@dataclass(frozen=True, slots=True)
class _Slots:
    """The rows of the result: of each contested key its tombstone and its upsert, if any.

    Attributes:
        rows: the row of the table for each row of the result; of a contested key its first.
        tombs: the place of each contested key's tombstone in the result, or ``NONE``.
        upserts: the place of its upsert, or ``NONE``.
    """

    rows: Indices
    tombs: Indices
    upserts: Indices

    @staticmethod
    def of(keys: KeyGroups, row: Register, groups: Mapping[ColumnGroup, Register]) -> "_Slots":
        """Lay out the rows of the result."""
        deleted = row.deletion != NONE
        present = row.alive
        for register in groups.values():
            present = present | register.alive
        contested = keys.contested
        counts = np.ones(len(keys.starts), np.int64)
        counts[contested] = deleted.astype(np.int64) + present
        firsts = np.cumsum(counts) - counts
        rows = np.repeat(keys.order[keys.starts], counts)
        tombs = np.where(deleted, firsts[contested], NONE)
        return _Slots(rows, tombs, np.where(present, firsts[contested] + deleted, NONE))

    def chosen(self, tombs: Indices | None, upserts: Indices | None) -> Indices:
        """Return the rows, with other numbers for contested keys; ``None`` for no value."""
        chosen = self.rows.copy()
        for places, given in ((self.tombs, tombs), (self.upserts, upserts)):
            there = places != NONE
            chosen[places[there]] = NONE if given is None else given[there]
        return chosen


@dataclass(frozen=True, slots=True)
class _Merge:
    """The registers of a merge, and the layout of its result."""

    table: pa.Table
    some: Contested
    row: Register
    columns: Mapping[str, Register]
    groups: Mapping[ColumnGroup, Register]
    slots: _Slots

    def sources(self) -> dict[str, Indices]:
        """Return the row that each column of the table is taken from."""
        rules, row = self.some.rules, self.row
        found = {}
        if rules.ordering:
            found[rules.ordering] = self._source(row.deletion, row.winner)
        for name, register in self.columns.items():
            found[name] = self._source(None, register.winner)
        for group, register in self.groups.items():
            found[group.ordering] = self._source(register.deletion, register.winner)
            of_columns = self._source(None, register.winner)
            found.update(dict.fromkeys(group.columns, of_columns))
        present = {*self.table.column_names}
        for name in filter(present.__contains__, rules.fixed):
            greatest = self.some.greatest(name)
            found[name] = self._source(greatest, greatest)
        return found

    def _source(self, tombs: Indices | None, upserts: Indices | None) -> Indices:
        rows = np.append(self.some.contest.rows, NONE)  # the place NONE is the last one
        return self.slots.chosen(*(None if p is None else rows[p] for p in (tombs, upserts)))

    def values(self) -> dict[str, pa.Array]:
        """Return the hidden columns."""
        row, keys = self.row, np.arange(len(self.row.winner))
        roots = self._row_roots()
        deleted_roots = row.roots[row.deletion]
        ops = np.where(row.alive, UPSERT, GROUPS_ONLY)
        found = {
            OP: self._column(
                OP, np.array([UPSERT, DELETE, GROUPS_ONLY]), np.full(len(keys), DELETE), ops
            ),
            ROOT_PARTITION: self._column(
                ROOT_PARTITION, np.append(deleted_roots, roots), keys, keys + len(keys)
            ),
        }
        for name, register in self.columns.items():
            same = register.codes[register.winner] == row.codes[row.winner]
            places = np.where(register.alive & ~same, register.winner, NONE)
            found[ROOT_OF + name] = self._column(ROOT_OF + name, register.roots, None, places)
            if register.values is not None:
                found[AT_OF + name] = self._column(AT_OF + name, register.values, None, places)
        for group, register in self.groups.items():
            tombs = _unless_equal(register.deletion, register.roots, deleted_roots)
            upserts = _unless_equal(register.winner, register.roots, roots)
            name = ROOT_OF + group.ordering
            found[name] = self._column(name, register.roots, tombs, upserts)
        return found

    def _row_roots(self) -> Indices:
        """Return the root of each key's upsert: the row's, or the greatest of its groups."""
        roots = np.full(len(self.row.winner), np.iinfo(np.int64).min)
        for register in self.groups.values():
            of_group = register.roots[register.winner]
            roots = np.where(register.alive, np.maximum(roots, of_group), roots)
        return np.where(self.row.alive, self.row.roots[self.row.winner], roots)

    def _column(
        self, name: str, more: Indices | pa.Array, tombs: Indices | None, upserts: Indices | None
    ) -> pa.Array:
        """Return a column whose values in contested keys are chosen among ``more``, by place."""
        own = whole(self.table.column(name))
        none = all(places is None or (places == NONE).all() for places in (tombs, upserts))
        if none and own.null_count == len(own):  # as usual: one record set the whole row
            return pa.nulls(len(self.slots.rows), own.type)
        values = pa.concat_arrays([own, more if isinstance(more, pa.Array) else _typed(more, own)])
        chosen = self.slots.chosen(*(_after(places, len(own)) for places in (tombs, upserts)))
        return values.take(pa.array(chosen, mask=chosen == NONE))


def _typed(values: Indices, like: pa.Array) -> pa.Array:
    return pa.array(values).cast(like.type)


def _after(places: Indices | None, count: int) -> Indices | None:
    return None if places is None else np.where(places == NONE, NONE, places + count)


def _unless_equal(places: Indices, roots: Indices, row: Indices) -> Indices:
    """Return places without those whose root is the row's own."""
    return np.where(roots[places] == row, NONE, places)


# Merges in memory, by either engine
Engine = Callable[[pa.Table, KeyGroups, MergeRules, RootOrders], MergedRows]

_ENGINES: dict[MergeEngine, Engine] = {
    MergeEngine.LATEST: latest,
    MergeEngine.PARTIAL_UPDATE: partial_update,
}


def merged(parts: Sequence[pa.Table], rules: MergeRules, roots: RootOrders) -> pa.Table:
    """Return the merge of rows, sorted by key; later rows of equal order are higher.

    Args:
        parts: rows, with the hidden columns; all have one schema.
        rules: the table's rules.
        roots: the order of all roots of the rows.
    """
    table = pa.concat_tables(parts)
    return _merged(table, key_codes(table, rules), rules, roots)


def merged_apart(
    table: pa.Table, places: Places, rules: MergeRules, roots: RootOrders
) -> Iterator[tuple[int, pa.Table]]:
    """Yield each place, ascending, and the merge of its rows; otherwise as ``merged``.

    Rows are coded, sorted and copied together: of a few rows, each call of a kernel costs more than
    its work.

    Args:
        table: the rows.
        places: the place of each row.
        rules: the table's rules.
        roots: the order of all roots of the rows.
    """
    groups = KeyGroups.of(key_codes(table, rules), places)
    found = _ENGINES[rules.engine](table, groups, rules, roots)
    rows, ordered = found.taken(table), places[found.rows]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + 1))
    for start, end in pairwise([*starts.tolist(), rows.num_rows]):
        yield int(ordered[start]), rows.slice(start, end - start)


def merged_sorted(
    parts: Sequence[pa.Table],
    rules: MergeRules,
    roots: RootOrders,
    drop_tombstones_before: int = NEVER,
) -> pa.Table:
    """Return the merge of parts that are sorted by key, and have one row a key each.

    Args:
        parts: the rows of each run.
        rules: the table's rules.
        roots: the order of all roots of the rows.
        drop_tombstones_before: as for ``merge_runs``.

    Raises:
        CorruptTable: a part is not sorted.
    """
    since = drop_tombstones_before
    if len(parts) == 1:
        return parts[0] if since == NEVER else kept(parts[0], rules, roots, since)
    table = pa.concat_tables(parts)
    codes = key_codes(table, rules)
    first = 0
    for at, part in enumerate(parts):
        end = first + part.num_rows
        if not is_sorted(Codes(codes.rows[first:end], codes.marks, codes.top)):
            key = part.select(rules.key).slice(0, 1).to_pylist()
            raise CorruptTable(
                f"the rows of input {at} are not sorted by key from {key} on: run segtable verify"
            )
        first = end
    return _merged(table, codes, rules, roots, since)


def key_codes(table: pa.Table, rules: MergeRules) -> Codes:
    """Return codes of the rows' keys."""
    return composed([_key_codes(whole(table.column(name))) for name in rules.key])


def _key_codes(column: pa.Array) -> Codes:
    return text_codes(column) if of_any_length(column.type) else codes_of([column])


def _merged(
    table: pa.Table, codes: Codes, rules: MergeRules, roots: RootOrders, since: int = NEVER
) -> pa.Table:
    rows = _ENGINES[rules.engine](table, KeyGroups.of(codes), rules, roots)
    return (rows if since == NEVER else rows.kept(table, rules, roots, since)).taken(table)


# Merges of sorted runs
Batches = Iterable[pa.Table | pa.RecordBatch]
Key = tuple[Any, ...]


def merge_runs(
    runs: Sequence[Batches],
    rules: MergeRules,
    roots: RootOrders,
    *,
    drop_tombstones_before: int = NEVER,
) -> Iterator[pa.Table]:
    """Merge runs into one.

    Args:
        runs: the runs; all batches have one schema, and their roots are put in.
        rules: the table's rules.
        roots: the order of all roots of the rows.
        drop_tombstones_before: the completion time in µs below which tombstones are left out.

    Yields:
        Tables sorted by key, of the runs' schema.

    Raises:
        CorruptTable: a run is not sorted, or has an unknown root.
    """
    for parts in windows(runs, rules.key):
        rows = merged_sorted(parts, rules, roots, drop_tombstones_before)
        if rows.num_rows:
            yield rows


def read_runs(
    runs: Sequence[Batches], rules: MergeRules, roots: RootOrders, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Merge all runs of a file group for a reader: present rows only, in some columns.

    Args:
        runs: the runs, with at least the columns ``rules.needed(columns, ...)``.
        rules: the table's rules.
        roots: the order of all roots of the rows.
        columns: the columns to be returned; hidden ones may be among them.
    """
    for rows in merge_runs(runs, rules, roots, drop_tombstones_before=ALWAYS):
        yield rows.select(columns)


@dataclass(frozen=True, slots=True)
class OneBatch:
    """A run of few rows as one batch: its end is known once that is read.

    ``beside`` is whether threads may read it, beside other runs.
    """

    rows: Iterable[pa.Table]
    beside: bool = False

    def __len__(self) -> int:
        """Return the number of batches."""
        return 1

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield the batch, if there are rows."""
        tables = [*self.rows]
        if tables:
            yield pa.concat_tables(tables)


MOST_ROWS = 1 << 20
"""The rows at hand up to which a window has all of them, if all runs have ended."""
LEAST_RUNS = 8
"""The number of runs from which on their files are opened by several threads."""
THREADS = 8


def windows(runs: Sequence[Batches], key: Sequence[str]) -> Iterator[list[pa.Table]]:
    """Yield rows by ranges of keys: a table for each run that has any, in the runs' order."""
    cursors = [
        _Cursor(iter(run), tuple(key), left=len(run) if isinstance(run, Sized) else -1)
        for run in runs
    ]
    if len(cursors) >= LEAST_RUNS and any(isinstance(r, OneBatch) and r.beside for r in runs):
        with ThreadPoolExecutor(THREADS, "segtable-runs") as pool:
            list(pool.map(_Cursor.fill, cursors))
    while True:
        for cursor in cursors:
            cursor.fill()
        ends = [cursor.last for cursor in cursors if cursor.more]
        end = min(ends) if ends else _within(cursors)
        parts = [cursor.cut(end) for cursor in cursors]
        some = [part for part in parts if part.num_rows]
        if some:
            yield some
        if end is None:
            return


def _within(cursors: "Sequence[_Cursor]") -> Key | None:
    """Return a key that cuts the rows at hand of runs that have ended; None if they are few."""
    held = sum(cursor.rows.num_rows for cursor in cursors)
    if held <= MOST_ROWS:
        return None
    longest = max(cursors, key=lambda cursor: cursor.rows.num_rows)
    end = longest.key_at(longest.rows.num_rows * MOST_ROWS // held)
    firsts = (cursor.key_at(0) for cursor in cursors if cursor.rows.num_rows)
    return end if min(firsts) < end else None


@dataclass(slots=True)
class _Cursor:
    """The rows at hand of one run, and the batches after them; ``left`` is negative if unknown."""

    batches: Iterator[pa.Table | pa.RecordBatch]
    key: tuple[str, ...]
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    last: Key = ()
    more: bool = True
    left: int = -1
    batch_rows: int = 0

    @property
    def short(self) -> bool:
        """Return whether less than half of a batch, or only one key, is at hand."""
        count = self.rows.num_rows
        return not count or 2 * count < self.batch_rows or self.key_at(0) == self.last

    def fill(self) -> None:
        """Read on until enough rows are at hand, of at least two keys, or the run ends."""
        while self.more and self.short:
            batch = next(self.batches, None)
            self.left -= 1
            self.more = batch is not None and self.left != 0
            if batch is None or not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            self.batch_rows = max(self.batch_rows, table.num_rows)
            before, first = self.last, self._key(table, 0)
            self.rows = pa.concat_tables([self.rows, table]) if self.rows.num_rows else table
            self.last = self._key(table, table.num_rows - 1)
            if not before <= first <= self.last:
                raise CorruptTable(
                    f"rows are not sorted by key: {self.last} after {max(before, first)}; "
                    "run segtable verify"
                )

    def cut(self, end: Key | None) -> pa.Table:
        """Take out the rows before a key; all rows if it is None."""
        rows = self.rows
        at = rows.num_rows if end is None else self._before(end)
        self.rows = rows.slice(at)
        return rows.slice(0, at)

    def key_at(self, row: int) -> Key:
        """Return the key of a row at hand."""
        return self._key(self.rows, row)

    def _key(self, rows: pa.Table, row: int) -> Key:
        return tuple(_comparable(rows.column(name)[row]) for name in self.key)

    def _before(self, end: Key) -> int:
        """Return the number of rows whose key is below one, by bisection."""
        low, high = 0, self.rows.num_rows
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.key_at(middle) < end else (low, middle)
        return low


def _comparable(value: pa.Scalar) -> Any:
    """Return a key's value as Python compares it: times as numbers."""
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    return value.cast(pa.int64()).as_py() if pa.types.is_timestamp(value.type) else value.as_py()
