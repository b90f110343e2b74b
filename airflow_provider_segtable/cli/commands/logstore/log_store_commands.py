"""``segtable logstore``: the buckets of a table's log store, and checkpoints on request."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.commands.tables.table_commands import writable_table
from airflow_provider_segtable.cli.display.drawing import age, captioned, grid
from airflow_provider_segtable.cli.display.log_store_facts import served_facts
from airflow_provider_segtable.cli.display.output import Facts, note, print_json, show
from airflow_provider_segtable.cli.input.durations import seconds_of
from airflow_provider_segtable.cli.input.options import AsJson, StorageOptions, TableUri, ZooKeeper

log_stores = typer.Typer(
    no_args_is_help=True,
    help="Log stores: records that are readable in milliseconds, until a checkpoint commits them.",
)


@log_stores.command("list")
def list_buckets(
    table: TableUri,
    *,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """List the buckets of a table's log store: who serves them, and what is not committed.

    [green]segtable logstore list ./trips[/]
    [green]segtable logstore list ./trips --json | jq '.buckets[].uncommitted_records'[/]

    What is committed is read from the table's log, and the rest from the services
    that ZooKeeper names. A token and certificates for them: $SEGTABLE_LOG_STORE_OPTIONS.
    """
    from airflow_provider_segtable.library.log_stores import log_buckets

    with writable_table(table, storage_options, zookeeper) as opened:
        found, now = log_buckets(opened.ports), opened.ports.clock.now()
    answer = {"table": table, "buckets": [served_facts(each, now) for each in found]}
    print_json(answer) if as_json else show(_drawn(answer))


@log_stores.command()
def checkpoint(
    table: TableUri,
    *,
    wait: Annotated[
        str, typer.Option(help="How long a service may take: 90s, 15m.", metavar="TIME")
    ] = "60s",
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Commit now what the services of a table's log store have buffered.

    [green]segtable logstore checkpoint ./trips[/]
    [green]segtable logstore checkpoint ./trips --wait 5m --json | jq .version[/]

    Prints a version of the table that has every record appended before.
    """
    from airflow_provider_segtable.library.log_stores import checkpoint_log

    wait_s = seconds_of(wait, "--wait")
    with writable_table(table, storage_options, zookeeper) as opened:
        made = checkpoint_log(opened.ports, wait_s=wait_s)
    answer = {"table": table, "services": [*made.services], "version": made.version}
    if as_json:
        print_json(answer)
    elif answer["version"] is None:
        note("nothing was ever appended")
    else:
        note(f"[green]committed[/] everything as of version {answer['version']}")


def _drawn(answer: Facts) -> RenderableType:
    drawn = grid(
        "Log store",
        *("bucket", "epoch", "committed", "uncommitted", "age", "served by", "at"),
        right=("bucket", "epoch", "committed", "uncommitted", "age"),
    )
    for each in answer["buckets"]:
        waits, old = each["uncommitted_records"], each["uncommitted_s"]
        drawn.add_row(
            str(each["bucket"]),
            str(each["epoch"]),
            f"{each['committed']:,}",
            "?" if waits is None else f"{waits:,}",
            "" if old is None else age(old),
            Text(_server(each)),
            Text(each["address"] or ""),
        )
    troubles = {each["trouble"] for each in answer["buckets"] if each["trouble"]}
    return captioned(drawn, "\n".join(sorted(troubles))) if troubles else drawn


def _server(bucket: Facts) -> str:
    return f"{bucket['service']} ({bucket['deploy_mode']})" if bucket["service"] else "no service"
