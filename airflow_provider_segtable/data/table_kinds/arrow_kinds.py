"""The registry of kinds of table in Arrow."""

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.table_kinds.append_arrow import AppendArrow
from airflow_provider_segtable.data.table_kinds.arrow_kind import ArrowKind
from airflow_provider_segtable.data.table_kinds.keyed_arrow import KeyedArrow
from airflow_provider_segtable.data.table_kinds.rollup_arrow import RollupArrow

ARROW_KINDS: Mapping[str, Callable[[Any], ArrowKind]] = {
    Append.name: AppendArrow,
    Rollup.name: RollupArrow,
    PrimaryKey.name: KeyedArrow,
}
"""How to make a kind's part for Arrow from its pure part, by name."""


def arrow_kind_of(kind: TableKind) -> ArrowKind:
    """Return a kind's part for Arrow."""
    return ARROW_KINDS[kind.name](kind)
