"""Carry out commands that change rows or run plans: here, or in a Spark session of their own.

1. This process does simple changes itself, which saves Spark's start: simple SQL (``data.sql``) as
   conditions and new values, files (here or in an object store) that fit in memory. Spark does the
   others. ``--engine`` overrides the choice.
2. Errors for both engines (unknown column, missing file) are reported before Spark starts.
3. A dry run counts the rows of the newest version that would change, and commits nothing.
4. ``ingest --overwrite`` is one event: the rows of all files replace others.
5. Plans are carried out by the engine that fits their size (``planning.engine``), chosen each time
   plans are made. Spark starts when it is first chosen, once a command, and stops with it.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_segtable.cli.display.output import note, progress
from airflow_provider_segtable.cli.input.options import ZooKeeperOptions, check_spark
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, NotFound
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.requests.change_request import ChangeRequest
from airflow_provider_segtable.core.requests.overwrite import Overwrite
from airflow_provider_segtable.planning.engine import (
    Choice,
    Engine,
    chosen_engine,
    input_size,
    only_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.services.attempt import Execute
    from airflow_provider_segtable.table.changes.row_change import ChangeResult
    from airflow_provider_segtable.table.context import TableContext
    from airflow_provider_segtable.table.load import FileColumns

_DOING = {"delete": "deleting", "update": "updating", "merge": "merging"}
_DONE = {"delete": "deleted", "update": "updated", "merge": "merged", "overwrite": "overwritten"}


def changed(table: Any, request: ChangeRequest, engine: Engine, master: str | None) -> Facts:
    """Carry out a change, and return its result."""
    start = monotonic()
    if request.appends and table.state().table.kind.rules is None:
        _ = table.ports.coordinator  # fails first if there is no ZooKeeper
    before = request.commit_id is not None and request.commit_id in table.state().commits
    used = _engine(table, request, engine)
    with progress() as bar:
        bar.add_task(_DOING[request.kind], total=None)
        if used is Engine.LOCAL:
            result = table.change(request)
        else:
            check_spark()

            from airflow_provider_segtable.cli.on_spark import change_rows

            result = change_rows(table, request, master)
    return _facts(result, request.kind.value, used, before=before, start=start)


def _facts(
    result: "ChangeResult", kind: str, engine: Engine, *, before: bool, start: float
) -> Facts:
    """Return the result of a change that began at ``start``, by the monotonic clock.

    ``before`` says that an event with its commit id was in the log already.
    """
    return {
        "version": result.state.n,
        "kind": kind,
        "dry_run": result.dry_run,
        "engine": engine.value,
        **result.facts(),
        "changed_before": before,
        "seconds": round(monotonic() - start, 3),
    }


def show_change(facts: Facts, common: ZooKeeperOptions) -> None:
    """Print the result of a change."""
    common.answer(facts, _draw)
    if facts["dry_run"]:
        common.note("[dim]a dry run: nothing was written[/]")


def _draw(facts: Facts) -> Text:
    matched = f"{counted(facts['matched'], 'row')} matched"
    moved = f", {facts['deleted'] or 0:,} deleted, {facts['inserted']:,} inserted"
    # deletes by predicate are not counted
    counts = f"{matched}{'' if facts['deleted'] is None else moved}"
    if facts["dry_run"]:
        return Text(counts)
    if facts["event"] is None:
        return Text(f"{matched}: nothing to {facts['kind']}, nothing was written")
    again = " before, under this name" if facts["changed_before"] else ""
    verb = f"{_DONE[facts['kind']]}{again}"
    return Text.assemble((verb, "green"), f": {counts}: event {facts['event']}")


def _engine(table: Any, request: ChangeRequest, wanted: Engine) -> Engine:
    """Return the engine for a change.

    Raises:
        NeedsSpark: only Spark can do the change, but the local engine is requested.
        InvalidInput: there is no file of this name.
    """
    from airflow_provider_segtable.table.changes.arrow_engine import why_spark

    if wanted is Engine.SPARK:
        return wanted
    try:
        why = why_spark(request, table.snapshot())
    except NotFound as error:
        raise InvalidInput(str(error)) from error
    if not why:
        return Engine.LOCAL
    if wanted is Engine.LOCAL:
        raise NeedsSpark(f"--engine local cannot do this: {why}")
    note("[dim]with Spark, as this process alone cannot do it (--engine local says why)[/]")
    return Engine.SPARK


LOCAL_PARALLELISM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """How to run the jobs of plans, and about how many at once."""

    execute: "Execute"
    parallelism: int = LOCAL_PARALLELISM


EngineFor = Callable[["TableContext", Sequence[str]], ChosenEngine]
"""Returns the engine for plans of a table, by their ids."""


@contextmanager
def engines(table: Any, wish: Engine, master: str | None, work: str) -> Iterator[EngineFor]:
    """Yield the choice of an engine for plans of a table."""
    from airflow_provider_segtable.data.pandas_later import import_pandas_later
    from airflow_provider_segtable.services.attempt import in_process

    with ExitStack() as held:

        @cache
        def spark() -> "SparkSession":
            check_spark()

            from airflow_provider_segtable.cli.on_spark import session

            return held.enter_context(session(master, work, table))

        def engine_for(ports: "TableContext", plans: Sequence[str]) -> ChosenEngine:
            if _chosen(ports.log.load(), plans, wish).local:
                import_pandas_later()
                return ChosenEngine(execute=in_process(ports.files))
            cores = spark().sparkContext.defaultParallelism
            from airflow_provider_segtable.spark.writes.distribution import spark_execute

            return ChosenEngine(execute=spark_execute(spark()), parallelism=cores)

        yield engine_for


def _chosen(state: "State", plans: Sequence[str], wish: Engine) -> Choice:
    from airflow_provider_segtable.spark.driver.install_check import spark_here

    size, why = input_size(state, plans), only_spark(state)
    chosen = chosen_engine(wish, size=size, only_spark=why, spark_here=spark_here)
    if wish is Engine.AUTO and not chosen.local:
        note(f"[dim]{chosen}[/]")
    return chosen


def overwritten(
    table: Any,
    files: "Sequence[InputFile]",
    columns: "FileColumns",
    request: Overwrite,
    *,
    local: bool,
    master: str | None,
) -> Facts:
    """Overwrite, and return the result as those of other changes."""
    start = monotonic()
    before = request.commit_id is not None and request.commit_id in table.state().commits
    with progress() as bar:
        bar.add_task("overwriting", total=None)
        if local:
            result = table.overwrite(
                _rows(table, files, columns),
                interval=request.extent,
                where=request.where,
                commit_id=request.commit_id,
                dry_run=request.dry_run,
            )
        else:
            check_spark()

            from airflow_provider_segtable.cli.on_spark import overwrite_by_files

            result = overwrite_by_files(table, files, columns, request, master)
    engine = Engine.LOCAL if local else Engine.SPARK
    return _facts(result, "overwrite", engine, before=before, start=start)


def end_signal() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set."""
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)
    return ended


def spark_reason(table: Any, request: Overwrite) -> str:
    """Return why only Spark can find the rows to overwrite; empty if this process can."""
    from airflow_provider_segtable.data.where import why_not_here

    return why_not_here(request.where, table.snapshot().schema)


def _rows(table: Any, files: "Sequence[InputFile]", columns: "FileColumns") -> Any:
    import pyarrow as pa

    definition = table.state().table
    return pa.concat_tables([columns.read(file, definition) for file in files])
