"""``segtable publish``: publish a table for readers of other formats, and check what they see."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.commands.health_commands import (
    by_severity,
    draw_findings,
    exit_of,
    finding_facts,
)
from airflow_provider_segtable.cli.commands.table_commands import open_table
from airflow_provider_segtable.cli.display.drawing import (
    check_facts,
    draw_checks,
    outcome_facts,
    outcome_line,
)
from airflow_provider_segtable.cli.display.output import (
    Exit,
    Facts,
    note,
    print_error,
    print_json,
    progress,
    show,
)
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    FormatNames,
    StorageOptions,
    TableUri,
    checked_formats,
)
from airflow_provider_segtable.core.errors import InvalidInput, PublishingRefused
from airflow_provider_segtable.core.recovery.diagnosis import Finding

if TYPE_CHECKING:
    from airflow_provider_segtable.health.publish_check import PublishCheck


_EXITS = {"Refused": Exit.FAILED, "Overtaken": Exit.AGAIN}
"""The exit codes of outcomes that do not show the newest version."""


def publish(
    table: TableUri,
    *,
    formats: FormatNames = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Publish nothing: read what is published by the libraries that are installed, "
            "and compare it with the log.",
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
            "--remove", help="Switch formats off, and delete what is published; not the table."
        ),
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Publish the newest version as Delta Lake or Apache Iceberg; no data is copied.

    [green]segtable table set ./flights publish.delta=on[/]   with each commit
    [green]segtable publish ./flights[/]                      now, if a format is on
    [green]segtable publish ./flights --format iceberg[/]     once, in this format
    [green]segtable publish ./flights --check[/]              what other readers see
    [green]segtable publish ./flights --format delta --remove[/]

    Needs no ZooKeeper, and may run beside anything: only what changed since the
    last publication is written, in one atomic step. A published version shows
    exactly one version of the table, without deleted rows. Of a table with a
    primary key it has the base files: records since the last compaction of a
    bucket are not in it. "table describe" shows the addresses to open, and how
    far they are behind.

    Ends with 0 if all formats show the newest version, and with 1 if one cannot,
    or its catalog does not have the version.
    --check ends as verify does: 0 if readers agree with the log, 5 if one shows
    other rows, 6 if no reader of a format could be asked. A reader that does not
    support what is published is named, which is no damage.
    """
    if sum((check, full, remove)) > 1:
        raise InvalidInput("--check, --full and --remove exclude each other: give one of them")
    opened = open_table(table, storage_options)
    names = checked_formats(formats)
    if check:
        _check(table, opened, names, as_json=as_json)
    elif remove:
        _remove(table, opened, names, as_json=as_json)
    else:
        _publish(table, opened, names, full=full, as_json=as_json)


def _publish(uri: str, opened: Any, names: tuple[str, ...], *, full: bool, as_json: bool) -> None:
    with progress() as bar:
        task = bar.add_task("publishing", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"publishing: {what}", completed=done, total=total)

        outcomes = opened.publish(formats=names or None, full=full, report=report)
    answer = {
        "table": uri,
        "version": opened.state().n,
        "formats": [outcome_facts(each) for each in outcomes],
    }
    if as_json:
        print_json(answer)
    else:
        done = [each for each in answer["formats"] if each["outcome"] != "Refused"]
        show(Group(*(Text(outcome_line(each)) for each in done)))
        for each in answer["formats"]:
            if each["outcome"] == "Refused":
                print_error(PublishingRefused(outcome_line(each)))
    codes = {*map(_exit, answer["formats"])} - {Exit.DONE}
    raise typer.Exit(min(codes, default=Exit.DONE))


def _exit(facts: Facts) -> Exit:
    """Return the exit code of an outcome."""
    return Exit.FAILED if facts["unregistered"] else _EXITS.get(facts["outcome"], Exit.DONE)


def _check(uri: str, opened: Any, names: tuple[str, ...], *, as_json: bool) -> None:
    from airflow_provider_segtable.health.publish_check import check_published

    wanted = names or tuple(opened.published())
    if not wanted:
        raise InvalidInput(
            f"nothing of {uri} is published: segtable publish {quote(uri)} --format delta "
            "publishes it"
        )
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        checks = check_published(opened.ports, wanted, report=report)
    findings = [finding for each in checks for finding in each.findings]
    _show_checks(uri, checks, findings, as_json=as_json)
    raise typer.Exit(exit_of(findings))


def _show_checks(
    uri: str, checks: "tuple[PublishCheck, ...]", findings: list[Finding], *, as_json: bool
) -> None:
    seen = [check_facts(each) for each in checks]
    answer: Facts = {
        "table": uri,
        "formats": seen,
        "findings": [finding_facts(each) for each in by_severity(findings)],
    }
    if as_json:
        print_json(answer)
        return
    show(Group(draw_findings(findings), draw_checks(seen)))


def _remove(uri: str, opened: Any, names: tuple[str, ...], *, as_json: bool) -> None:
    if not names:
        raise InvalidInput("name what to remove: --format delta, --format iceberg, or both")
    removed = {name: opened.unpublish(name) for name in names}
    answer = {
        "table": uri,
        "version": opened.state().n,
        "removed": {name: list(paths) for name, paths in removed.items()},
    }
    if as_json:
        print_json(answer)
        return
    for name, paths in removed.items():
        note(f"{name}: switched off; {len(paths):,} files of it deleted")
