"""``segtable zookeeper`` and ``segtable locks``: an embedded ZooKeeper, and a table's locks in it.

1. The embedded ZooKeeper is for trials, tests and single machines.
2. ``locks`` shows the coordinator's view, which is a hint: the log decides what is committed.
3. A release takes the lock from its holder at once. The holder notices at its next check, or the
   log refuses its commit. So the command explains the consequence, and asks for confirmation.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import age, grid, partitions, short_interval
from airflow_provider_segtable.cli.display.output import Exit, note, print_json
from airflow_provider_segtable.cli.input.options import AsJson, ZooKeeperOptions, option_groups
from airflow_provider_segtable.cli.running import end_signal
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.locks import Lock
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.library.lock_facts import lock_facts, locks_facts

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
    ended = end_signal()
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


STYLES = {"revoked": "yellow", "publishing": "green", "waiting": "dim"}


@option_groups
def locks(
    *,
    release: Annotated[
        str | None,
        typer.Option(
            help="Revoke the lock of this group, or remove an unreadable node.",
            metavar="GROUP",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Release without asking.")] = False,
    common: ZooKeeperOptions,
) -> None:
    """Show the holders and waiters of a table's locks; release a stuck lock.

    [green]segtable locks ./flights[/]
    [green]segtable locks ./flights --release minor-20130101-1a2b3c4d5e6f-77aa[/]

    A lock ends by itself with its holder's session, so a release is for a live
    holder that hangs. The holder cannot commit afterwards; its plan can be run
    again.
    """
    with common.open() as table:
        quiet = common.as_json
        released = release is not None and _release(table, release, ask=not yes, quiet=quiet)
        answer = {
            **locks_facts(table.ports, table.state().table.table_id),
            "released": release if released else None,
        }
    common.answer(answer, _draw)
    if released:
        note(f"[green]released[/] {release}")


def _release(table: Any, group: str, *, ask: bool, quiet: bool) -> bool:
    from airflow_provider_segtable.services.unlocking import held_by, release_lock

    ports, state = table.ports, table.state()
    found = held_by(ports, state, group)
    if ask:
        if quiet:
            raise InvalidInput("--json cannot ask for confirmation: add --yes to release")
        lock = found if isinstance(found, Lock) else None
        stray = None if isinstance(found, Lock) else found.why
        note(_consequence(lock, ports.clock.now()) if lock else f"{group} is unreadable: {stray}")
        if not typer.confirm("Release it?", err=True):
            note("nothing was released")
            raise typer.Exit(Exit.FAILED)
    return release_lock(ports, state, found)


def _consequence(lock: Lock, now: Instant) -> str:
    return (
        f"{lock.holder} holds {_brief(lock_facts(lock, now))} for "
        f"{lock.purpose}. After the release, it cannot commit its running work"
        + (", and it is publishing: its commit may be under way." if lock.irrevocable else ".")
        + " Waiting workers proceed, and the plan can be run again."
    )


def _draw(facts: Facts) -> RenderableType:
    parts: list[RenderableType] = []
    for title, entries in (("Locks", facts["locks"]), ("Waiting", facts["waiting"])):
        if entries:
            parts.append(_table(title, entries))
    if facts["unreadable"]:
        strays = grid("Unreadable", "node", "why")
        for stray in facts["unreadable"]:
            strays.add_row(Text(stray["name"], style="red"), Text(stray["why"]))
        parts.append(strays)
    return Group(*parts) if parts else Text("No locks are held, and no worker waits.")


def _table(title: str, entries: Iterable[Facts]) -> RenderableType:
    table = grid(
        title, "group", "state", "mode", "prio", "age", "locked", "holder", right=("prio",)
    )
    for entry in entries:
        progress = ", ".join(f"{key} {value}" for key, value in entry["progress"].items())
        revoked = f"revoked by {entry['revoked_by']}" if entry["revoked_by"] else ""
        holder = f"{entry['holder']} for {entry['purpose']}"
        table.add_row(
            Text(entry["group"]),
            Text(entry["state"], style=STYLES.get(entry["state"], "")),
            entry["mode"],
            str(entry["priority"]),
            age(entry["age_s"]),
            Text(_brief(entry)),
            Text("; ".join(part for part in (holder, progress, revoked) if part)),
        )
    return table


def _brief(entry: Facts) -> str:
    parts = [short_interval(each) for each in entry["intervals"]]
    for key, mark in (("segments", ""), ("new_segments", "new ")):
        parts += [
            f"{short_interval(each['interval'])} {mark}{partitions(each['partitions'])}"
            for each in entry[key]
        ]
    parts += [f"new ids of {chunk}" for chunk in entry["wants_new_in"]]
    return "; ".join(parts) or "nothing"
