"""``segtable logstore serve``: a process of its own that serves log stores."""

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from airflow_provider_segtable.cli.commands.tables.table_commands import writable_table
from airflow_provider_segtable.cli.display.output import note, print_warning
from airflow_provider_segtable.cli.input.options import StorageOptions, ZooKeeper

if TYPE_CHECKING:
    from airflow_provider_segtable.logstore.flight_store import FlightLogStoreProvider

LOOK_S = 0.5
LOGGERS = (
    "airflow_provider_segtable.library.log_server",
    "airflow_provider_segtable.services.log_store",
)

Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="The tables' roots: paths, file://, s3://, gs:// or az://.",
        show_default=False,
    ),
]


def serve(  # noqa: PLR0913 - each is an option
    tables: Tables,
    *,
    host: Annotated[
        str, typer.Option(help="Listen at this address; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            help="Listen at this port, and the next one for each further table; 0: a free one."
        ),
    ] = 0,
    advertise: Annotated[
        str,
        typer.Option(
            help="The host name by which clients reach this machine; by default --host.",
            metavar="HOST",
            show_default=False,
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="A certificate (PEM), for TLS.", metavar="FILE", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(help="The certificate's key (PEM).", metavar="FILE", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Ask clients for the token in this file.", metavar="FILE", show_default=False
        ),
    ] = None,
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

    It prints what it serves, what moves, and each checkpoint. SIGTERM and Ctrl-C make
    a last checkpoint. See the buckets: [green]segtable logstore list ./trips[/]
    """
    provider = _provider(host, port, advertise, (tls_cert, tls_key, token_file))
    from airflow_provider_segtable.library.log_server import LogServer

    with _told(), writable_table(tables[0], storage_options, zookeeper) as first:
        ports = [first.ports, *map(first.ports.at, tables[1:])]
        server = LogServer(ports, provider, checkpoint_s=checkpoint_seconds)
        server.start()
        ended = _ending()
        while not server.over and not ended.wait(LOOK_S):
            pass
        server.close()
    note("ended")


def _ending() -> threading.Event:
    """Return what is set by SIGTERM or Ctrl-C."""
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)
    return ended


def _provider(
    host: str, port: int, advertise: str, files: Sequence[Path | None]
) -> "FlightLogStoreProvider":
    from airflow_provider_segtable.core.secret import Secret
    from airflow_provider_segtable.library.log_stores import text_of, token_in
    from airflow_provider_segtable.logstore.flight_store import FlightLogStoreProvider
    from airflow_provider_segtable.logstore.flight_streams import FlightSecurity
    from airflow_provider_segtable.ports.log_store import DeployMode

    certificate, key, token = files
    security = FlightSecurity(
        token=Secret(token_in(token, "--token-file")) if token else None,
        certificate=text_of(certificate, "--tls-cert") if certificate else "",
        key=Secret(text_of(key, "--tls-key")) if key else None,
    )
    return FlightLogStoreProvider(
        host=host,
        port=port,
        advertise=advertise,
        deploy_mode=DeployMode.EXTERNAL,
        security=security,
    )


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
def _told() -> Iterator[None]:
    """Print what the services log."""
    lines, loggers = _Lines(logging.INFO), [logging.getLogger(name) for name in LOGGERS]
    for each in loggers:
        each.addHandler(lines)
        each.setLevel(logging.INFO)
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(lines)
