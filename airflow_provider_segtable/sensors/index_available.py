"""Wait until an index of a table is available."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.triggers.index import CaughtUp

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class SegtableIndexAvailableSensor(SegtableTableSensor):
    """Wait until an index is available: it has had the entries of all files at least once.

    Fails at once if the table has no such index, or is dropped meanwhile.

    Args:
        index: the name of the index.
        kwargs: see ``SegtableTableSensor``. In the triggerer ``poke_interval`` is at least 30 s:
            ZooKeeper wakes it earlier.
    """

    template_fields: Sequence[str] = ("index", *SegtableTableSensor.template_fields)

    def __init__(self, *, index: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.index = index

    def question(self, context: Context, ports: "TableContext", state: "State") -> CaughtUp:
        """Return the question: has the index been available?"""
        del context, ports, state
        return CaughtUp(table=self.table, index=self.index, upto=0)
