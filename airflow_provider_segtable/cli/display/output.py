"""Two streams: the answer on standard output, everything else on standard error."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.secret import redacted

Facts = Mapping[str, Any]
"""An answer as plain JSON values under stable keys."""

WIDTH_WHEN_PIPED = 160


def console(*, stderr: bool = False) -> Console:
    """Return a console; where nobody says how wide it is, wide enough for our tables."""
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
    """Print what people read; in a pipe lines are not broken at 80 columns."""
    out.print(facts)


def note(text: str) -> None:
    """Print a remark (Rich markup) that is no part of the answer."""
    err.print(text)


def print_error(error: SegtableError) -> None:
    """Print one red line: what is wrong, and the way out."""
    line = " ".join(redacted(str(error)).split())
    err.print(f"[bold red]error:[/] [red]{escape(line)}[/]", soft_wrap=True)


def print_warning(text: str) -> None:
    """Print one yellow line about something that may go wrong."""
    err.print(f"[bold yellow]warning:[/] [yellow]{escape(text)}[/]", soft_wrap=True)


def error_facts(error: SegtableError) -> Facts:
    """Return an error as facts."""
    return {"error": type(error).__name__, "message": redacted(str(error))}


def progress() -> Progress:
    """Return a progress bar on standard error; none where nobody watches."""
    return Progress(
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
