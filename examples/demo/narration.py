"""How the demo speaks: numbered steps with their times, one line a fact."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule

from airflow_provider_segtable.cli.display.output import out

INDENT = 3


class Teller:
    """Prints the story to standard output."""

    def __init__(self) -> None:
        """Start the clock."""
        self.started = time.monotonic()
        self._steps = 0

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Tell a numbered step; its time is told at its end, if it ends well."""
        self._steps += 1
        began = time.monotonic()
        out.print()
        out.print(Rule(f"[bold cyan]{self._steps}. {title}", align="left", style="cyan"))
        yield
        took = time.monotonic() - began
        self.say(f"[dim]{took:.1f} s (since the start {self.elapsed_s:.0f} s)[/]")

    def say(self, what: RenderableType) -> None:
        """Print something indented."""
        out.print(Padding(what, (0, 0, 0, INDENT), expand=False))

    def done(self, what: str) -> None:
        """Print a thing that went well."""
        self.say(f"[green]✓[/] {what}")
