"""Parse the rollup options ``--dimension``, ``--metric`` and ``--query-granularity``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup

if TYPE_CHECKING:
    import pyarrow as pa


def parse_rollup(
    dimensions: Sequence[str] | None, metrics: Sequence[str] | None, granularity: str | None
) -> Rollup | None:
    """Return the rollup that the options describe; None without options.

    Raises:
        InvalidInput, InvalidName: an option is wrong; the message names its value.
    """
    if not dimensions and not metrics and granularity is None:
        return None
    return Rollup(
        dimensions=tuple(dimensions or ()),
        metrics=tuple(map(Metric.parse, metrics or ())),
        query_granularity=QueryGranularity.parse(granularity or QueryGranularity.NONE.value),
    )


def needed(schema: "pa.Schema", time: str, rollup: Rollup | None) -> "pa.Schema":
    """Return the columns of a schema that a rollup needs; all without one."""
    import pyarrow as pa

    if rollup is None:
        return schema
    names = {time, *rollup.dimensions, *(metric.source for metric in rollup.metrics)}
    return pa.schema([field for field in schema if field.name in names])
