"""Carry out compaction plans of one table, as many as there are, in one Spark application.

    spark-submit spark_apps/compact.py --table URI --zookeeper ADDRESS --plan ID [--plan ID ...]
    python spark_apps/compact.py --table URI --zookeeper ADDRESS --all-pending

A plan that is done already, runs elsewhere or was overtaken is no failure: it is said so.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from airflow_provider_segtable.data.minor import MinorJob
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.execution import Done
from airflow_provider_segtable.spark.app import DONE, FAILED, App, Outcome, parser, run
from airflow_provider_segtable.spark.distribution import spark_execute
from airflow_provider_segtable.spark.session import check_machine
from airflow_provider_segtable.table.log import EventLog


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; return its exit code."""
    return run(arguments(), argv, work)


def arguments() -> argparse.ArgumentParser:
    """Return the parser."""
    made = parser("segtable-compact", "Carry out compaction plans of one table.")
    which = made.add_mutually_exclusive_group(required=True)
    which.add_argument("--plan", action="append", metavar="ID", help="a plan; may be repeated")
    which.add_argument("--all-pending", action="store_true", help="every plan that waits")
    return made


def work(app: App) -> Outcome:
    """Compact, and say how each plan ended."""

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        yield from spark_execute(app.spark)(jobs)

    check_machine()  # before the log is told that work begins
    plans = app.arguments.plan or _pending(app)
    wait_s = app.arguments.wait_s
    results = compact(app.ports, plans, execute, wait_s=wait_s, report=_say)
    failed = any(result.ended is Ended.FAILED for result in results)
    facts = {"plans": [asdict(result) for result in results]}
    return Outcome(code=FAILED if failed else DONE, facts=facts)


def _pending(app: App) -> list[str]:
    state = EventLog(app.ports.storage).load()
    return [known.plan.id for known in state.pending_plans()]


def _say(result: PlanResult) -> None:
    print(f"{result.plan_id}: {result.ended}: {result.message}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
