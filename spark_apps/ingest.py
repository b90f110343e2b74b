"""Append any source that Spark can read to a table, as a batch or as a stream.

    APP=$(segtable spark-app ingest)
    spark-submit $APP --table URI --zookeeper ADDRESS --source flights.csv.gz
    spark-submit $APP --table URI --zookeeper ADDRESS --source day.parquet \
        --overwrite 2013-01-31/2013-02-01
    spark-submit $APP --table URI --zookeeper ADDRESS --source folder \
        --format csv --checkpoint folder --trigger available-now

A table with a primary key is upserted; ``--deleted`` names the column of the rows that says which
of them delete their key. With ``--commit-id`` a repeated run appends or overwrites once; a stream
always appends once. ``--bad-rows`` sets rows that do not fit aside, in a file of the driver's
machine.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.arguments import pair
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.files.text_values import BadRows, Needed
from airflow_provider_segtable.spark.driver.application import DONE, App, Outcome, parser, run
from airflow_provider_segtable.spark.reads.input_source import (
    complete,
    read_source,
    read_stream_source,
)
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, ingest
from airflow_provider_segtable.spark.writes.spark_engine import overwrite
from airflow_provider_segtable.spark.writes.stream import AVAILABLE_NOW, ingest_stream
from airflow_provider_segtable.table.definition import needed_values

LOCK_WAIT_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; return its exit code."""
    return run(arguments(), argv, work)


def arguments() -> argparse.ArgumentParser:
    """Return the parser."""
    made = parser("segtable-ingest", "Append rows to a table.")
    made.set_defaults(wait_s=LOCK_WAIT_S)
    made.add_argument(
        "--source",
        action="append",
        required=True,
        metavar="PATH",
        help="file, folder or pattern; may be repeated: all rows are one append",
    )
    made.add_argument("--format", help="csv, json, parquet, ...; by default from the suffix")
    made.add_argument(
        "--option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's reader, e.g. multiLine=false",
    )
    _add_form(made)
    made.add_argument("--commit-id", help="equal ids append or overwrite once")
    _add_overwrite(made)
    made.add_argument(
        "--deleted",
        metavar="COLUMN",
        help="boolean column of the rows, not of the table: they delete their key (primary key)",
    )
    made.add_argument("--rows-per-segment", type=int, help="rows a segment, about")
    made.add_argument("--checkpoint", metavar="DIR", help="read as a stream; its state is here")
    made.add_argument(
        "--log",
        action="store_true",
        help="of a stream: let readers of the table's log store see rows before their batch is "
        "committed",
    )
    made.add_argument("--trigger", default="available-now", help="or an interval: '10 seconds'")
    return made


def _add_form(made: argparse.ArgumentParser) -> None:
    made.add_argument("--delimiter", help="of CSV: what separates fields, or tab; else a comma")
    made.add_argument("--encoding", default="utf-8", help="of CSV: of the text")
    made.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="of CSV: the first line has values; the columns are the table's, in their order",
    )
    made.add_argument(
        "--null-text",
        action="append",
        default=[],
        metavar="TEXT",
        help="of CSV: stands for null, besides an empty field without quotes; repeat",
    )
    made.add_argument(
        "--bad-rows",
        metavar="FILE",
        help="set rows without a valid event time, and CSV rows with a field that does not fit, "
        "aside in this file of the driver's machine (JSON lines) instead of refusing all",
    )


def _form(given: argparse.Namespace) -> CsvFormat:
    return CsvFormat(
        delimiter=given.delimiter,
        encoding=given.encoding,
        header=given.header,
        nulls=tuple(given.null_text),
    )


def _add_overwrite(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--overwrite",
        metavar="START/END",
        help="replace the rows of this interval; 'chunks': of the time chunks that the rows touch",
    )
    made.add_argument(
        "--overwrite-where",
        metavar="CONDITION",
        help="instead, replace the rows that match it, in SQL; every new row must match, too",
    )
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="report how many rows an overwrite would replace, write nothing",
    )


def work(app: App) -> Outcome:
    """Ingest the source, and report the appended rows."""
    if app.arguments.dry_run and not _overwrites(app):
        raise InvalidInput("--dry-run counts what an overwrite would replace: add --overwrite")
    if not app.arguments.checkpoint:
        if app.arguments.log:
            raise InvalidInput("--log is for streams: add --checkpoint, or leave it out")
        return _batch(app)
    if _overwrites(app):
        raise InvalidInput("a stream appends: leave out --overwrite or --checkpoint")
    if app.arguments.bad_rows:
        raise InvalidInput(
            "--bad-rows sets rows of whole files aside, and a stream has none: leave out one of "
            "--bad-rows and --checkpoint"
        )
    return _stream(app)


def _batch(app: App) -> Outcome:
    given = app.arguments
    state = app.ports.log.load()
    schema = _read_by(state, given.deleted)
    bad = BadRows(given.bad_rows) if given.bad_rows else None
    sources = (
        _read(app, source, schema, needed_values(state.table), bad) for source in given.source
    )
    rows = reduce(DataFrame.unionByName, sources)
    told = _overwritten(app, rows) if _overwrites(app) else _appended_rows(app, rows)
    return told if bad is None else replace(told, facts={**told.facts, "set_aside": bad.count})


def _read(
    app: App, source: str, schema: pa.Schema, needed: Needed, bad: BadRows | None
) -> DataFrame:
    """Return the rows of a source; those that do not fit go to ``bad``."""
    given = app.arguments
    rows = read_source(
        *(app.spark, source, given.format, app.reader_options()),
        schema=schema,
        csv=_form(given),
        bad=bad,
    )
    return rows if bad is None else complete(rows, needed, source, bad)


def _appended_rows(app: App, rows: DataFrame) -> Outcome:
    given = app.arguments
    committed = ingest(
        app.ports,
        rows,
        commit_id=given.commit_id,
        rows_per_segment=given.rows_per_segment,
        wait_s=given.wait_s,
        deleted=given.deleted,
    )
    if committed.segments == 0:
        return Outcome(code=DONE, facts={"event": None, "segments": 0, "rows": 0, "size": 0})
    return Outcome(code=DONE, facts={"event": committed.n, **_appended(app, committed.n)})


def _overwrites(app: App) -> bool:
    return app.arguments.overwrite is not None or app.arguments.overwrite_where is not None


def _overwritten(app: App, rows: DataFrame) -> Outcome:
    given = app.arguments
    done = overwrite(
        app.ports,
        rows,
        interval=given.overwrite,
        where=given.overwrite_where,
        dry_run=given.dry_run,
        commit_id=given.commit_id,
        sizing=Sizing(rows_per_segment=given.rows_per_segment),
        wait_s=given.wait_s,
    )
    appended = {} if done.n is None else _appended(app, done.n)
    return Outcome(code=DONE, facts={**done.facts(), **appended})


def _appended(app: App, n: int) -> dict[str, int]:
    event = app.ports.log.event(n)
    if event is None or not isinstance(event.action, Appended | RowsChanged):
        return {}
    segments = event.action.segments
    return {
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "size": sum(segment.size for segment in segments),
    }


def _stream(app: App) -> Outcome:
    given = app.arguments
    state = app.ports.log.load()
    schema = _read_by(state, given.deleted)
    if len(given.source) > 1:
        raise InvalidInput(f"a stream reads one folder, not {len(given.source)}: {given.source}")
    rows = read_stream_source(
        *(app.spark, given.source[0], given.format, app.reader_options()),
        schema=schema,
        csv=_form(given),
    )
    stream = ingest_stream(
        app.ports,
        rows,
        given.checkpoint,
        trigger=_trigger(given.trigger),
        rows_per_segment=given.rows_per_segment,
        wait_s=given.wait_s,
        deleted=given.deleted,
        log=given.log,
    )
    stream.wait()
    return Outcome(code=DONE, facts={"event": app.ports.log.load().n})


def _read_by(state: State, deleted: str | None) -> pa.Schema:
    """Return the types that text is read in: the table's, and that of the column ``deleted``."""
    schema = to_arrow(state.table.schema)
    return schema if deleted is None else schema.append(pa.field(deleted, pa.bool_()))


def _trigger(text: str) -> Mapping[str, Any]:
    return AVAILABLE_NOW if text == "available-now" else {"processingTime": text}


if __name__ == "__main__":
    sys.exit(main())
