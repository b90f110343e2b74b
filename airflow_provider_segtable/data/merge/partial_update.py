"""Engine ``partial_update``: a row of each register's highest record (``registers``).

1. Only contested keys are computed; the row of any other key is its own merge.
2. A contested key becomes up to two rows: its tombstone (the highest deletion of each register),
   then an upsert of the registers that are higher than their deletion.
3. A hidden column is computed as a choice among the column itself and further values (``_Slots``).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import (
    AT_OF,
    DELETE,
    GROUPS_ONLY,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    ColumnGroup,
    MergeRules,
)
from airflow_provider_segtable.data.merge.key_groups import NONE, KeyGroups, whole
from airflow_provider_segtable.data.merge.merged_rows import MergedRows
from airflow_provider_segtable.data.merge.registers import Contested, Register
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.sort.sort_keys import Indices


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
        """Return the rows, with other numbers in those of contested keys; ``None`` for no value."""
        chosen = self.rows.copy()
        for places, numbers in ((self.tombs, tombs), (self.upserts, upserts)):
            there = places != NONE
            chosen[places[there]] = NONE if numbers is None else numbers[there]
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
        for name in rules.fixed:
            if name in self.table.column_names:
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
