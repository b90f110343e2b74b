"""Request an index of a table, and put the plan that builds it into the log.

1. An index that the table has already is left as it is, if it is of the same kind, columns and
   settings. Another one of this name fails the task at once.
2. From the request on every writer feeds the index. The plan builds the entries of earlier files:
   ``SegtableIndexOperator``, the DAG ``segtable_index__...`` of ``dag_factory``, or
   ``segtable index run`` carries it out.
3. A complete index gets no plan. So a repeated run writes nothing, and emits nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes import DEFAULT_KIND
from airflow_provider_segtable.operators.fields import listed, mapped
from airflow_provider_segtable.operators.rendered import AssetEventOperator, own_events

if TYPE_CHECKING:
    from airflow_provider_segtable.table.context import TableContext


class SegtableScheduleIndexOperator(AssetEventOperator):
    """Request an index of one table, unless it is there, and plan its missing entries.

    Returns ``{"index", "requested", "event", "available", "plan"}``: whether this run requested it,
    the event of the request, the event with which it became available (None until then), and the id
    of the plan to carry out (None if the index is complete).

    Args:
        index: the name of the index.
        kind: ``column_stats``, or another kind of ``Table.create_index``.
        columns: the columns to index, or their JSON text; for kinds that take columns.
        rate: the same as ``settings={"rate": ...}``.
        settings: settings of the kind, by name, or their JSON text; its defaults if left out.
        kwargs: see ``TableOperator``.
    """

    template_fields: Sequence[str] = (
        *("index", "kind", "columns", "settings"),
        *AssetEventOperator.template_fields,
    )
    ui_color = "#dfe3f5"

    def __init__(
        self,
        *,
        index: str,
        kind: str = DEFAULT_KIND,
        columns: Sequence[str] | str | None = None,
        rate: float | None = None,
        settings: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.index = index
        self.kind = kind
        self.columns = columns
        self.rate = rate
        self.settings = settings

    def execute(self, context: Context) -> dict[str, Any]:
        """Request the index and its plan; return a summary."""
        with self.opened(context, f"index {self.index} of {self.table}") as ports:
            begun = ports.log.load().n
            summary = self._scheduled(ports)
            self.emit(context, ports, "plan", made=own_events(ports, begun))
        return summary

    def _scheduled(self, ports: "TableContext") -> dict[str, Any]:
        from airflow_provider_segtable.core.catch_up import catch_up
        from airflow_provider_segtable.core.indexes.index_state import chosen_kind
        from airflow_provider_segtable.services.indexing import requested_plan
        from airflow_provider_segtable.table.index_lifecycle import ensure_index

        name = plain("index", self.index)
        columns = listed("columns", self.columns, "column names", "city")
        definition = ports.log.load().table
        kind = chosen_kind(
            plain("kind", self.kind), definition, columns=columns, settings=self._settings()
        )
        added = ensure_index(ports, name, kind)
        known = requested_plan(ports, name)
        state = ports.log.load()
        self.log.info("%s: %s", self.table, catch_up(state, name, now=ports.clock.now()).message)
        if known is not None:
            self.log.info("plan %s: %s", known.plan.id, known.plan.reason)
        found = state.indexes[name]
        return {
            "index": name,
            "requested": added,
            "event": found.requested_n,
            "available": found.available_n,
            "plan": None if known is None else known.plan.id,
        }

    def _settings(self) -> Mapping[str, Any]:
        """Return the settings of the kind; ``rate`` is one of them.

        Raises:
            InvalidInput: they are no mapping, or give the rate twice.
        """
        found = mapped("settings", self.settings, '{"rate": 0.01}')
        if self.rate is None:
            return found
        if "rate" in found:
            raise InvalidInput(
                f"rate = {self.rate} and settings = {shown(self.settings)} both give the rate: "
                "leave out one"
            )
        return {**found, "rate": self.rate}
