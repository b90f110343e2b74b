"""``segtable import``: make a table of a folder of Parquet files, without copying them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.cli.display.output import in_shell, print_warning, progress
from airflow_provider_segtable.cli.input.options import (
    Properties,
    ZooKeeperOptions,
    option_groups,
    pairs,
    store_options,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schema import split_names

if TYPE_CHECKING:
    from airflow_provider_segtable.table.adoption import Adoption, AdoptionRequest
    from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """The table that an import makes; each setting is derived from the files if left out."""

    time_column: Annotated[
        str | None,
        typer.Option(
            help="The event time; by default the only timestamp of the files, or the only date.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None
    granularity: Annotated[
        str | None,
        typer.Option(
            help="Length of time chunks: hour, day, week, month, year, all; by default the finest "
            "one in which nine of ten files lie in one time chunk each.",
            show_default=False,
        ),
    ] = None
    schema: Annotated[
        str | None,
        typer.Option(
            help=r'Columns: "NAME TYPE \[not null], ..."; by default those of the files.',
            show_default=False,
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Name for display; the last part of TABLE by default.")
    ] = None
    properties: Properties = None

    def request(self, ignored: list[str] | None, *, copy_rest: bool) -> "AdoptionRequest":
        """Return the request of an import.

        Raises:
            InvalidInput, SchemaMismatch: an option is wrong; the message names its value.
        """
        from airflow_provider_segtable.data.arrow_schema import parse_schema
        from airflow_provider_segtable.table.adoption import AdoptionRequest

        return AdoptionRequest(
            time_column=self.time_column,
            granularity=self.granularity,
            schema=None if self.schema is None else parse_schema(self.schema),
            name=self.name,
            properties=pairs(self.properties, "--property"),
            ignored=tuple(each for text in ignored or () for each in split_names(text)),
            copy_rest=copy_rest,
        )


@option_groups
def import_files(
    *,
    new: NewTable,
    ignore_columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out these columns of files, or of folder names (day=2026-01-05/); repeat.",
            metavar="A,B",
            show_default=False,
        ),
    ] = None,
    copy_rest: Annotated[
        bool,
        typer.Option(
            "--copy-rest",
            help="Append the rows of files that cannot be adopted; these files stay, and are "
            "listed, so that you can delete them.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the decision about each file; write nothing.")
    ] = False,
    common: ZooKeeperOptions,
) -> None:
    r"""Make the Parquet files of a folder files of a table at its root, without a copy.

    [green]segtable import ./landing --dry-run[/]
    [green]segtable import ./landing --time-column pickup --ignore-columns day[/]
    [green]segtable import s3://lake/trips --granularity day --copy-rest[/]

    The table is created unless it is there; run it again for files that came since,
    or after a failure. A file is adopted if all its rows lie in one time chunk and
    its columns are the table's; the others are listed with the reason.

    [bold]Adopted files belong to the table[/]: compaction replaces them, and cleaning
    and dropping delete them. Other files in the folder are never touched.
    """
    from airflow_provider_segtable.table.adoption import adopt, plan_adoption

    request = new.request(ignore_columns, copy_rest=copy_rest)
    with _context(common) as ports, _watched() as report:
        done = (plan_adoption if dry_run else adopt)(ports, request, report)
    common.report(done, drawing.adoption)
    _explain(done, common)


@contextmanager
def _context(common: ZooKeeperOptions) -> "Iterator[TableContext]":
    """Open the ports of a table that need not be there, and end the session afterwards."""
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper
    from airflow_provider_segtable.table.table import Table

    options = store_options(common.storage_options)
    ports = Table.connect(common.table, find_zookeeper(common.zookeeper), options, None)
    try:
        yield ports
    finally:
        if ports.optional_coordinator is not None:
            ports.optional_coordinator.close()


@contextmanager
def _watched() -> "Iterator[Callable[[str, int, int], None]]":
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield report


def _explain(done: "Adoption", common: ZooKeeperOptions) -> None:
    """Say how the time chunks were chosen, what was left, and what to do next."""
    from airflow_provider_segtable.data.adoption.decision import Action

    if done.created and done.fits:
        counts = ", ".join(f"{each.value} {count}" for each, count in done.fits.items())
        common.note(
            f"[green]time chunks: {done.table.granularity}[/], by {done.table.time_column}; files "
            f"that lie in one time chunk: {counts}"
        )
    left = [*done.those(Action.REFUSE), *done.those(Action.COPY)]
    left = [each for each in left if each.facts.path not in done.copied]
    if left:
        hint = "" if done.copied else "; --copy-rest appends the rows of those marked copy"
        print_warning(f"{counted(len(left), 'file')} not adopted, each with its reason{hint}")
    if done.copied:
        print_warning(
            f"{counted(len(done.copied), 'file')} copied: the table has their rows, and does not "
            "need them any more"
        )
    if not done.dry_run:
        table = in_shell(common.table)
        common.note(f"[green]adopted.[/] Next: [green]segtable compact {table} --all[/]")
