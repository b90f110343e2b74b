"""The ``segtable`` command and its groups."""

from typing import Annotated

import typer

from airflow_provider_segtable.cli.commands.coordination.locks_command import locks
from airflow_provider_segtable.cli.commands.coordination.zookeeper_commands import zookeeper
from airflow_provider_segtable.cli.commands.health.doctor_command import doctor
from airflow_provider_segtable.cli.commands.health.repair_command import repair
from airflow_provider_segtable.cli.commands.health.verify_command import verify
from airflow_provider_segtable.cli.commands.indexes.index_commands import indexes
from airflow_provider_segtable.cli.commands.logstore.log_store_commands import log_stores
from airflow_provider_segtable.cli.commands.logstore.serve_command import serve
from airflow_provider_segtable.cli.commands.logstore.tail_command import tail
from airflow_provider_segtable.cli.commands.rows.change_command import delete, merge, update
from airflow_provider_segtable.cli.commands.rows.ingest_command import ingest
from airflow_provider_segtable.cli.commands.spark_app_command import spark_app
from airflow_provider_segtable.cli.commands.tables.consumer_commands import consumers
from airflow_provider_segtable.cli.commands.tables.drop_command import drop
from airflow_provider_segtable.cli.commands.tables.restore_command import restore
from airflow_provider_segtable.cli.commands.tables.table_commands import tables
from airflow_provider_segtable.cli.commands.upkeep.clean_command import clean, tag
from airflow_provider_segtable.cli.commands.upkeep.compact_command import compact
from airflow_provider_segtable.cli.commands.upkeep.plan_command import plan
from airflow_provider_segtable.cli.commands.upkeep.publish_command import publish
from airflow_provider_segtable.cli.guard import GuardedGroup

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
    1  failed; the message says what to do
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


tables.command()(restore)
tables.command()(drop)
app.add_typer(tables, name="table")
app.command()(ingest)
app.command()(delete)
app.command()(update)
app.command()(merge)
app.command()(plan)
app.command()(compact)
app.command()(clean)
app.command()(tag)
app.command()(publish)
app.add_typer(consumers, name="consumers")
app.add_typer(indexes, name="index")
log_stores.command()(serve)
log_stores.command()(tail)
app.add_typer(log_stores, name="logstore")
app.command()(locks)
app.command()(verify)
app.command()(doctor)
app.command()(repair)
app.command()(spark_app)
app.add_typer(zookeeper, name="zookeeper")
