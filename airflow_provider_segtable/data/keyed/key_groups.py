"""Group rows by key, and find the highest row of each group: codes, roots and merged rows.

Groups of rows with equal keys:

1. Rows are sorted by key; rows of equal keys keep their order (``KeyGroups``).
2. A key with only one row is done. Only *contested* rows, of all other keys, are compared
   any further: in an upsert merge they are few.
3. A register's winner is the row with the highest code among candidates. If codes are equal, the
   last row wins, because later rows of one file are higher.

The order of roots: the author's part of record order, and the completion times.

4. A root is the partition that a commit gave to a log file. Rows keep it through all compactions.
5. Of records with equal ordering values, the one with the later instant is higher, then the one
   with the greater log version, then the one with the greater write token.
6. A file holds rows of few roots, so the properties of roots are a small table beside the rows. It
   may be an Arrow table (``SCHEMA``), as a footer keeps it.

Record order as codes: the values of an ordering column and the roots of records, as integers.

7. Codes of one ``record_codes`` call are comparable with each other, and start at 1. Equal codes
   mean equal ordering values and one root; then the position in the file decides (rule 3).
8. Orders of several registers are coded together if they are compared with each other.

Codes of text and bytes: their ranks, from a word (``data.value_bytes``) at a time.

9. Bytes that all values begin with are skipped.
10. Values are sorted by their first word. Only values that are *tied* there are compared by their
    next words, and in the end by length, which distinguishes padding from zero bytes. In an upsert
    merge most ties are equal keys: a word that separates no tie costs one comparison.
11. The code of a value is its rank among the distinct values, starting at 1.

Rows of a merge:

12. ``MergedRows`` names the source of each row of a merge: row numbers for columns, and computed
    hidden columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.data.sort_keys import (
    Codes,
    Indices,
    Numbers,
    column_codes,
    composed,
    stable_order,
    valid,
    whole,
)
from airflow_provider_segtable.data.value_bytes import WORD, ByteStrings

# Groups of rows with equal keys
Flags = npt.NDArray[np.bool_]
NONE = -1
"""No row."""
Places = npt.NDArray[np.unsignedinteger[Any]]
"""A number for each row: rows of different numbers are never merged."""


def numbers(column: pa.ChunkedArray | pa.Array) -> Indices:
    """Return a column of integers; zero for null."""
    array = whole(column)
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def codes_of(columns: Sequence[pa.Array]) -> Codes:
    """Return codes of the same order as the values of several columns."""
    return composed([column_codes(column, plain_none(column)) for column in columns])


def plain_none(column: pa.Array) -> pa.Array:
    """Return no values, of a column's value type."""
    kind = column.type
    return pa.array([], kind.value_type if pa.types.is_dictionary(kind) else kind)


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows by key.

    Attributes:
        order: row numbers, sorted by place, if rows have one, and key (stable).
        starts: the place in ``order`` of the first row of each key.
        sizes: the number of rows of each key.
    """

    order: Indices
    starts: Indices
    sizes: Indices

    @staticmethod
    def of(codes: Codes, places: Places | None = None) -> "KeyGroups":
        """Group rows by the codes of their keys; with ``places``, by these before their keys."""
        order = stable_order(codes)
        if places is not None:
            order = order[np.argsort(places[order], kind="stable")]
        first = _changes(codes.rows[order])
        if places is not None:
            first |= _changes(places[order])
        starts = np.flatnonzero(first)
        return KeyGroups(order, starts, np.diff(starts, append=len(order)))

    @property
    def contested(self) -> Flags:
        """Return for each key whether it has several rows."""
        flags: Flags = self.sizes > 1
        return flags

    def contest(self) -> "Contest":
        """Return the rows of contested keys."""
        some = self.contested
        sizes = self.sizes[some]
        ends = np.cumsum(sizes)
        starts = ends - sizes
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(starts, sizes)
        rows = self.order[np.repeat(self.starts[some], sizes) + within]
        return Contest(rows, starts, sizes)


@dataclass(frozen=True, slots=True)
class Contest:
    """The rows of contested keys, by key: row numbers, and the place where each key begins."""

    rows: Indices
    starts: Indices
    sizes: Indices

    def highest(self, codes: Numbers, candidates: Flags | None = None) -> Indices:
        """Return for each key the place of the highest candidate; ``NONE`` if there is none.

        Codes are from 1 on.
        """
        found = np.full(len(self.starts), NONE, np.int64)
        if not len(self.starts):
            return found
        if candidates is not None:
            codes = np.where(candidates, codes, np.uint64(0))
        most = np.maximum.reduceat(codes, self.starts)
        winning = (codes == np.repeat(most, self.sizes)) & (codes > 0)
        places = np.flatnonzero(winning)
        keys = np.repeat(np.arange(len(self.starts)), self.sizes)[places]
        found[keys] = places  # of equal ones, the last is assigned last
        return found


# The order of roots
SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("instant", pa.int64()),
        ("log_version", pa.int32()),
        ("write_token", pa.string()),
        ("completed", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One root.

    Attributes:
        partition: its number.
        instant: when its author began, in µs.
        log_version: the version in the log file's name.
        write_token: the write token in the log file's name.
        completed: the completion time of its commit, in µs.
    """

    partition: int
    instant: int
    log_version: int
    write_token: str
    completed: int


@dataclass(frozen=True, slots=True)
class RootOrders:
    """Roots by number, with the rank of each (from 0), its instant and its completion time."""

    partitions: Indices
    ranks: Numbers
    instants: Indices
    completions: Indices

    @staticmethod
    def of(roots: Iterable[Root]) -> "RootOrders":
        """Return the order of some roots."""
        return RootOrders.of_table(pa.Table.from_pylist([*map(asdict, roots)], schema=SCHEMA))

    @staticmethod
    def of_table(table: pa.Table) -> "RootOrders":
        """Return the order of the roots in a table; a root counts once.

        A repair publishes log files anew, while compacted files have the times of before: of
        several completion times of one root, the latest counts.

        Raises:
            CorruptTable: two rows describe one root differently.
        """
        author = [name for name in SCHEMA.names if name != "completed"]
        table = table.group_by(author).aggregate([("completed", "max")])
        table = table.rename_columns([*author, "completed"])
        partitions = np.asarray(table.column("partition"))
        order = np.argsort(partitions)
        twice = np.flatnonzero(np.diff(partitions[order]) == 0)
        if len(twice):
            raise CorruptTable(
                f"root {partitions[order][twice[0]]} has two descriptions: run segtable verify"
            )
        by_rank = pc.sort_indices(
            table,
            [(name, "ascending") for name in ("instant", "log_version", "write_token")]
            + [("partition", "ascending")],
        )
        ranks = np.empty(len(order), np.uint64)
        ranks[np.asarray(by_rank)] = np.arange(len(order), dtype=np.uint64)
        instants, completions = (np.asarray(table.column(n)) for n in ("instant", "completed"))
        return RootOrders(partitions[order], ranks[order], instants[order], completions[order])

    def ranks_of(self, partitions: Indices) -> Numbers:
        """Return the rank of each root.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.ranks[self._places(partitions)]

    def instants_of(self, partitions: Indices) -> Indices:
        """Return when the author of each root began.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.instants[self._places(partitions)]

    def completions_of(self, partitions: Indices) -> Indices:
        """Return the completion time of each root.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.completions[self._places(partitions)]

    def _places(self, partitions: Indices) -> npt.NDArray[np.int64]:
        if not len(partitions):
            return np.zeros(0, np.int64)
        last = max(len(self.partitions) - 1, 0)
        places = np.searchsorted(self.partitions, partitions).clip(max=last)
        known = np.zeros(len(partitions), bool)
        if len(self.partitions):
            known = self.partitions[places] == partitions
        if not known.all():
            raise CorruptTable(
                f"a row has root {partitions[np.argmin(known)]}, which is not among the "
                f"{len(self.partitions)} known roots: run segtable verify"
            )
        return places


# Record order as codes
@dataclass(frozen=True, slots=True)
class Order:
    """The order of some records: values (None if their instants alone decide), and roots."""

    values: pa.Array | None
    roots: Indices


def record_codes(orders: Sequence[Order], roots: RootOrders) -> list[Numbers]:
    """Return the codes of several orders, made together; either all have values or none."""
    ranks = roots.ranks_of(np.concatenate([order.roots for order in orders])) + np.uint64(1)
    whole = Codes(ranks, np.zeros(0, np.uint64), len(roots.ranks) + 1)
    values = [order.values for order in orders if order.values is not None]
    if values:
        whole = composed([codes_of([pa.concat_arrays(values)]), whole])
    ends = np.cumsum([len(order.roots) for order in orders])
    return np.split(whole.rows, ends[:-1])


# Codes of text and bytes
def text_codes(array: pa.Array) -> Codes:
    """Code values of text or bytes; none may be null."""
    none = np.zeros(0, np.uint64)
    if not len(array):
        return Codes(none, none, 1)
    strings = ByteStrings.of(array)
    at, most = strings.prefix(), int(strings.lengths.max())
    words = strings.words(at)
    order = np.argsort(words)
    first = _changes(words[order])
    for level in (*range(at + WORD, most, WORD), -1):
        tied = np.flatnonzero(~(first & np.append(first[1:], True)))
        if not len(tied):
            break
        rows = order[tied]
        values = (
            strings.lengths[rows].astype(np.uint64) if level < 0 else strings.words(level, rows)
        )
        _part(order, first, tied, values)
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.cumsum(first)
    return Codes(ranks, none, int(first.sum()))


def _part(order: Indices, first: npt.NDArray[np.bool_], tied: Indices, values: Numbers) -> None:
    """Sort the rows within ties by further values, in place, and note where values change."""
    begins = first[tied]
    if (begins[1:] | (values[1:] == values[:-1])).all():
        return
    ties = np.cumsum(begins)
    sorting = np.lexsort((values, ties))
    order[tied] = order[tied][sorting]
    first[tied] = begins | _changes(values[sorting])


def _changes(values: Places) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before; the first does."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found


# Rows of a merge
@dataclass(frozen=True, slots=True)
class MergedRows:
    """Rows to be taken from a table.

    Attributes:
        rows: for each row, the number of the row that columns are taken from.
        sources: columns that are taken from other rows; ``NONE`` for null.
        values: columns that are computed.
    """

    rows: Indices
    sources: Mapping[str, Indices] = field(default_factory=dict)
    values: Mapping[str, pa.Array] = field(default_factory=dict)

    def taken(self, table: pa.Table) -> pa.Table:
        """Return the rows."""
        taken = _Taken(table, self)
        columns = [taken.column(name) for name in table.column_names]
        return pa.table(columns, schema=table.schema)

    def kept(
        self, table: pa.Table, rules: MergeRules, roots: RootOrders, since: int
    ) -> "MergedRows":
        """Return the rows without old tombstones, as ``kept`` of them would; none is copied."""
        keep = _keep(_Taken(table, self).column, rules, roots, since)
        if keep is None:
            return self
        flags = pa.array(keep)
        return MergedRows(
            self.rows[keep],
            {name: rows[keep] for name, rows in self.sources.items()},
            {name: values.filter(flags) for name, values in self.values.items()},
        )


@dataclass(frozen=True, slots=True)
class _Taken:
    """The columns of merged rows of a table; columns of the same rows share their numbers."""

    table: pa.Table
    merged: MergedRows
    given: dict[int, pa.Array] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        if name in self.merged.values:
            return self.merged.values[name]
        rows = self.merged.sources.get(name, self.merged.rows)
        if id(rows) not in self.given:
            mask = None if rows is self.merged.rows else rows == NONE
            self.given[id(rows)] = pa.array(rows, mask=mask)
        values = self.table.column(name)
        if pa.types.is_dictionary(values.type):
            return whole(values).take(self.given[id(rows)])
        return whole(values.take(self.given[id(rows)]))  # each value is copied once


def kept(rows: pa.Table, rules: MergeRules, roots: RootOrders, since: int) -> pa.Table:
    """Return rows without tombstones all of whose roots completed before ``since``."""
    keep = _keep(lambda name: whole(rows.column(name)), rules, roots, since)
    return rows if keep is None else rows.filter(pa.array(keep))


Column = Callable[[str], pa.Array]


def _keep(column: Column, rules: MergeRules, roots: RootOrders, since: int) -> Flags | None:
    """Return which rows stay; None if all do."""
    deleted = np.asarray(column(OP)) == DELETE
    if not deleted.any():
        return None
    places = np.flatnonzero(deleted)
    old = places[_newest(column, places, rules, roots) < since]
    keep: Flags = np.ones(len(deleted), bool)
    keep[old] = False
    return keep if len(old) else None


def _newest(column: Column, places: Indices, rules: MergeRules, roots: RootOrders) -> Indices:
    """Return the completion time of the newest root of some rows."""
    some = pa.array(places)
    own = numbers(column(ROOT_PARTITION).take(some))
    newest = roots.completions_of(own)
    for group in rules.groups:
        its_roots = column(ROOT_OF + group.ordering).take(some)
        of_group = np.where(valid(its_roots), numbers(its_roots), own)
        newest = np.maximum(newest, roots.completions_of(of_group))
    return newest
