"""Delete, update or merge rows of one table, by any Spark SQL expression.

    APP=$(segtable spark-app change)
    spark-submit $APP delete --table URI --zookeeper ADDRESS --where "n < 10"
    spark-submit $APP update --table URI --zookeeper ADDRESS \
        --set "n=n + 1" --set "who=upper(who)" --where "n < 10"
    spark-submit $APP merge --table URI --zookeeper ADDRESS \
        --source rows.parquet --on n --matched update --unmatched insert

With ``--commit-id`` a repeated run changes rows once; ``--dry-run`` only counts the rows that it
would change. A value that does not fit its column is a failure (1); an impossible change is a wrong
argument (2).
"""

import argparse
import sys
from collections.abc import Sequence
from time import monotonic

from pyspark.sql import DataFrame

from airflow_provider_segtable.core.requests.change_request import (
    FileRows,
    add_change_arguments,
    request_of,
)
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.spark.driver.application import DONE, App, Outcome, parser, run
from airflow_provider_segtable.spark.reads.input_source import read_source
from airflow_provider_segtable.spark.writes.spark_engine import change
from airflow_provider_segtable.table.changes.run_change import WAIT_S


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; return its exit code."""
    return run(arguments(), argv, work)


def arguments() -> argparse.ArgumentParser:
    """Return the parser."""
    made = parser("segtable-change", "Delete, update or merge rows of one table.")
    made.set_defaults(wait_s=WAIT_S)
    add_change_arguments(made)
    return made


def work(app: App) -> Outcome:
    """Change rows, and report how many."""
    start = monotonic()
    request = request_of(app.arguments)
    schema = to_arrow(app.ports.log.load().table.schema)  # fails first if there is no table

    def read(file: FileRows) -> DataFrame:
        return read_source(app.spark, file.path, file.format, app.reader_options(), schema=schema)

    result = change(app.spark, app.ports, request, read, wait_s=app.arguments.wait_s)
    facts = {
        "kind": request.kind.value,
        **result.facts(),
        "seconds": round(monotonic() - start, 3),
    }
    logged = result.n is not None and request.commit_id is not None
    return Outcome(code=DONE, facts=facts, logged=logged)


if __name__ == "__main__":
    sys.exit(main())
