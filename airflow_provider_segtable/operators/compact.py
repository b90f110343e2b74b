"""Carry out compaction plans: small ones in the task itself, larger ones on Spark.

The plans are named, or made first: by the policy, or for segments that a user chose
(``services.request``); a retry finds these plans again. The way of every run is in
``operators.plans_operator``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.operators.fields import Asked, asked_work
from airflow_provider_segtable.operators.plan import overridden
from airflow_provider_segtable.operators.plans_operator import (
    SegtablePlansOperator,
    sentence,
    summary,
)

if TYPE_CHECKING:
    from airflow_provider_segtable.services.compaction import PlanResult
    from airflow_provider_segtable.table.context import TableContext


class SegtableCompactOperator(SegtablePlansOperator):
    """Carry out plans of one table, in the task itself or on Spark.

    Returns ``{"completed", "segments_in", "segments_out", "rows", "bytes", "plans": [...]}``.

    Args:
        plans: plan ids, or their JSON text; every pending plan of the table if empty.
        kind: compact chosen ``segments`` by this kind (``minor``, ``semi-major``, ``major``), also
            before the policy would; empty: none are chosen.
        segments: their ids as ``segtable table segments`` prints them, or their JSON text. Minor
            joins exactly these; other kinds take the chunks that they lie in.
        policy: if given, plan the table first, with these values instead of its own policy's:
            ``{}``, or e.g. ``{"deleted_share": 0}``; the tables of its indexes are compacted, too,
            by their own policies. With ``kind``, the values say how it is compacted.
        kwargs: see ``SegtablePlansOperator``.
    """

    work = "compact"
    template_fields: Sequence[str] = (
        *("kind", "segments", "policy"),
        *SegtablePlansOperator.template_fields,
    )
    ui_color = "#f5e8df"

    def __init__(
        self,
        *,
        kind: str = "",
        segments: Sequence[str] | str | None = None,
        policy: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.segments = segments
        self.policy = policy

    def asked(self) -> Asked:
        """Return the plans, or the segments and their kind."""
        return asked_work(self.plans, self.kind, self.segments)

    def plan_ids(self, ports: "TableContext", asked: Asked) -> Sequence[str] | None:
        """Return the ids of the plans to carry out; None means every pending plan."""
        from airflow_provider_segtable.services.planner import plan_table
        from airflow_provider_segtable.services.request import request

        if asked.kind:
            policy = overridden(ports, self.policy or {})
            made = request(ports, asked.kind, segments=asked.segments, policy=policy)
            return [known.plan.id for known in made]
        if self.policy is not None:
            plan_table(ports, policy=overridden(ports, self.policy))
            self._compact_indexes(ports)
        return asked.plans

    def _compact_indexes(self, ports: "TableContext") -> None:
        """Compact the tables of indexes in this task: they are small, and no read needs them."""
        from airflow_provider_segtable.services.attempt import in_process
        from airflow_provider_segtable.services.compact_table import carry_out
        from airflow_provider_segtable.services.planner import plan_inner_tables

        for folder, run in plan_inner_tables(ports):
            ids = [launch.plan_id for launch in run.launches]
            inner = ports.within(folder)
            self._say(carry_out(inner, ids, in_process(inner.files)))

    def summary(self, results: "Sequence[PlanResult]") -> dict[str, Any]:
        """Return results as plain values, for XCom; sizes in bytes."""
        return summary(results)

    def sentence(self, results: "Sequence[PlanResult]") -> str:
        """Return a run in one line."""
        return sentence(results)
