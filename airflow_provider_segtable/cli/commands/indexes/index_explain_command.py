"""``segtable index explain``: what indexes save a read."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from airflow_provider_segtable.cli.commands.rows.scan_command import ReadOptions
from airflow_provider_segtable.cli.commands.tables.table_commands import open_table
from airflow_provider_segtable.cli.display.index_drawing import drawn_savings
from airflow_provider_segtable.cli.display.output import Facts, print_json, show
from airflow_provider_segtable.cli.input.option_groups import option_groups
from airflow_provider_segtable.cli.input.options import AsJson, StorageOptions, TableUri
from airflow_provider_segtable.core.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider_segtable.core.indexes.index_state import IndexState
    from airflow_provider_segtable.table.scan import Scan


@option_groups
def explain(
    table: TableUri,
    *,
    read: ReadOptions,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show what indexes save a read: its plan without them, with each, and with all.

    [green]segtable index explain ./flights --where "tailnum = 'N328AA'"[/]
    [green]segtable index explain ./flights --where "dep_delay > 800" --json[/]

    Reads no rows. [green]segtable table scan TABLE --where SQL --explain[/] shows every step
    of the plan with all indexes.
    """
    if read.where is None:
        raise InvalidInput("an index only helps a read with a condition: give --where SQL")
    scan = open_table(table, storage_options).read(read.request())
    answer = {
        "table": table,
        "version": scan.version,
        "where": read.where,
        "plans": [_plan(scan, some) for some in _choices(scan.state.indexes)],
    }
    print_json(answer) if as_json else show(drawn_savings(answer))


def _choices(indexes: Mapping[str, "IndexState"]) -> Iterator[Mapping[str, "IndexState"]]:
    """Yield no index, each one, and all of them."""
    yield {}
    yield from ({name: index} for name, index in indexes.items())
    if len(indexes) > 1:
        yield indexes


def _plan(scan: "Scan", indexes: Mapping[str, "IndexState"]) -> Facts:
    plan = replace(scan, state=replace(scan.state, indexes=indexes)).explain()
    return {
        "indexes": [*indexes],
        "files": plan.shown.files,
        "files_opened": len(plan.files),
        "row_groups_read": plan.read.row_groups,
        "bytes_read": plan.read.bytes,
        "notes": [asdict(note) for note in plan.index_notes],
    }
