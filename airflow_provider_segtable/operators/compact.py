"""Carry out compaction plans: one Spark application for all plans of a run.

1. Ask the log and the locks what is still to do. A retry may meet the driver of its earlier try,
   alive or dead: ``outstanding`` waits for a live one, and launches nothing it holds.
2. Launch ``spark_apps/compact.py`` over what is left. It locks, marks each plan inflight and
   commits by the log's rules: an orphan and its successor can never both commit a plan.
3. Judge by what the application reported, and by the log where it could not. Only failed plans
   fail the task; done already, running elsewhere, overtaken and yielded are success, and said so:
   what gave way to somebody more urgent is launched again by the next planner run.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, BaseOperator, Context

from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    ExecutionFailed,
    InvalidInput,
)
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.hooks.submission import (
    Launcher,
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
)
from airflow_provider_segtable.operators.author import author_of
from airflow_provider_segtable.operators.outstanding import Outstanding, outstanding, settle
from airflow_provider_segtable.services.compaction import Ended, PlanResult
from airflow_provider_segtable.spark.apps import spark_app_path


class SegtableCompactOperator(BaseOperator):
    """Carry out plans of one table on Spark.

    Returns ``{"completed", "segments_in", "segments_out", "rows", "bytes", "plans": [...]}``.

    Args:
        table: below the connection's root, or a URI.
        plans: plan ids, or their JSON text; every pending plan of the table if empty.
        segtable_conn_id: the connection.
        spark_conn_id: submit by this Spark connection; by default the segtable connection's
            ``spark_conn_id``, and without one Spark runs on this worker.
        spark_master: for Spark on this worker; by default the segtable connection's, else all
            local cores.
        spark_conf: settings of the application.
        launcher: another way to start applications, instead of the two.
        wait_s: how long to wait if another worker holds all the plans that are left.
        retries: a failed or killed try is tried again so often.
        retry_delay: after this time; longer than ZooKeeper keeps the locks of a dead holder.
    """

    template_fields: Sequence[str] = (
        "table",
        "plans",
        "segtable_conn_id",
        "spark_conn_id",
        "spark_master",
        "spark_conf",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark_conf": "json"}
    ui_color = "#f5e8df"

    def __init__(  # noqa: PLR0913  # each is a setting of its own
        self,
        *,
        table: str,
        plans: Sequence[str] | str | None = None,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        spark_conn_id: str | None = None,
        spark_master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        launcher: Launcher | None = None,
        wait_s: float = 120.0,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=40),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.table = table
        self.plans = plans
        self.segtable_conn_id = segtable_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_master = spark_master
        self.spark_conf = spark_conf
        self.launcher = launcher
        self.wait_s = wait_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry the plans out, as far as they are still to do."""
        place = SegtableHook(self.segtable_conn_id).place
        found = self._outstanding(place, author_of(context))
        results = (*found.settled, *self._launch(place, found.todo))
        for result in results:
            self.log.info("%s: %s: %s", result.plan_id, result.ended, result.message)
        failed = [result for result in results if result.ended is Ended.FAILED]
        if failed:
            what = "\n".join(f"{result.plan_id}: {result.message}" for result in failed)
            raise AirflowException(
                f"{len(failed)} of {len(results)} plans over {self.table} failed; "
                f"a retry or the next planner run takes them up again:\n{what}"
            )
        return summary(results)

    def on_kill(self) -> None:
        """End the application; its plans go back to the planner."""
        if self.launcher is not None:
            self.launcher.kill()

    def _outstanding(self, place: Place, author: str) -> Outstanding:
        with place.table_ports(self.table, author=author) as ports:
            asked = asked_plans(self.plans)
            return outstanding(ports, asked, wait_s=self.wait_s, tell=self.log.info)

    def _launch(self, place: Place, plan_ids: Sequence[str]) -> tuple[PlanResult, ...]:
        if not plan_ids:
            self.log.info("nothing is left to launch")
            return ()
        self.launcher = self.launcher or self._chosen_launcher(place)
        error = "the application ended without reporting this plan"
        with tempfile.TemporaryDirectory(prefix="segtable-") as folder:
            report = Path(folder, "result.json")
            try:
                self.launcher.launch(self._submission(place, plan_ids, report), self.log.info)
            except ExecutionFailed as fault:
                error = str(fault)
            reported = read_report(report)
        with place.table_ports(self.table) as ports:
            return settle(ports, plan_ids, reported, error)

    def _chosen_launcher(self, place: Place) -> Launcher:
        conn_id = self.spark_conn_id or place.spark_conn_id
        if conn_id and not self.spark_master:
            return SparkSubmit(conn_id)
        return LocalSparkSubmit(self.spark_master or place.spark_master)

    def _submission(self, place: Place, plan_ids: Sequence[str], report: Path) -> Submission:
        if place.zookeeper is None:
            raise CoordinatorUnavailable(
                f"connection {place.conn_id} names no ZooKeeper: set zookeeper in its extra"
            )
        arguments = ["--table", place.uri(self.table), "--zookeeper", place.zookeeper]
        for plan_id in plan_ids:
            arguments += ["--plan", plan_id]
        if self.launcher is not None and self.launcher.attached:
            arguments += ["--result-file", str(report), "--die-with-parent"]
        return Submission(
            application=spark_app_path("compact"),
            arguments=tuple(arguments),
            name=f"segtable-compact-{Path(self.table).name}",
            conf=self.spark_conf or {},
            storage_options=place.storage_options,
        )


def asked_plans(plans: Sequence[str] | str | None) -> Sequence[str] | None:
    """Return plan ids from what a template may render to; None means every pending plan.

    Raises:
        InvalidInput: if a text is no JSON list of ids.
    """
    if not isinstance(plans, str):
        return plans or None
    try:
        found = json.loads(plans or "null")
    except ValueError:
        found = plans
    if found and not (isinstance(found, list) and all(isinstance(p, str) for p in found)):
        raise InvalidInput(f'plans = {plans!r} is no JSON list of plan ids, like ["minor-..."]')
    return found or None


def read_report(path: Path) -> tuple[PlanResult, ...]:
    """Return the results in an application's report; nothing if there is none."""
    try:
        plans = json.loads(path.read_text()).get("plans", ())
    except FileNotFoundError:
        return ()
    return tuple(PlanResult(**{**plan, "ended": Ended(plan["ended"])}) for plan in plans)


def summary(results: Sequence[PlanResult]) -> dict[str, Any]:
    """Return results as plain values, for XCom; sizes in bytes."""
    return {
        "completed": sum(result.ended is Ended.COMPLETED for result in results),
        "segments_in": sum(result.segments_in for result in results),
        "segments_out": sum(result.segments_out for result in results),
        "rows": sum(result.rows for result in results),
        "bytes": sum(result.size for result in results),
        "plans": [{**asdict(result), "ended": str(result.ended)} for result in results],
    }
