"""Carry out ``segtable delete``, ``update`` and ``merge``, and print their results.

1. This process does simple changes itself, which saves Spark's start: simple SQL (``data.sql``) as
   conditions and new values, one local file that fits in memory. Spark does the others.
   ``--engine`` overrides the choice.
2. Errors for both engines (unknown column, missing file) are reported before Spark starts.
3. A dry run counts the rows of the newest version that would change, and commits nothing.
"""

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_segtable.cli.display.change_facts import change_facts
from airflow_provider_segtable.cli.display.output import Facts, note, print_json, progress, show
from airflow_provider_segtable.cli.input.engines import check_spark
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    FileRows,
    GivenRows,
    Merge,
    with_rows,
)
from airflow_provider_segtable.planning.engine import Engine

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.files.input_files import InputFile

_DOING = {"delete": "deleting", "update": "updating", "merge": "merging"}
_DONE = {"delete": "deleted", "update": "updated", "merge": "merged", "overwrite": "overwritten"}


def changed(
    uri: str, table: Any, request: ChangeRequest, engine: Engine, master: str | None
) -> Facts:
    """Carry out a change, and return its result."""
    start = monotonic()
    if request.appends:
        _ = table.ports.coordinator  # fails first if there is no ZooKeeper
    state, schema = table.state(), table.snapshot().schema
    before = request.commit_id is not None and request.commit_id in state.commits
    used = _engine(state, schema, request, engine)
    with progress() as bar:
        bar.add_task(_DOING[request.kind], total=None)
        if used is Engine.LOCAL:
            result = table.change(with_rows(request, lambda file: _read(file, schema)))
        else:
            check_spark()
            from airflow_provider_segtable.cli.on_spark import change_rows

            result = change_rows(table, request, master)
    return change_facts(
        uri, result, kind=request.kind.value, engine=used, before=before, start=start
    )


def tell(facts: Facts, *, as_json: bool) -> None:
    """Print the result of a change."""
    if as_json:
        print_json(facts)
        return
    matched = f"{counted(facts['matched'], 'row')} matched"
    moved = f", {facts['deleted'] or 0:,} deleted, {facts['inserted']:,} inserted"
    # deletes by predicate are not counted
    counts = f"{matched}{'' if facts['deleted'] is None else moved}"
    if facts["dry_run"]:
        show(Text(counts))
        note("[dim]a dry run: nothing was written[/]")
    elif facts["event"] is None:
        show(Text(f"{matched}: nothing to {facts['kind']}, nothing was written"))
    else:
        line = f": {counts}: event {facts['event']}"
        again = " before, under this name" if facts["changed_before"] else ""
        show(Text.assemble((f"{_DONE[facts['kind']]}{again}", "green"), line))


def _engine(state: Any, schema: "pa.Schema", request: ChangeRequest, wanted: Engine) -> Engine:
    """Return the engine for a change.

    Raises:
        NeedsSpark: only Spark can do the change, but the local engine is requested.
    """
    from airflow_provider_segtable.core.tables.table_kind import DeletionForm

    if wanted is Engine.SPARK:
        return wanted
    only_predicates = state.table.kind.deletion is DeletionForm.PREDICATE
    why = None if only_predicates else _why_spark(schema, request)
    if why is None:
        return Engine.LOCAL
    if wanted is Engine.LOCAL:
        raise NeedsSpark(f"--engine local cannot do this: {why}")
    note("[dim]with Spark, as this process alone cannot do it (--engine local says why)[/]")
    return Engine.SPARK


def _why_spark(schema: "pa.Schema", request: ChangeRequest) -> str | None:
    """Return why a change needs Spark, or None.

    Raises:
        SchemaMismatch: there is no such column, or no such value in it.
        InvalidInput: the file is broken, or Spark cannot evaluate the request either.
    """
    from airflow_provider_segtable.data.files.input_files import schema_of
    from airflow_provider_segtable.table.changes.arrow_engine import check_sql

    file = request.source if isinstance(request, Merge) else request.rows
    columns = None
    if isinstance(file, FileRows):
        _check_there(file.path)
        why = _why_not_read(file)
        if why:
            return why
        columns = schema_of(_input(file))
    try:
        check_sql(request, schema, columns)
    except NeedsSpark as error:
        return str(error)
    return None


def _of_spark(name: str) -> bool:
    """Return whether a name is a URI, a pattern or a folder, which only Spark reads."""
    return "://" in name or any(mark in name for mark in "*?[{") or Path(name).is_dir()


def _check_there(name: str) -> None:
    if not (_of_spark(name) or Path(name).exists()):
        raise InvalidInput(f"there is no file {name}: check the path, or give a URI")


def _why_not_read(file: FileRows) -> str | None:
    """Return why this process cannot read a file, or None."""
    if _of_spark(file.path):
        return f"{file} is not a single file on this machine"
    if file.options:
        return "--option needs --engine spark, it goes to Spark's reader"
    try:
        _ = _input(file).format
    except InvalidInput as error:
        return str(error)
    return None


def _read(file: FileRows, schema: "pa.Schema") -> GivenRows:
    """Read the columns that the file has, in the table's types."""
    import pyarrow as pa

    from airflow_provider_segtable.data.files.input_files import read_rows, schema_of
    from airflow_provider_segtable.table.changes.arrow_engine import arrow_rows

    source = _input(file)
    names = schema_of(source).names
    some = pa.schema([each for each in schema if each.name in names])
    return arrow_rows(read_rows(source, some))


def _input(file: FileRows) -> "InputFile":
    from airflow_provider_segtable.data.files.input_files import InputFile

    return InputFile(file.path, file.format)
