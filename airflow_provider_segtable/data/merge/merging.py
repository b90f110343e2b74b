"""Merging rows of equal keys, held in memory (``core.tables.keyed.merge_rules`` has the rules)."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine, MergeRules
from airflow_provider_segtable.data.merge.key_groups import KeyGroups, codes_of, whole
from airflow_provider_segtable.data.merge.latest import latest
from airflow_provider_segtable.data.merge.merged_rows import MergedRows
from airflow_provider_segtable.data.merge.partial_update import partial_update
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.merge.text_codes import is_text, text_codes
from airflow_provider_segtable.data.sort.sort_keys import Codes, composed, is_sorted

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


def merged_sorted(parts: Sequence[pa.Table], rules: MergeRules, roots: RootOrders) -> pa.Table:
    """Return the merge of parts that are sorted by key, and have one row a key each.

    Raises:
        CorruptTable: a part is not sorted.
    """
    if len(parts) == 1:
        return parts[0]
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
    return _merged(table, codes, rules, roots)


def key_codes(table: pa.Table, rules: MergeRules) -> Codes:
    """Return codes of the rows' keys."""
    return composed([_key_codes(whole(table.column(name))) for name in rules.key])


def _key_codes(column: pa.Array) -> Codes:
    return text_codes(column) if is_text(column.type) else codes_of([column])


def _merged(table: pa.Table, codes: Codes, rules: MergeRules, roots: RootOrders) -> pa.Table:
    rows = _ENGINES[rules.engine](table, KeyGroups.of(codes), rules, roots)
    return rows.taken(table)
