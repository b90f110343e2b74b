"""Write answers to standard output, everything else to standard error, and end with an exit code.

Exit codes for scripts, so that they need not parse messages:

====  ==================================================================================
   0  done
   1  failed: the table, the storage or a plan; the message has the way out
   2  the command line or a value on it is wrong; nothing was written
   3  something is missing here: ZooKeeper, Java, a Python package, or the session was lost
   4  conflict with another writer, or a lost reply: run the command again
   5  `verify`, `doctor` or `publish --check` found something wrong
   6  one of these could not check everything, and found nothing wrong in the rest
   7  `doctor` found nothing worse than warnings; `compact --all` could not read an index
 130  interrupted
====  ==================================================================================
"""

import json
import os
import sys
from shlex import quote

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from airflow_provider_segtable.core.errors import Exit as Exit  # noqa: PLC0414  # for commands
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.secret import redacted

WIDTH_WHEN_PIPED = 160


def console(*, stderr: bool = False) -> Console:
    """Return a console; if its width is unknown, one wide enough for segtable's tables."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_WHEN_PIPED
    return made


out = console()
err = console(stderr=True)


def print_json(facts: Facts) -> None:
    """Print facts as one JSON document."""
    sys.stdout.write(json.dumps(facts, indent=2, default=str) + "\n")


def show(facts: RenderableType) -> None:
    """Print a drawing; in a pipe lines are not wrapped at 80 columns."""
    out.print(facts)


def note(text: str) -> None:
    """Print a remark (Rich markup) that is not part of the answer."""
    err.print(text, soft_wrap=True)


def in_shell(text: str) -> str:
    """Return an argument of a command in a remark (Rich markup), as a shell takes it."""
    return escape(quote(text))


def print_error(error: SegtableError) -> None:
    """Print an error as one red line, with the way out."""
    line = " ".join(redacted(str(error)).split())
    err.print(f"[bold red]error:[/] [red]{escape(line)}[/]", soft_wrap=True)


def print_warning(text: str) -> None:
    """Print a warning as one yellow line."""
    err.print(f"[bold yellow]warning:[/] [yellow]{escape(text)}[/]", soft_wrap=True)


def error_facts(error: SegtableError) -> Facts:
    """Return an error as facts."""
    return {"error": type(error).__name__, "message": redacted(str(error))}


class Done(MofNCompleteColumn):
    """How much of a task is done: ``3/12``, or ``3`` while the total is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text for a task."""
        if task.total is not None:
            return super().render(task)
        return Text(str(int(task.completed)), style="progress.download")


def progress() -> Progress:
    """Return a progress bar on standard error, which shows only on a terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        Done(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def exit_code(error: SegtableError) -> int:
    """Return the exit code of a process that an error ends."""
    return error.exit_code
