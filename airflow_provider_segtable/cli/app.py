"""The ``segtable`` command and its groups; the module of a command is imported when it is called.

``segtable spark-app``: where the Spark applications are, for ``spark-submit``.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from airflow_provider_segtable.cli.guard import GuardedGroup, prepared


def spark_app(
    name: Annotated[
        str, typer.Argument(help="compact, ingest or change.", metavar="NAME", show_default=False)
    ],
) -> None:
    r"""Print the path of a Spark application, for spark-submit.

    [green]spark-submit $(segtable spark-app compact) --table s3://lake/trips \
        --zookeeper zk://host:2181 --all-pending[/]

    Each application has --help.
    """
    from airflow_provider_segtable.spark.driver.session import spark_app_path

    typer.echo(spark_app_path(name))


HELP = r"""Tables that stay fast while they are written: append, plan, compact, read.

A first journey, on this machine alone:

  [green]segtable zookeeper start --background[/]
  [green]segtable table create ./trips --like january.parquet --time pickup[/]
  [green]segtable ingest ./trips january.parquet february.parquet[/]
  [green]segtable plan ./trips[/]              list worthwhile compactions, with reasons
  [green]segtable compact ./trips --all[/]     plan, and run the plans
  [green]segtable table scan ./trips --limit 5[/]

Exit codes:

    0  done
    1  failed; the message has the way out
    2  the command or a value is invalid; nothing was written
    3  something is missing: ZooKeeper, Java, a package
    4  conflict with another writer: run the command again
    5  verify, doctor, publish --check: problems were found
    6  verify, doctor, publish --check: the check is incomplete
    7  doctor: warnings only
  130  interrupted
"""

# Where each command is, in the order of the help: a module of ``cli.commands``, and a name in it.
HOMES = {
    "ingest": "ingest_command:ingest",
    "import": "import_command:import_files",
    "delete": "change_command:delete",
    "update": "change_command:update",
    "merge": "change_command:merge",
    "plan": "compact_command:plan",
    "compact": "compact_command:compact",
    "clean": "version_commands:clean",
    "settle": "settle_command:settle",
    "advise": "advise_command:advise",
    "tag": "version_commands:tag",
    "publish": "publish_command:publish",
    "locks": "zookeeper_commands:locks",
    "verify": "health_commands:verify",
    "doctor": "health_commands:doctor",
    "repair": "health_commands:repair",
    "ui": "ui_command:ui",
    "spark-app": "",
    "table": "table_commands:tables",
    "consumers": "version_commands:consumers",
    "index": "index_commands:indexes",
    "logstore": "log_store_commands:log_stores",
    "fleet": "fleet_simulation:fleets",
    "zookeeper": "zookeeper_commands:zookeeper",
}


class Commands(Mapping[str, Any]):
    """The commands by their names, each loaded when it is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Load a command; ``KeyError`` if there is none of this name."""
        if name not in self._loaded:
            self._loaded[name] = prepared(_command(name, HOMES[name]))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


def _command(name: str, home: str) -> Any:
    """Return a command or a group as Typer makes it."""
    module, _, within = home.partition(":")
    package = "airflow_provider_segtable.cli.commands"
    found = getattr(import_module(f"{package}.{module}"), within) if home else spark_app
    if not isinstance(found, typer.Typer):
        single = typer.Typer(**SETTINGS)
        single.command(name)(found)
        return typer.main.get_command(single)
    group = typer.Typer(**SETTINGS)
    group.add_typer(found, name=name)
    return typer.main.get_group(group).commands[name]


class Segtable(GuardedGroup):
    """The command itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands()
        prepared(self, below=False)


SETTINGS: dict[str, Any] = {
    "rich_markup_mode": "rich",
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

app = typer.Typer(
    name="segtable",
    help=HELP,
    cls=Segtable,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    **{**SETTINGS, "add_completion": True},
)


def _version(wanted: bool) -> None:  # noqa: FBT001 - the shape of a callback
    if wanted:
        from airflow_provider_segtable import __version__

        typer.echo(f"segtable {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Hold the options of the command itself."""
