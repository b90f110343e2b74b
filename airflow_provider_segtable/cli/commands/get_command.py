"""``segtable table get``: print the rows of some primary keys."""

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.commands.scan_command import (
    Format,
    plain_rows,
    print_csv,
    show_rows,
)
from airflow_provider_segtable.cli.display.output import print_json
from airflow_provider_segtable.cli.input.options import (
    CommonOptions,
    IntervalOption,
    option_groups,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.schema import split_names

if TYPE_CHECKING:
    from airflow_provider_segtable.table.table import Table


@option_groups
def get(
    *,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="Keys; of several columns their values by commas, in the key's order.",
            show_default=False,
        ),
    ],
    columns: Annotated[
        str | None, typer.Option(help="Only these, in this order.", metavar="A,B,...")
    ] = None,
    interval: IntervalOption = None,
    version: Annotated[
        int | None, typer.Option(help="The table after this event number.", metavar="N")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="The table as it was then, inclusive.", metavar="TIME")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The table at this tag.", metavar="NAME")] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="table, csv, or json (one object a line).")
    ] = Format.TABLE,
    common: CommonOptions,
) -> None:
    """Print the rows of primary keys, in the order of the keys.

    [green]segtable table get ./orders 1017 2044[/]
    [green]segtable table get ./orders 1017 --version 3 --columns at,status[/]
    [green]segtable table get ./seats "UA1545,12C" --format json[/]

    Only the pages of files that may have a key are read. A key without a row
    prints nothing; a key with rows in several time chunks has a line for each.
    """
    table = common.open()
    found = table.get(
        _keys(table, keys),
        columns=split_names(columns) if columns else None,
        interval=interval or None,
        version=version,
        as_of=as_of or None,
        tag=tag,
    )
    rows = [row for batch in found.to_batches() for row in plain_rows(batch)]
    if common.as_json:
        print_json({"table": common.table, "keys": len(keys), "rows": rows})
    elif format_ is Format.CSV:
        print_csv(found.to_batches(), found.schema)
    elif format_ is Format.JSON:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        notes = [f"{counted(len(rows), 'row')} of {counted(len(keys), 'key')}"]
        show_rows(found.schema.names, rows, notes)


def _keys(table: "Table", keys: list[str]) -> list[Any]:
    """Return keys as the table takes them: texts, or tuples for a key of several columns."""
    rules = table.state().table.kind.rules
    if rules is None or len(rules.key) == 1:
        return [*keys]
    return [tuple(each) for each in csv.reader(keys)]
