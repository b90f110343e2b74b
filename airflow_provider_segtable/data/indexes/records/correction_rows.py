"""The rows of corrections: tombstones of keys in the places of losers, in the table's columns."""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.record_index import (
    ORDERING,
    key_column,
    rules_of,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.arrow.event_times import is_date
from airflow_provider_segtable.data.indexes.records.decision import Decision


def correction_rows(
    ids: Sequence[int], table: TableCreated, facts: pa.Table, decision: Decision
) -> pa.Table:
    """Return a row for each loser: its key and event time, the winner's ordering value.

    Args:
        ids: the ids of the key's columns, in its order.
        table: the table.
        facts: the facts that were decided.
        decision: what was decided.
    """
    rules, losers, over = rules_of(table), pa.array(decision.losers), pa.array(decision.over)
    schema = to_arrow(table.schema)
    found = {
        name: facts.column(key_column(number)).take(losers)
        for number, name in zip(ids, rules.key, strict=True)
    }
    if rules.ordering:
        found[rules.ordering] = facts.column(ORDERING).take(over)
    time = schema.field(table.time_column)
    found.setdefault(time.name, _times(facts.column(START).take(losers), time.type))
    columns = [
        found[field.name] if field.name in found else pa.nulls(len(losers), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _times(times: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return instants as event times, never later than they are."""
    plain = times.cast(pa.timestamp("us"))
    if is_date(kind):
        return plain.cast(kind, safe=False)
    return plain.cast(pa.timestamp(kind.unit), safe=False).cast(kind)
