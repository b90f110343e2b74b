"""``segtable publish``: publish a table for readers of other formats, and check their view."""

from shlex import quote
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.commands.health_commands import draw_findings, exit_of
from airflow_provider_segtable.cli.display.drawing import draw_checks, outcome_line
from airflow_provider_segtable.cli.display.output import Exit, print_error, print_json, progress
from airflow_provider_segtable.cli.input.options import (
    CommonOptions,
    FormatNames,
    checked_formats,
    option_groups,
)
from airflow_provider_segtable.core.errors import InvalidInput, PublishingRefused
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.recovery.diagnosis import worst_first

_EXITS = {"Refused": Exit.FAILED, "Overtaken": Exit.AGAIN}
"""The exit codes of outcomes that do not show the newest version."""


@option_groups
def publish(
    *,
    formats: FormatNames = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Publish nothing: read the published versions by the installed libraries, "
            "and compare them with the log.",
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Publish all files anew, not only what differs, over any damage."
        ),
    ] = False,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Switch formats off, and delete the published versions; not the table."
        ),
    ] = False,
    common: CommonOptions,
) -> None:
    """Publish the newest version as Delta Lake or Apache Iceberg; no data is copied.

    [green]segtable table set ./flights publish.delta=on[/]   with each commit
    [green]segtable publish ./flights[/]                      now, if a format is on
    [green]segtable publish ./flights --format iceberg[/]     once, in this format
    [green]segtable publish ./flights --check[/]              compare readers with the log
    [green]segtable publish ./flights --format delta --remove[/]

    Needs no ZooKeeper, and may run beside anything: only changes since the
    last publication are written, in one atomic step. A published version shows
    exactly one version of the table, without deleted rows. Of a table with a
    primary key it has the base files: records since the last compaction of a
    bucket are not in it. "table describe" shows the addresses to open, and how
    far they are behind.

    Ends with 0 if all formats show the newest version, and with 1 if one cannot,
    or its catalog does not have the version.
    --check ends as verify does: 0 if readers agree with the log, 5 if one shows
    other rows, 6 if no reader of a format could be asked. A reader that does not
    support the published version is named, which is no damage.
    """
    if sum((check, full, remove)) > 1:
        raise InvalidInput("--check, --full and --remove exclude each other: give one of them")
    opened = common.open()
    names = checked_formats(formats)
    if check:
        _check(opened, names, common)
    elif remove:
        _remove(opened, names, common)
    else:
        _publish(opened, names, common, full=full)


def _publish(opened: Any, names: tuple[str, ...], common: CommonOptions, *, full: bool) -> None:
    with progress() as bar:
        task = bar.add_task("publishing", total=None)

        def report(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"publishing: {step}", completed=done, total=total)

        outcomes = opened.publish(formats=names or None, full=full, report=report)
    shown = [each.facts() for each in outcomes]
    common.answer({"version": opened.state().n, "formats": shown}, _draw_outcomes)
    for each in shown:
        if each["outcome"] == "Refused" and not common.as_json:
            print_error(PublishingRefused(outcome_line(each)))
    codes = {*map(_exit, shown)} - {Exit.DONE}
    raise typer.Exit(min(codes, default=Exit.DONE))


def _draw_outcomes(facts: Facts) -> Group:
    done = (each for each in facts["formats"] if each["outcome"] != "Refused")
    return Group(*(Text(outcome_line(each)) for each in done))


def _exit(facts: Facts) -> Exit:
    """Return the exit code of an outcome."""
    return Exit.FAILED if facts["unregistered"] else _EXITS.get(facts["outcome"], Exit.DONE)


def _check(opened: Any, names: tuple[str, ...], common: CommonOptions) -> None:
    from airflow_provider_segtable.health.publish_check import check_published

    wanted = names or tuple(opened.published())
    if not wanted:
        raise InvalidInput(
            f"nothing of {common.table} is published: segtable publish {quote(common.table)} "
            "--format delta publishes it"
        )
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def report(reader: str, done: int, total: int) -> None:
            if reader not in tasks:
                tasks[reader] = bar.add_task(reader, total=total)
            bar.update(tasks[reader], completed=done, total=total)

        checks = check_published(opened.ports, wanted, report=report)
    findings = [finding for each in checks for finding in each.findings]
    answer = {
        "formats": [each.facts() for each in checks],
        "findings": [finding.facts() for finding in worst_first(findings)],
    }
    common.answer(
        answer, lambda facts: Group(draw_findings(findings), draw_checks(facts["formats"]))
    )
    raise typer.Exit(exit_of(findings))


def _remove(opened: Any, names: tuple[str, ...], common: CommonOptions) -> None:
    if not names:
        raise InvalidInput("name the formats to remove: --format delta, --format iceberg, or both")
    removed = {name: list(opened.unpublish(name)) for name in names}
    answer = {"table": common.table, "version": opened.state().n, "removed": removed}
    if common.as_json:
        print_json(answer)
    for name, paths in removed.items():
        common.note(f"{name}: switched off; {len(paths):,} files of it deleted")
