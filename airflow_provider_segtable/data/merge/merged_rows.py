"""Where each row of a merge comes from: row numbers for columns, and computed hidden columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.data.merge.key_groups import NONE, Flags, numbers, valid, whole
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.sort.sort_keys import Indices


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
        given = {id(self.rows): pa.array(self.rows)}
        columns = []
        for name in table.column_names:
            if name in self.values:
                columns.append(self.values[name])
                continue
            source = self.sources.get(name, self.rows)
            if id(source) not in given:
                given[id(source)] = pa.array(source, mask=source == NONE)
            columns.append(whole(table.column(name)).take(given[id(source)]))
        return pa.table(columns, schema=table.schema)


def kept(rows: pa.Table, rules: MergeRules, roots: RootOrders, since: int) -> pa.Table:
    """Return rows without tombstones all of whose roots completed before ``since``."""
    deleted = np.asarray(whole(rows.column(OP))) == DELETE
    if not deleted.any():
        return rows
    places = np.flatnonzero(deleted)
    newest = _newest(rows.take(pa.array(places)), rules, roots)
    old = places[newest < since]
    if not len(old):
        return rows
    keep: Flags = np.ones(rows.num_rows, bool)
    keep[old] = False
    return rows.filter(pa.array(keep))


def _newest(rows: pa.Table, rules: MergeRules, roots: RootOrders) -> Indices:
    """Return the completion time of the newest root of each row."""
    own = numbers(rows.column(ROOT_PARTITION))
    newest = roots.completions_of(own)
    for group in rules.groups:
        column = whole(rows.column(ROOT_OF + group.ordering))
        of_group = np.where(valid(column), numbers(column), own)
        newest = np.maximum(newest, roots.completions_of(of_group))
    return newest
