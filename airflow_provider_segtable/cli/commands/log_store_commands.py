"""``segtable logstore``: list, checkpoint, serve and tail the log stores of tables.

1. ``list`` and ``checkpoint`` ask the services that ZooKeeper names. ``serve`` is such a service.
2. ``tail`` prints the rows of a table as they are written, before they are committed.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from airflow_provider_segtable.cli.commands.scan_command import plain
from airflow_provider_segtable.cli.display.drawing import age, captioned, grid
from airflow_provider_segtable.cli.display.output import note, print_json, print_warning
from airflow_provider_segtable.cli.input.options import (
    StorageOptions,
    TableUri,
    ZooKeeper,
    ZooKeeperOptions,
    option_groups,
    seconds_of,
    writable_table,
)
from airflow_provider_segtable.cli.running import end_signal
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.schemes import usual

if TYPE_CHECKING:
    from airflow_provider_segtable.library.log_reader import LogItem, TableLogReader
    from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
    from airflow_provider_segtable.table.log_store.tail import LogRecords


log_stores = typer.Typer(
    no_args_is_help=True,
    help="Log stores: records that are readable in milliseconds, until a checkpoint commits them.",
)


@log_stores.command("list")
@option_groups
def list_buckets(*, common: ZooKeeperOptions) -> None:
    """List the buckets of a table's log store: their services and uncommitted records.

    [green]segtable logstore list ./trips[/]
    [green]segtable logstore list ./trips --json | jq '.buckets[].uncommitted_records'[/]

    Committed offsets are read from the table's log, the others from the services
    that ZooKeeper names. A token and certificates for them: $SEGTABLE_LOG_STORE_OPTIONS.
    """
    from airflow_provider_segtable.library.log_stores import log_buckets

    with common.open() as table:
        found, now = log_buckets(table.ports), table.ports.clock.now()
    common.answer({"buckets": [each.facts(now) for each in found]}, _draw_buckets)


@log_stores.command()
@option_groups
def checkpoint(
    *,
    wait: Annotated[
        str, typer.Option(help="How long a service may take: 90s, 15m.", metavar="TIME")
    ] = "60s",
    common: ZooKeeperOptions,
) -> None:
    """Commit the buffered records of a table's log store now.

    [green]segtable logstore checkpoint ./trips[/]
    [green]segtable logstore checkpoint ./trips --wait 5m --json | jq .version[/]

    Prints a version of the table that has every record appended before.
    """
    from airflow_provider_segtable.library.log_stores import checkpoint_log

    wait_s = seconds_of(wait, "--wait")
    with common.open() as table:
        made = checkpoint_log(table.ports, wait_s=wait_s)
    if common.as_json:
        print_json({"table": common.table, **made.facts()})
    elif made.version is None:
        note("nothing was ever appended")
    else:
        note(f"[green]committed[/] everything as of version {made.version}")


def _draw_buckets(answer: Facts) -> RenderableType:
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


LOOK_S = 0.5
LOGGERS = (
    "airflow_provider_segtable.library.log_server",
    "airflow_provider_segtable.services.log_store",
)

Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help=f"The tables' roots: paths, {usual()}.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where a service listens, and its security."""

    host: Annotated[
        str, typer.Option(help="Listen at this address; others than loopback need a token.")
    ] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(
            help="Listen at this port, and the next one for each further table; 0: a free one."
        ),
    ] = 0
    advertise: Annotated[
        str,
        typer.Option(
            help="The host name by which clients reach this machine; by default --host.",
            metavar="HOST",
            show_default=False,
        ),
    ] = ""
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="A certificate (PEM), for TLS.", metavar="FILE", show_default=False),
    ] = None
    tls_key: Annotated[
        Path | None,
        typer.Option(help="The certificate's key (PEM).", metavar="FILE", show_default=False),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Ask clients for the token in this file.", metavar="FILE", show_default=False
        ),
    ] = None

    def provider(self) -> "FlightLogStoreProvider":
        """Return the log stores of the service.

        Raises:
            InvalidInput: a file cannot be read.
        """
        from airflow_provider_segtable.core.secret import Secret
        from airflow_provider_segtable.disk import text_of
        from airflow_provider_segtable.library.log_stores import token_in
        from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
        from airflow_provider_segtable.log_store.flight_streams import FlightSecurity
        from airflow_provider_segtable.ports.log_store import DeployMode

        certificate, key, token = self.tls_cert, self.tls_key, self.token_file
        security = FlightSecurity(
            token=Secret(token_in(token, "--token-file")) if token else None,
            certificate=text_of(certificate, "--tls-cert") if certificate else "",
            key=Secret(text_of(key, "--tls-key")) if key else None,
        )
        return FlightLogStoreProvider(
            host=self.host,
            port=self.port,
            advertise=self.advertise,
            deploy_mode=DeployMode.EXTERNAL,
            security=security,
        )


@log_stores.command()
@option_groups
def serve(
    tables: Tables,
    *,
    server: ServerOptions,
    checkpoint_seconds: Annotated[
        float | None,
        typer.Option(
            help="Commit records that are so old; by default the table's "
            "log_store.checkpoint_seconds.",
            metavar="SECONDS",
            show_default=False,
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
) -> None:
    r"""Serve the log stores of tables, beside other services like this one, until Ctrl-C.

    [green]segtable logstore serve ./trips[/]
    [green]segtable logstore serve s3://lake/trips s3://lake/fares --checkpoint-seconds 5[/]
    [green]segtable logstore serve ./trips --host 0.0.0.0 --advertise db1 \
        --tls-cert c.pem --tls-key k.pem --token-file token[/]

    Start it once, or on several machines: the services of a table share its buckets
    (property log_store.buckets), and take over from one that dies when its ZooKeeper
    session ends. Writers and readers find them by ZooKeeper, with the token in
    $SEGTABLE_LOG_STORE_OPTIONS.

    It prints its buckets, their moves, and each checkpoint. SIGTERM and Ctrl-C make
    a last checkpoint. See the buckets: [green]segtable logstore list ./trips[/]
    """
    from airflow_provider_segtable.library.log_server import LogServer

    provider = server.provider()
    with _log_lines(), writable_table(tables[0], storage_options, zookeeper) as first:
        ports = [first.ports, *map(first.ports.at, tables[1:])]
        service = LogServer(ports, provider, checkpoint_s=checkpoint_seconds)
        service.start()
        ended = end_signal()
        while not service.over and not ended.wait(LOOK_S):
            pass
        service.close()
    note("ended")


class _Lines(logging.Handler):
    """Prints log records as remarks of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        line = " ".join(record.getMessage().split())
        if record.levelno >= logging.WARNING:
            print_warning(line)
        else:
            note(escape(line))


@contextmanager
def _log_lines() -> Iterator[None]:
    """Print the log records of the services."""
    lines, loggers = _Lines(logging.INFO), [logging.getLogger(name) for name in LOGGERS]
    for each in loggers:
        each.addHandler(lines)
        each.setLevel(logging.INFO)
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(lines)


Line = Mapping[str, Any]


class Form(StrEnum):
    """How rows are printed."""

    TEXT = "text"
    JSON = "json"


@log_stores.command()
def tail(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="latest, earliest, the number of a version, or a time.",
            metavar="START",
        ),
    ] = "latest",
    bucket: Annotated[
        list[int] | None,
        typer.Option(help="Only this bucket. Repeatable.", metavar="N", show_default=False),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Read as a member of this consumer group, and keep its positions.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="End after so many rows.", metavar="N", show_default=False)
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            help="End when nothing has come for so long: 90s, 15m.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="text, or json (one object a line).")
    ] = Form.TEXT,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
) -> None:
    """Print the rows of a table's log store as they are written, before they are committed.

    [green]segtable logstore tail ./trips[/]
    [green]segtable logstore tail ./trips --from earliest --format json | jq .row[/]
    [green]segtable logstore tail ./trips --group billing --idle 1m[/]

    It reads the table's files when it is far behind, and the services near the end.
    Each line has the bucket, the offset and the row. After a "reset" line, forget the rows
    of this bucket from its offset on: their writer was replaced before they were
    committed. In primary-key tables committed rows come merged, without offsets.
    """
    idle_s = None if idle is None else seconds_of(idle, "--idle")
    with writable_table(table, storage_options, zookeeper) as opened:
        reader = _reader(opened.ports, start, bucket, group)
        with closing(reader):
            _print(reader, form, limit, idle_s, keeps=group is not None)


def _reader(
    ports: Any, start: str, buckets: list[int] | None, group: str | None
) -> "TableLogReader":
    from airflow_provider_segtable.library.table import Table

    begin = int(start) if start.isdecimal() else start
    return Table(ports).log_reader(begin, buckets=buckets, group=group)


def _print(
    reader: "TableLogReader", form: Form, limit: int | None, idle_s: float | None, *, keeps: bool
) -> None:
    left = sys.maxsize if limit is None else limit
    while left > 0 and (item := reader.read(idle_s)) is not None:
        for line in lines_of(item):
            if "row" in line and left <= 0:
                return
            left -= "row" in line
            sys.stdout.write((json.dumps(line) if form is Form.JSON else text_of(line)) + "\n")
        sys.stdout.flush()
        if keeps:
            reader.store()
    note(f"ended at {_ends(reader)}")


def lines_of(item: "LogItem") -> Iterator[Line]:
    """Return the lines of an item: its rows, or that records were discarded or cleaned."""
    from airflow_provider_segtable.table.log_store.tail import LogRecords

    match item:
        case LogRecords():
            yield from _rows(item)
        case _:
            kind = "reset" if hasattr(item, "offset") else "expired"
            yield {"bucket": item.bucket, kind: item.position.offset}


def _rows(records: "LogRecords") -> Iterator[Line]:
    is_merged = records.committed and records.deleted is not None
    for n, row in enumerate(records.rows.to_pylist()):
        deleted = records.deleted is not None and bool(records.deleted[n])
        yield {
            "bucket": records.bucket,
            "offset": None if is_merged else records.first + n,
            "committed": records.committed,
            **({"deleted": True} if deleted else {}),
            "row": {name: plain(value) for name, value in row.items()},
        }


def text_of(line: Line) -> str:
    """Return a line for people: bucket, offset, and the values with tabs between them."""
    if "row" not in line:
        kind = "reset" if "reset" in line else "expired"
        return f"{line['bucket']}\t{line[kind]}\t({kind})"
    offset = "-" if line["offset"] is None else line["offset"]
    mark = ["(deleted)"] if line.get("deleted") else []
    values = ("" if value is None else str(value) for value in line["row"].values())
    return "\t".join([str(line["bucket"]), str(offset), *mark, *values])


def _ends(reader: "TableLogReader") -> str:
    return ", ".join(f"{at.offset} of bucket {n}" for n, at in sorted(reader.positions.items()))
