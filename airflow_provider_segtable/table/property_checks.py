"""Check a table's properties against the rest of its definition, so that no later plan fails.

Planners check a policy in the same way before they plan by it.
"""

from collections.abc import Iterable

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Order, did_you_mean, no_column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Cut
from airflow_provider_segtable.planning.properties import COMPACTION_PROPERTIES as POLICY
from airflow_provider_segtable.planning.properties import INDEX_PROPERTIES as INDEX
from airflow_provider_segtable.planning.properties import LOG_STORE_PROPERTIES as LOG_STORE
from airflow_provider_segtable.planning.properties import PUBLISH_PROPERTIES as PUBLISH
from airflow_provider_segtable.planning.properties import RETENTION_PROPERTIES as RETENTION
from airflow_provider_segtable.planning.properties import STATISTICS_PROPERTIES as STATISTICS
from airflow_provider_segtable.planning.properties import (
    LogStoreSettings,
    Policy,
    Retention,
    StatisticsSettings,
    check_index_policy,
    names_index,
)
from airflow_provider_segtable.table.publishing.refusing import check_published

KNOWN = (*POLICY, *RETENTION, *INDEX, *LOG_STORE, *PUBLISH, *STATISTICS)
"""The keys of all properties, beside ``index.NAME`` for an index of the policy."""


def check_properties(table: TableDefinition, given: Iterable[str]) -> None:
    """Refuse properties that are unknown, malformed, or do not fit the table.

    Args:
        table: the definition with the properties.
        given: the keys that are new. Older ones may be unknown: another segtable may know them.

    Raises:
        InvalidInput: with the property, its value and the allowed values.
        SchemaMismatch: the clustering names a column that the table does not have.
        PublishingRefused: it cannot be published in a format that is switched on.
    """
    for key in given:
        if key not in KNOWN and not names_index(key):
            raise InvalidInput(
                f"{key!r} is not a property: {did_you_mean(key, KNOWN)}known are {', '.join(KNOWN)}"
            )
    policy = Policy.read(table.properties)
    Retention.read(table.properties)
    LogStoreSettings.read(table.properties)
    StatisticsSettings.read(table.properties)
    check_index_policy(table)
    check_published(table)
    checked_order(policy.clustering, table)
    check_cut(policy.cut, table)


def check_cut(cut: Cut, table: TableDefinition) -> None:
    """Refuse a granularity or a number of buckets that the table's kind does not allow.

    Raises:
        InvalidInput: the granularity is too fine; the message names the finest. Or the number of
            buckets is out of range, or the table has none.
    """
    if cut.granularity:
        table.kind.check_granularity(cut.granularity, table.name)
    if cut.buckets:
        table.kind.check_buckets(cut.buckets, table.name)


def checked_order(clustering: str, table: TableDefinition) -> str:
    """Return a clustering in its canonical form.

    Raises:
        InvalidInput: it is not a clustering, or names columns that are not sortable.
        SchemaMismatch: it names a column that the table does not have.
    """
    order = Order.parse(clustering)
    if order.columns:
        _check_columns(order, clustering, table)
    table.kind.check_order(order, table.time_column, table.name)
    return str(order)


def _check_columns(order: Order, clustering: str, table: TableDefinition) -> None:
    from airflow_provider_segtable.data.arrow_schema import parse_type
    from airflow_provider_segtable.data.sort_keys import check_sortable

    for name in order.columns:
        column = table.schema.find(name)
        if column is None:
            raise no_column(name, table.schema.names, f"for the clustering {clustering!r}")
        check_sortable(name, parse_type(column.type))
