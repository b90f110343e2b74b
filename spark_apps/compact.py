"""Carry out any number of compaction plans of one table in one Spark application.

    APP=$(segtable spark-app compact)
    spark-submit $APP --table URI --zookeeper ADDRESS --plan ID [--plan ID ...]
    python $APP --table URI --zookeeper ADDRESS --all-pending

Smaller kinds go first. A plan that is done already, runs elsewhere, was overtaken or yielded is
reported as such; it is not a failure.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.compaction import Ended, PlanResult
from airflow_provider_segtable.spark.driver.application import (
    DONE,
    FAILED,
    App,
    Outcome,
    parser,
    run,
)
from airflow_provider_segtable.spark.driver.session import check_machine
from airflow_provider_segtable.spark.writes.distribution import spark_execute

_IN_THE_LOG = (Ended.COMPLETED, Ended.DONE_ALREADY, Ended.OVERTAKEN)
"""Outcomes that the log records; the others leave a plan pending."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; return its exit code."""
    return run(arguments(), argv, work)


def arguments() -> argparse.ArgumentParser:
    """Return the parser."""
    made = parser("segtable-compact", "Carry out compaction plans of one table.")
    which = made.add_mutually_exclusive_group(required=True)
    which.add_argument("--plan", action="append", metavar="ID", help="a plan; may be repeated")
    which.add_argument("--all-pending", action="store_true", help="every plan that waits")
    made.add_argument("--timeout-s", type=float, metavar="S", help="when an index build pauses")
    made.set_defaults(wait_s=None)  # the default of each kind
    return made


def work(app: App) -> Outcome:
    """Carry out the plans, and report how each one ended."""
    check_machine()  # before the log marks plans as inflight
    plan_ids = app.arguments.plan or _pending(app)
    results = _compact(app, plan_ids) if plan_ids else ()
    failed = any(result.ended is Ended.FAILED for result in results)
    facts = {"plans": [asdict(result) for result in results]}
    logged = all(result.ended in _IN_THE_LOG for result in results)
    return Outcome(code=FAILED if failed else DONE, facts=facts, logged=logged)


def _compact(app: App, plan_ids: Sequence[str]) -> Sequence[PlanResult]:
    return carry_out(
        app.ports,
        plan_ids,
        spark_execute(app.spark),
        wait_s=app.arguments.wait_s,
        timeout_s=app.arguments.timeout_s,
        parallelism=app.spark.sparkContext.defaultParallelism,
        report=_say,
    )


def _pending(app: App) -> list[str]:
    return [known.plan.id for known in app.ports.log.load().pending_plans()]


def _say(result: PlanResult) -> None:
    print(f"{result.plan_id}: {result.ended}: {result.message}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
