"""The ``segtable`` command and its groups.

``segtable spark-app``: where the Spark applications are, for ``spark-submit``.
"""

from typing import Annotated

import typer

from airflow_provider_segtable.cli.commands.advise_command import advise
from airflow_provider_segtable.cli.commands.change_command import delete, merge, update
from airflow_provider_segtable.cli.commands.compact_command import compact, plan
from airflow_provider_segtable.cli.commands.fleet_commands import fleets
from airflow_provider_segtable.cli.commands.fleet_simulation import simulate
from airflow_provider_segtable.cli.commands.health_commands import doctor, repair, verify
from airflow_provider_segtable.cli.commands.import_command import import_files
from airflow_provider_segtable.cli.commands.index_commands import indexes
from airflow_provider_segtable.cli.commands.ingest_command import ingest
from airflow_provider_segtable.cli.commands.log_store_commands import log_stores, serve, tail
from airflow_provider_segtable.cli.commands.publish_command import publish
from airflow_provider_segtable.cli.commands.settle_command import settle
from airflow_provider_segtable.cli.commands.table_commands import tables
from airflow_provider_segtable.cli.commands.ui_command import ui
from airflow_provider_segtable.cli.commands.version_commands import clean, consumers, tag
from airflow_provider_segtable.cli.commands.zookeeper_commands import locks, zookeeper
from airflow_provider_segtable.cli.guard import GuardedGroup
from airflow_provider_segtable.spark.driver.session import spark_app_path


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

app = typer.Typer(
    name="segtable",
    help=HELP,
    cls=GuardedGroup,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.add_typer(tables, name="table")
app.command()(ingest)
app.command("import")(import_files)
app.command()(delete)
app.command()(update)
app.command()(merge)
app.command()(plan)
app.command()(compact)
app.command()(clean)
app.command()(settle)
app.command()(advise)
app.command()(tag)
app.command()(publish)
app.add_typer(consumers, name="consumers")
app.add_typer(indexes, name="index")
log_stores.command()(serve)
log_stores.command()(tail)
app.add_typer(log_stores, name="logstore")
fleets.command()(simulate)
app.add_typer(fleets, name="fleet")
app.command()(locks)
app.command()(verify)
app.command()(doctor)
app.command()(repair)
app.command()(ui)
app.command()(spark_app)
app.add_typer(zookeeper, name="zookeeper")
