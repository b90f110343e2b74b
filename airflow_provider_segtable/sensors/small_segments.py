"""Wait until compaction has caught up with an interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.triggers.table import SmallSegments

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class SegtableSmallSegmentsSensor(SegtableTableSensor):
    """Wait until every chunk of an interval has at most ``at_most`` small segments.

    Args:
        interval: ISO 8601 ``start/end``; the whole table if left out.
        at_most: how many small segments a chunk may have. By default as many as the table's policy
            leaves uncompacted: one less than ``compaction.min_segments``.
        kwargs: see ``SegtableTableSensor``.
    """

    template_fields: Sequence[str] = ("interval", *SegtableTableSensor.template_fields)

    def __init__(
        self, *, interval: str | None = None, at_most: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.interval = interval
        self.at_most = at_most

    def question(self, context: Context, ports: "TableContext", state: "State") -> SmallSegments:
        """Return the question for the rendered fields."""
        del context, ports, state
        return SmallSegments(table=self.table, interval=self.interval, at_most=self.at_most)
