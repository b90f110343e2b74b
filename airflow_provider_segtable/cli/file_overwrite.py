"""Carry out ``segtable ingest --overwrite``: the rows of all files replace others, in one event."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.cli.display.change_facts import change_facts
from airflow_provider_segtable.cli.display.output import Facts, progress
from airflow_provider_segtable.cli.input.engines import check_spark
from airflow_provider_segtable.core.requests.overwrite import Overwrite
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.table.load import FileColumns

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.input_files import InputFile


def overwritten(
    uri: str,
    table: Any,
    files: "Sequence[InputFile]",
    columns: FileColumns,
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
    return change_facts(
        uri,
        result,
        kind="overwrite",
        engine=Engine.LOCAL if local else Engine.SPARK,
        before=before,
        start=start,
    )


def only_spark(table: Any, request: Overwrite) -> str:
    """Return why only Spark can find the rows to overwrite; empty if this process can."""
    from airflow_provider_segtable.data.sql.sql_conditions import why_not_here

    return why_not_here(request.where, table.snapshot().schema)


def _rows(table: Any, files: "Sequence[InputFile]", columns: FileColumns) -> Any:
    import pyarrow as pa

    definition = table.state().table
    return pa.concat_tables([columns.read(file, definition) for file in files])
