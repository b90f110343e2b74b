"""``segtable ui``: the page on loopback, for people without Airflow."""

import getpass
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.cli.input.options import StorageOptions, ZooKeeper, store_options
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.core.secret import Secret, SecretOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PORT = 8321


def ui(
    *,
    root: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="Where tables are: a folder, s3://lake/tables, or one table. Repeatable. By "
            "default the fleet file's, else this folder.",
            show_default=False,
        ),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A fleet file: groups, objectives, budgets.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="0 for any that is free.")
    ] = PORT,
    token: Annotated[
        bool,
        typer.Option(
            "--token",
            help="Ask for a token, which the printed address has; its holder may change tables.",
        ),
    ] = False,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
) -> None:
    """Show tables in a browser on this machine, until Ctrl-C.

    [green]segtable ui --root ./tables[/]
    [green]segtable ui --fleet fleet.toml --root s3://lake/tables[/]
    [green]segtable ui --root ./tables --token[/]              tables can be changed, too

    The page answers on 127.0.0.1 alone, and changes nothing without --token. It needs
    no ZooKeeper to show tables; with one it also shows locks. In Airflow the same page
    is part of the navigation: Lake.
    """
    given = Secret(secrets.token_urlsafe(24)) if token else None
    app = _page(root or [], fleet, zookeeper, store_options(storage_options), given)
    with _listening(port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        typer.echo(f"{address}?token={given.reveal()}" if given else address)
        note("Ctrl-C ends it")
        _serve(app, listening)


def _page(
    roots: list[str],
    file: str | None,
    zookeeper: str | None,
    options: Mapping[str, str],
    token: Secret | None,
) -> "ASGIApp":
    try:
        import fastapi  # noqa: F401 - whether it is there
        import uvicorn  # noqa: F401 - likewise
    except ImportError as error:
        raise DependencyMissing(
            f"the page needs {error.name}: pip install 'airflow-provider-segtable[ui]'"
        ) from None
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper
    from airflow_provider_segtable.page.actions_here import ActionsHere
    from airflow_provider_segtable.page.app import page_app
    from airflow_provider_segtable.page.lake import Lake
    from airflow_provider_segtable.page.rights import OnLoopback
    from airflow_provider_segtable.page.sources import sources_at
    from airflow_provider_segtable.services.fleet_tables import load_fleet
    from airflow_provider_segtable.storage.local import SystemClock
    from airflow_provider_segtable.storage.table_paths import is_local

    fleet = load_fleet(file, dict(options)) if file else None
    own = (fleet.root or str(PurePosixPath(file or "").parent)) if fleet else "."
    for root in roots:
        if is_local(root) and not Path(root.removeprefix("file://")).is_dir():
            raise InvalidInput(f"there is no folder {root}: name where tables are, or one table")
    sources = sources_at(
        roots or [own],
        fleet=fleet,
        storage_options=SecretOptions(options),
        zookeeper=find_zookeeper(zookeeper),
    )
    rights = OnLoopback(getpass.getuser(), token)
    actions = ActionsHere() if token else None
    return rights.entrance(page_app(Lake(lambda: sources, SystemClock()), rights, actions))


def _listening(port: int) -> socket.socket:
    """Listen on loopback.

    Raises:
        InvalidInput: the port is taken.
    """
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(128)  # so that the printed address answers at once
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"port {port} of 127.0.0.1 cannot be used ({error.strerror}): give another one, or "
            "--port 0 for any that is free"
        ) from None
    return listening


def _serve(app: "ASGIApp", listening: socket.socket) -> None:
    import uvicorn

    # The printed address may have the token: no request is logged.
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])
