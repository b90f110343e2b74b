"""Carry out ``segtable delete``, ``update`` and ``merge``, and print their results.

1. This process does simple changes itself, which saves Spark's start: simple SQL (``data.sql``) as
   conditions and new values, files (here or in an object store) that fit in memory. Spark does the
   others. ``--engine`` overrides the choice.
2. Errors for both engines (unknown column, missing file) are reported before Spark starts.
3. A dry run counts the rows of the newest version that would change, and commits nothing.
"""

from time import monotonic
from typing import Any

from rich.text import Text

from airflow_provider_segtable.cli.display.change_facts import change_facts
from airflow_provider_segtable.cli.display.output import Facts, note, print_json, progress, show
from airflow_provider_segtable.cli.input.engines import check_spark
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, NotFound
from airflow_provider_segtable.core.requests.change_request import ChangeRequest
from airflow_provider_segtable.planning.engine import Engine

_DOING = {"delete": "deleting", "update": "updating", "merge": "merging"}
_DONE = {"delete": "deleted", "update": "updated", "merge": "merged", "overwrite": "overwritten"}


def changed(
    uri: str, table: Any, request: ChangeRequest, engine: Engine, master: str | None
) -> Facts:
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
