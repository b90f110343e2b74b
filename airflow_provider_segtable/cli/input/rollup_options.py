"""Parse the rollup options ``--dimension``, ``--metric`` and ``--query-granularity``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind

if TYPE_CHECKING:
    import pyarrow as pa


def parse_rollup(
    dimensions: Sequence[str] | None, metrics: Sequence[str] | None, granularity: str | None
) -> TableKind:
    """Return the kind of table that the options describe; without options an append table.

    Raises:
        InvalidInput, InvalidName: an option is wrong; the message names its value.
    """
    if not dimensions and not metrics and granularity is None:
        return Append()
    return Rollup(
        dimensions=tuple(dimensions or ()),
        metrics=tuple(map(Metric.parse, metrics or ())),
        query_granularity=QueryGranularity.parse(granularity or QueryGranularity.NONE.value),
    )


def needed(schema: "pa.Schema", time: str, kind: TableKind) -> "pa.Schema":
    """Return the columns of a schema that a kind of table needs."""
    import pyarrow as pa

    names = set(kind.needed(schema.names, time))
    return pa.schema([field for field in schema if field.name in names])
