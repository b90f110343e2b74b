"""A table's compaction DAGs in one call.

::

    planner DAG (cron, one run at a time)          minor DAG (one run a batch of plans)
    plan ── list of runs ──> emit (mapped) ──────> compact ──> spark-submit

    from airflow_provider_segtable.dag_factory import compaction_dags

    compaction_dags(table="flights", schedule="*/5 * * * *")

The planner re-reads the table at every run, so nothing depends on a run that was missed or came
twice. Runs of the minor DAG queue behind ``max_active_runs`` and the pool.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN, SegtablePlanOperator

START = datetime(2024, 1, 1, tzinfo=UTC)
PLANS_OF_THE_RUN = "{{ ((dag_run.conf or {}).get('plans') or []) | tojson }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDags:
    """The DAGs of one table."""

    planner: DAG
    minor: DAG


def compaction_dags(  # noqa: PLR0913  # each is a setting of its own
    *,
    table: str,
    schedule: str | timedelta | None = "*/5 * * * *",
    name: str | None = None,
    segtable_conn_id: str = SegtableHook.default_conn_name,
    policy: Mapping[str, Any] | None = None,
    plans_per_run: int = PLANS_PER_RUN,
    max_active_runs: int = 2,
    pool: str | None = None,
    spark: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = ("segtable",),
) -> CompactionDags:
    """Make the planner DAG and the minor-compaction DAG of a table.

    Args:
        table: below the connection's root, or a URI.
        schedule: when to look, as cron or as a time between; None only by hand.
        name: goes into the DAG ids; the last part of ``table`` by default.
        segtable_conn_id: the connection.
        policy: overrides the table's own.
        plans_per_run: how many plans share one start of Spark.
        max_active_runs: how many minor runs at once.
        pool: of the compacting task.
        spark: more arguments of ``SegtableCompactOperator``: ``spark_conn_id``, ``spark_conf`` ...
        tags: of both DAGs.

    Returns:
        Both; Airflow finds them without their being assigned to anything.
    """
    title = re.sub(r"[^\w.-]", "_", name or table.rstrip("/").rsplit("/", 1)[-1])
    minor_id = f"segtable_minor__{title}"
    more: dict[str, Any] = {**({"pool": pool} if pool else {}), **(spark or {})}
    common: dict[str, Any] = {"start_date": START, "catchup": False, "tags": list(tags)}
    with DAG(
        f"segtable_planner__{title}",
        description=f"Finds what {title} needs and emits minor compactions",
        schedule=schedule,
        max_active_runs=1,
        **common,
    ) as planner:
        plan = SegtablePlanOperator(
            task_id="plan",
            table=table,
            trigger_dag_ids={"minor": minor_id},
            policy=policy,
            plans_per_run=plans_per_run,
            segtable_conn_id=segtable_conn_id,
            retries=2,
            retry_delay=timedelta(seconds=10),
        )
        TriggerDagRunOperator.partial(
            task_id="emit",
            logical_date=None,
            skip_when_already_exists=True,
            map_index_template="{{ task.trigger_run_id }}",
        ).expand_kwargs(plan.output)
    with DAG(
        minor_id,
        description=f"Carries out minor compactions of {title}",
        schedule=None,
        max_active_runs=max_active_runs,
        **common,
    ) as minor:
        SegtableCompactOperator(
            task_id="compact",
            table=table,
            plans=PLANS_OF_THE_RUN,
            segtable_conn_id=segtable_conn_id,
            **more,
        )
    return CompactionDags(planner=planner, minor=minor)
