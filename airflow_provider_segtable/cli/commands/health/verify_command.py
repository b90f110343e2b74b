"""``segtable verify``: check a table against its log; and the drawing of findings.

Findings are shown worst first, here and in ``segtable doctor``; their ``code`` is for scripts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.display.output import (
    Facts,
    error_facts,
    print_error,
    print_json,
    progress,
    show,
)
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    store_options,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity, worst

if TYPE_CHECKING:
    from airflow_provider_segtable.health.verify import Verification

STYLES = {
    Severity.INFO: "dim",
    Severity.WARNING: "yellow",
    Severity.UNCHECKED: "magenta",
    Severity.CRITICAL: "bold red",
}


def verify(
    table: TableUri,
    *,
    all_versions: Annotated[
        bool,
        typer.Option(
            "--all-versions",
            help="Check every retained version, and the files of hidden segments.",
        ),
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also decode every row, at the cost of a full scan.")
    ] = False,
    threads: Annotated[
        int, typer.Option(help="Number of files read in parallel.", metavar="N", min=1, max=64)
    ] = 4,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Check a table's log, its files, and that both agree.

    [green]segtable verify ./flights[/]                 log, state, every footer
    [green]segtable verify ./flights --deep[/]          and every row
    [green]segtable verify ./flights --all-versions[/]  and every version still kept
    [green]segtable verify ./flights --json | jq .findings[/]

    Reads only, needs no ZooKeeper, and may run beside writers: it looks at the
    version that is newest when it starts.

    Ends with 0 if all is well, 5 if something is wrong, and 6 if something
    could not be looked at (and nothing else is wrong). Each finding says what to
    do about it. First stop the compactions of the table and keep a copy of its
    folder _segtable; then [green]segtable repair[/], which shows what it would do.
    """
    try:
        found = _run(table, storage_options, threads, deep=deep, all_versions=all_versions)
    except InvalidInput:
        raise
    except SegtableError as error:
        print_error(error)
        if as_json:
            print_json(error_facts(error))
        raise typer.Exit(Exit.UNCHECKED) from None
    answer = _facts(table, found, deep=deep, all_versions=all_versions)
    print_json(answer) if as_json else show(_draw(answer, found))
    raise typer.Exit(exit_of(found.findings))


def _run(
    table: str,
    storage_options: list[str] | None,
    threads: int,
    *,
    deep: bool,
    all_versions: bool,
) -> "Verification":
    from airflow_provider_segtable.health import verify as service
    from airflow_provider_segtable.table.context import open_context

    ports = open_context(table, storage_options=store_options(storage_options))
    with progress() as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in ("log", "files")}

        def report(stage: str, done: int, total: int) -> None:
            bar.update(tasks[stage], completed=done, total=total)

        return service.verify(
            ports, all_versions=all_versions, deep=deep, threads=threads, report=report
        )


def exit_of(findings: Sequence[Finding]) -> Exit:
    """Return the exit code of findings."""
    severities = {finding.severity for finding in findings}
    if severities & {Severity.WARNING, Severity.CRITICAL}:
        return Exit.WRONG
    return Exit.UNCHECKED if Severity.UNCHECKED in severities else Exit.DONE


def _facts(uri: str, found: "Verification", *, deep: bool, all_versions: bool) -> Facts:
    return {
        "table": uri,
        "version": found.version,
        "first_event": found.first,
        "all_versions": all_versions,
        "deep": deep,
        "checked": {
            "versions": found.versions,
            "checkpoints": found.checkpoints,
            "files": found.files,
            "rows": 0 if found.keyed else found.rows,
            "records": found.rows if found.keyed else 0,
        },
        "findings": [finding_facts(finding) for finding in by_severity(found.findings)],
    }


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings worst first; equal severities keep their order."""
    return sorted(findings, key=lambda finding: -finding.severity.rank)


def finding_facts(finding: Finding) -> Facts:
    """Return a finding as plain values."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "where": finding.where,
        "what": finding.what,
        "why": finding.why,
        "do": finding.do,
    }


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Draw findings, worst first."""
    lines: list[RenderableType] = []
    for finding in by_severity(findings):
        head = Text(f"{finding.severity.value} ", style=STYLES[finding.severity])
        head.append(f"{finding.code}  {finding.where}", style="bold")
        lines.append(head)
        for label, said in (("", finding.what), ("why: ", finding.why), ("do:  ", finding.do)):
            lines.append(Text(f"    {label}{said}"))
    return Group(*lines)


def _draw(facts: Facts, found: "Verification") -> RenderableType:
    checked = facts["checked"]
    unit = "record" if found.keyed else "row"
    rows = f", {counted(checked[f'{unit}s'], unit)}" if facts["deep"] else ""
    checkpoints = counted(checked["checkpoints"], "checkpoint")
    files = counted(checked["files"], "file")
    span = f"events {facts['first_event']} to {facts['version']}"
    summary = f"{span}, {checkpoints}, {files}{rows}"
    if worst(found.findings) in (None, Severity.INFO):
        said = Text(f"sound: {summary}", style="green")
    else:
        said = Text(f"{counted(len(found.findings), 'finding')} in {summary}", style="bold")
    return Group(draw_findings(found.findings), said)
