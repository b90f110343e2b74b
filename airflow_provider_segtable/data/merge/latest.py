"""Engine ``latest``: the highest record of a key, as a whole row (``core.tables.keyed``)."""

import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import ROOT_PARTITION, MergeRules
from airflow_provider_segtable.data.merge.key_groups import KeyGroups, numbers, whole
from airflow_provider_segtable.data.merge.merged_rows import MergedRows
from airflow_provider_segtable.data.merge.record_order import Order, record_codes
from airflow_provider_segtable.data.merge.root_orders import RootOrders


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
