"""Registers of contested keys: the highest record that sets each, and the highest deletion.

The rules are those of ``core.tables.keyed.merge_rules``. Of equal codes the later row is higher. A
file's tombstone stands before the upsert of its key, so a register that the tombstone of its own
file has spared is spared in every later merge.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import (
    AT_OF,
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    ColumnGroup,
    MergeRules,
)
from airflow_provider_segtable.data.merge.key_groups import (
    NONE,
    Contest,
    Flags,
    KeyGroups,
    codes_of,
    numbers,
    valid,
    whole,
)
from airflow_provider_segtable.data.merge.record_order import Order, record_codes
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.sort.sort_keys import Indices, Numbers


@dataclass(frozen=True, slots=True)
class Register:
    """The state of one register in each contested key; places are those of the contest.

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
        """Return the register of the row, and those of single columns."""
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
