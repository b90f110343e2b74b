"""``segtable consumers``: readers that follow a table by windows, and how far they have read."""

from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.commands.tables.table_commands import open_table
from airflow_provider_segtable.cli.display.drawing import grid
from airflow_provider_segtable.cli.display.output import Facts, print_json, show
from airflow_provider_segtable.cli.input.options import AsJson, StorageOptions, TableUri
from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.reading import LogEnd
from airflow_provider_segtable.core.time import iso

consumers = typer.Typer(
    no_args_is_help=True,
    help="List, advance and drop consumers: readers whose positions keep versions.",
)

Name = Annotated[str, typer.Argument(help="The consumer.", metavar="NAME", show_default=False)]


@consumers.command("list")
def list_consumers(
    table: TableUri, *, storage_options: StorageOptions = None, as_json: AsJson = False
) -> None:
    """List the consumers of a table: readers of windows, and groups that read its log store.

    [green]segtable consumers list ./flights[/]
    """
    _tell(table, open_table(table, storage_options), as_json=as_json)


@consumers.command()
def advance(
    table: TableUri,
    name: Name,
    *,
    version: Annotated[
        int | None,
        typer.Option(help="The last version it has read; the newest by default.", metavar="N"),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(help="The position it went on from; refused if it has another.", metavar="N"),
    ] = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Record how far a consumer has read; the first time makes the consumer.

    [green]segtable consumers advance ./flights billing[/]
    [green]segtable table scan ./flights --consumer billing --changes --format json[/]
    [green]segtable consumers advance ./flights billing --version 42[/]

    Versions that the consumer has yet to read are kept, for retention.consumer_hours
    at most. Needs no ZooKeeper.
    """
    opened = open_table(table, storage_options)
    opened.advance_consumer(name, version, before=before)
    _tell(table, opened, as_json=as_json)


@consumers.command()
def drop(
    table: TableUri,
    name: Name,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Drop a consumer; versions that only it kept may be cleaned.

    [green]segtable consumers drop ./flights billing[/]
    """
    opened = open_table(table, storage_options)
    opened.drop_consumer(name)
    _tell(table, opened, as_json=as_json)


def _tell(uri: str, table: Any, *, as_json: bool) -> None:
    state = table.state()
    answer = {
        "table": uri,
        "version": state.n,
        "consumers": [
            {
                "name": name,
                "version": each.version,
                "behind": state.n - each.version,
                "advanced_at": iso(each.advanced_at),
                "readable": needed_from(state, each) >= state.retained_from,
                "log": _log_facts(state, each),
            }
            for name, each in sorted(state.consumers.items())
        ],
    }
    print_json(answer) if as_json else show(_drawn(answer))


def _log_facts(state: State, consumer: Consumer) -> list[Facts]:
    """Return how far a consumer group has read each bucket, of what is committed."""
    ends = {bucket: LogEnd(known=bucket_of(state, bucket)) for bucket in consumer.log}
    return [
        {
            "bucket": bucket,
            "epoch": mark.position.epoch,
            "offset": mark.position.offset,
            "behind": max(0, ends[bucket].offset - ends[bucket].first_unread(mark.position)),
        }
        for bucket, mark in sorted(consumer.log.items())
    ]


def _drawn(facts: Facts) -> RenderableType:
    if not facts["consumers"]:
        return Text("There are no consumers.")
    numbers = ("version", "behind")
    table = grid("Consumers", "consumer", *numbers, "advanced at", "log store", "", right=numbers)
    for each in facts["consumers"]:
        lost = "" if each["readable"] else "cleaned: read the table anew"
        numbers_of = (str(each["version"]), str(each["behind"]))
        read = ", ".join(_read(bucket) for bucket in each["log"])
        cells = map(Text, (each["name"], *numbers_of, each["advanced_at"], read, lost))
        table.add_row(*cells)
    return table


def _read(bucket: Facts) -> str:
    """Return e.g. ``bucket 0 at 1,200, 30 behind``."""
    behind = f", {bucket['behind']:,} behind" if bucket["behind"] else ""
    return f"bucket {bucket['bucket']} at {bucket['offset']:,}{behind}"
