"""``segtable zookeeper``: an embedded ZooKeeper for trials, tests and single machines."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from airflow_provider_segtable.cli.display.output import Facts, note, print_json
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import AsJson

zookeeper = typer.Typer(
    no_args_is_help=True,
    help="An embedded ZooKeeper for trials, tests and single machines (not for production).",
)

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        help="Directory of its state; one directory is one server. "
        "Default: $SEGTABLE_HOME/zookeeper, or ~/.segtable/zookeeper.",
        show_default=False,
    ),
]


@zookeeper.command()
def start(
    *,
    background: Annotated[
        bool, typer.Option("--background", help="Keep it running in the background, and return.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(help="A port of 127.0.0.1; a free one by default.")
    ] = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Start ZooKeeper: in the foreground until Ctrl-C, or in the background.

    [green]segtable zookeeper start --background[/]
    [green]segtable zookeeper start --port 2181[/]

    It runs from the jars that PySpark ships, and needs Java 17 or newer. Your
    other segtable commands find it by themselves; for other programs, export
    SEGTABLE_ZOOKEEPER=ADDRESS.
    """
    from airflow_provider_segtable.coordination import embedded_zookeeper as embedded

    if background:
        address = embedded.start_background(directory, port=port)
        _print_address(_facts(directory), as_json=as_json)
        if not as_json:
            note(f"running at {address}. Stop it with [green]segtable zookeeper stop[/]")
        return
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)
    place = directory or embedded.default_state_dir()
    with embedded.EmbeddedZooKeeper(place, port):
        _print_address(_facts(directory), as_json=as_json)
        if not as_json:
            note("running; Ctrl-C stops it")
        ended.wait()


@zookeeper.command()
def stop(*, directory: Directory = None, as_json: AsJson = False) -> None:
    """Stop ZooKeeper; its state is kept for the next start.

    [green]segtable zookeeper stop[/]
    """
    from airflow_provider_segtable.coordination.embedded_zookeeper import stop_background

    ran = stop_background(directory)
    if as_json:
        print_json({**_facts(directory), "stopped": ran})
    else:
        note("stopped" if ran else "none was running")


@zookeeper.command()
def status(*, directory: Directory = None, as_json: AsJson = False) -> None:
    """Print ZooKeeper's address; exits with 3 if it is not running.

    [green]segtable zookeeper status --json[/]
    """
    facts = _facts(directory)
    _print_address(facts, as_json=as_json)
    if not facts["running"]:
        if not as_json:
            note("not running. Start it with [green]segtable zookeeper start --background[/]")
        raise typer.Exit(Exit.MISSING)


def _facts(directory: Path | None) -> Facts:
    from airflow_provider_segtable.coordination import embedded_zookeeper as embedded

    found = embedded.status(directory)
    return {
        "running": found.running,
        "address": found.address if found.running else None,
        "pid": found.pid,
        "dir": str(found.data_dir),
    }


def _print_address(facts: Facts, *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    elif facts["address"]:
        typer.echo(facts["address"])
