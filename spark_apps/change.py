"""Delete, update or merge rows of one table, by any Spark SQL expression.

    spark-submit spark_apps/change.py delete --table URI --zookeeper ADDRESS --where "n < 10"
    spark-submit spark_apps/change.py update --table URI --zookeeper ADDRESS \
        --set "n=n + 1" --set "who=upper(who)" --where "n < 10"
    spark-submit spark_apps/change.py merge --table URI --zookeeper ADDRESS \
        --source rows.parquet --on n --matched update --unmatched insert

With ``--commit-id`` a repeated run changes rows once; ``--dry-run`` only counts the matching rows
of the table. A value that does not fit its column is a failure (1); an impossible change is a wrong
argument (2).
"""

import argparse
import sys
from collections.abc import Sequence
from time import monotonic

from pyspark.sql import DataFrame

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.spark.driver.application import DONE, App, Outcome, pair, parser, run
from airflow_provider_segtable.spark.reads.input_source import read_source
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.writes.dataframe_change import WAIT_S, delete, merge, update
from airflow_provider_segtable.table.changes.merge_rows import Matched, Unmatched
from airflow_provider_segtable.table.changes.row_change import ChangeKind, ChangeResult


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; return its exit code."""
    return run(arguments(), argv, work)


def arguments() -> argparse.ArgumentParser:
    """Return the parser."""
    made = parser("segtable-change", "Delete, update or merge rows of one table.")
    made.set_defaults(wait_s=WAIT_S)
    made.add_argument("kind", choices=[kind.value for kind in ChangeKind], help="what to do")
    made.add_argument("--where", metavar="CONDITION", help="which rows, in SQL; 'true' is all")
    made.add_argument("--set", type=pair, action="append", default=[], metavar="COLUMN=EXPRESSION")
    made.add_argument("--matches", metavar="PATH", help="rows that equal one of these")
    made.add_argument("--source", metavar="PATH", help="the rows to merge")
    made.add_argument(
        "--on", help="columns to compare: COLUMN,COLUMN; of --matches all if not given"
    )
    made.add_argument("--matched", choices=list(Matched), default=Matched.UPDATE)
    made.add_argument("--unmatched", choices=list(Unmatched), default=Unmatched.INSERT)
    made.add_argument("--format", help="of --matches or --source: by default from the suffix")
    made.add_argument(
        "--option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's reader, e.g. nullValue=NA",
    )
    made.add_argument("--commit-id", help="equal ids change once")
    made.add_argument(
        "--dry-run", action="store_true", help="say how many rows match, write nothing"
    )
    return made


def work(app: App) -> Outcome:
    """Change rows, and report how many."""
    start = monotonic()
    _check(app.arguments)
    result = _changed(app, ChangeKind(app.arguments.kind))
    facts = {
        "kind": app.arguments.kind,
        "event": result.n,
        "matched": result.matched,
        "deleted": result.deleted,
        "inserted": result.inserted,
        "dry_run": app.arguments.dry_run,
        "seconds": round(monotonic() - start, 3),
    }
    logged = result.n is not None and app.arguments.commit_id is not None
    return Outcome(code=DONE, facts=facts, logged=logged)


def _check(given: argparse.Namespace) -> None:
    """Refuse arguments of another kind of change, instead of ignoring them."""
    kind = ChangeKind(given.kind)
    own = {
        "--where": (given.where is not None, kind is not ChangeKind.MERGE),
        "--matches": (given.matches is not None, kind is not ChangeKind.MERGE),
        "--set": (bool(given.set), kind is not ChangeKind.DELETE),
        "--source": (given.source is not None, kind is ChangeKind.MERGE),
    }
    for name, (is_given, fits) in own.items():
        if is_given and not fits:
            raise InvalidInput(f"{name} says nothing to a {kind.value}: leave it out")
    if kind is ChangeKind.MERGE and not (given.source and given.on):
        raise InvalidInput("a merge needs --source and --on")
    if kind is ChangeKind.UPDATE and not given.set:
        raise InvalidInput("an update needs --set COLUMN=EXPRESSION")
    if kind is not ChangeKind.MERGE and given.where is None and given.matches is None:
        raise InvalidInput("say which rows: --where or --matches; --where true is all")
    twice = [name for name, _ in given.set if [n for n, _ in given.set].count(name) > 1]
    if twice:
        raise InvalidInput(f"column {twice[0]!r} is set more than once: leave one")


def _changed(app: App, kind: ChangeKind) -> ChangeResult:
    given = app.arguments
    common = {"commit_id": given.commit_id, "wait_s": given.wait_s, "dry_run": given.dry_run}
    app.ports.log.load()  # fails before Spark starts if there is no table
    if kind is ChangeKind.MERGE:
        return merge(
            app.spark,
            app.ports,
            _read(app, given.source),
            _columns(given.on),
            matched=given.matched,
            unmatched=given.unmatched,
            set=dict(given.set) or None,
            **common,
        )
    matches = _matches(app)
    if kind is ChangeKind.UPDATE:
        sets = dict(given.set)
        return update(app.spark, app.ports, sets, given.where, matches=matches, **common)
    return delete(app.spark, app.ports, given.where, matches=matches, **common)


def _matches(app: App) -> DataFrame | None:
    given = app.arguments
    if given.matches is None:
        return None
    rows = _read(app, given.matches)
    names = _columns(given.on) if given.on else rows.columns
    for name in names:
        if name not in rows.columns:
            raise SchemaMismatch(f"{given.matches} has no column {name!r}: {rows.columns}")
    return rows.select(*(column(rows, name) for name in names))


def _read(app: App, path: str) -> DataFrame:
    given, state = app.arguments, app.ports.log.load()
    schema = to_arrow(state.table.schema)
    return read_source(app.spark, path, given.format, app.reader_options(), schema=schema)


def _columns(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
