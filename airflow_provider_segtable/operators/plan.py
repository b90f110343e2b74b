"""Plan a table's compactions, and trigger the DAG runs that carry them out.

The task triggers the runs itself where it can (``operators.dag_runs``); a mapped
``TriggerDagRunOperator`` triggers the others; see ``dag_factory``. Running twice is harmless: a
plan is requested once, and is in one run as long as that waits. The tables of the table's indexes
are planned, too: their DAG runs get them as ``table``.

The planner also publishes versions that readers of other formats miss (``services.publishing``), so
that a table is published without a DAG of its own if its writers do not publish
(``publish.on_commit = off``) or failed to.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.operators.dag_runs import Emitter
from airflow_provider_segtable.operators.emission import Located, check_emission
from airflow_provider_segtable.operators.metrics import send_gauges
from airflow_provider_segtable.operators.rendered import AssetEventOperator, author_of, own_events

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.properties import Policy
    from airflow_provider_segtable.services.planner import PlannerRun
    from airflow_provider_segtable.services.publishing import PublishRun
    from airflow_provider_segtable.table.context import TableContext

PLANS_PER_RUN = 16


class SegtablePlanOperator(AssetEventOperator):
    """Run the planner over one table.

    Returns arguments for a mapped ``TriggerDagRunOperator``: a list of ``{"trigger_dag_id",
    "trigger_run_id", "conf"}``, empty if the task has triggered all runs itself.

    Args:
        trigger_dag_ids: for each kind of plan, the DAG that carries it out: ``{"minor": "...",
            "semi-major": "...", "major": "..."}``. A kind that the policy can turn off is not
            planned without a DAG; the others (minor) must have one.
        policy: overrides the table's own, e.g. ``{"min_segments": 4}``.
        plans_per_run: how many plans share one DAG run, and so one start of Spark.
        kwargs: see ``TableOperator``.
    """

    template_fields: Sequence[str] = (
        *("trigger_dag_ids", "policy"),
        *AssetEventOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "trigger_dag_ids": "json",
        "policy": "json",
    }
    ui_color = "#dfe8f5"

    def __init__(
        self,
        *,
        trigger_dag_ids: Mapping[str, str],
        policy: Mapping[str, Any] | None = None,
        plans_per_run: int = PLANS_PER_RUN,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.trigger_dag_ids = trigger_dag_ids
        self.policy = policy
        self.plans_per_run = plans_per_run

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan the table, and trigger the DAG runs."""
        from airflow_provider_segtable.services.publishing import publish_all

        with self.opened(context, f"planning {self.table}") as ports:
            policy = self._policy(ports)
            planned = self._planned(context, ports, policy)
            try:  # the runs first: they begin while this task ends
                return self._emitter(context).emitted(context, _launches(planned))
            finally:
                self._log_published(publish_all(ports))
                send_gauges(self.table, ports, policy)

    def _planned(
        self, context: Context, ports: "TableContext", policy: "Policy"
    ) -> "dict[str, PlannerRun]":
        """Plan the table and the tables within it, by their names."""
        from airflow_provider_segtable.planning.finders.finder import finders
        from airflow_provider_segtable.services.planner import plan_inner_tables, plan_table

        always = [finder.plan.kind for finder in finders() if not finder.switch]
        check_emission(always, self.trigger_dag_ids, self.plans_per_run)
        begun = ports.log.load().n
        planned = {self.table: plan_table(ports, policy=policy)}
        self.emit(context, ports, "plan", made=own_events(ports, begun))
        for folder, run in plan_inner_tables(ports, overrides=self._off()):
            planned[f"{self.table}/{folder}"] = run
        for table, run in planned.items():
            self._log_run(table, run)
        return planned

    def _emitter(self, context: Context) -> Emitter:
        return Emitter(
            trigger_dag_ids=self.trigger_dag_ids,
            plans_per_run=self.plans_per_run,
            ports_of=partial(self.place.table_ports, author=author_of(context)),
            log=self.log,
        )

    def _policy(self, ports: "TableContext") -> "Policy":
        return overridden(ports, {**(self.policy or {}), **self._off()})

    def _off(self) -> dict[str, str]:
        """Return the settings that turn off the kinds of plan without a DAG."""
        from airflow_provider_segtable.planning.finders.finder import finders
        from airflow_provider_segtable.planning.properties import OFF

        return {
            finder.switch: OFF
            for finder in finders()
            if finder.switch and finder.plan.kind not in self.trigger_dag_ids
        }

    def _log_published(self, run: "PublishRun") -> None:
        """Log the outcome of publishing; a failure is a warning, because plans are made anyway."""
        if not (run.outcomes or run.failed):
            return
        from airflow_provider_segtable.table.publishing.publisher import Refused

        for outcome in run.outcomes:
            if isinstance(outcome, Refused):
                self.log.warning("not published as %s: %s", outcome.format, outcome.reason)
            else:
                self.log.info("published: %s", outcome)
        for name, error in run.failed.items():
            self.log.warning("not published as %s: %s", name, error)

    def _log_run(self, table: str, run: "PlannerRun") -> None:
        from airflow_provider_segtable.planning.selection import joined, ranges

        self.log.info("table %s at version %d", table, run.version)
        for name, why in run.indexes.items():
            self.log.info("index   %s requested: %s", name, why)
        for launch in run.launches:
            size, before = describe_size(launch.size), run.yielded.get(launch.plan_id)
            why = f"{launch.reason}; {before}" if before else launch.reason
            self.log.info("chosen  %s (%s): %s", launch.plan_id, size, why)
        launched = {launch.plan_id for launch in run.launches}
        for plan_id, holder in run.running.items():
            self.log.info("running %s: held by %s", plan_id, holder)
        for plan_id in run.yielded.keys() - launched:
            self.log.info("pending %s: %s", plan_id, run.yielded[plan_id])
        for plan_id, why in run.aborted.items():
            self.log.warning("aborted %s: %s", plan_id, why)
        if run.voided:
            ids = counted(len(run.voided), "id")
            self.log.info("voided  %s without a live writer", ids)
        self.log.info("::group::skipped, with reasons (%d)", len(run.skipped))
        lines = (
            (str(each.chunk.interval), each.kind, ranges(each.partitions) or "all", each.reason)
            for each in run.skipped
        )
        for interval, kind, where, reason in joined(lines):
            self.log.info("skipped by %s: %s [%s]: %s", kind, interval, where, reason)
        self.log.info("::endgroup::")


def _launches(planned: "Mapping[str, PlannerRun]") -> Iterator[Located]:
    """Yield the launches of a table and of those of its indexes."""
    for table, run in planned.items():
        yield from (Located(table=table, launch=launch) for launch in run.launches)


def overridden(ports: "TableContext", given: Mapping[str, Any]) -> "Policy":
    """Return the table's policy, with other values for some of its settings.

    Raises:
        InvalidInput: there is no such setting, or a value does not fit.
    """
    from airflow_provider_segtable.planning.properties import Policy

    settings = {f"compaction.{name}": str(value) for name, value in given.items()}
    return Policy.read({**ports.log.load().table.properties, **settings})
