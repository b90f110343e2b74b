"""Carry out plans of all kinds in one process: in execution order, on either engine."""

from collections.abc import Sequence

from airflow_provider_segtable.services.compaction.compaction import PlanResult, Report, compact
from airflow_provider_segtable.services.compaction.execution import Execute
from airflow_provider_segtable.services.compaction.execution_order import execution_order
from airflow_provider_segtable.table.context import TableContext


def carry_out(
    ports: TableContext,
    plan_ids: Sequence[str],
    execute: Execute,
    *,
    wait_s: float | None = None,
    parallelism: int = 2,
    timeout_s: float | None = None,
    report: Report = lambda _: None,
) -> tuple[PlanResult, ...]:
    """Execute plans, smaller kinds first.

    Args:
        ports: the table's ports, with a coordinator.
        plan_ids: the plans to execute.
        execute: runs the kernel jobs.
        wait_s: how long to wait for locks of other processes; if None, the default of each kind.
        parallelism: approximate number of concurrent jobs.
        timeout_s: after this time an index build pauses; the table's setting if None.
        report: called with each result, for progress.

    Returns:
        One result per plan, in the order in which they ended.
    """
    return tuple(
        result
        for batch in execution_order(ports.log.load(), plan_ids, wait_s)
        for result in compact(
            ports,
            batch.plan_ids,
            execute,
            wait_s=batch.wait_s,
            parallelism=parallelism,
            timeout_s=timeout_s,
            report=report,
        )
    )
