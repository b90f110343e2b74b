"""The command line: Typer reads it, Rich shows the answer, the library does the work.

1. A command gathers *facts* (``facts``: plain JSON values under stable keys) and either prints
   them (``--json``) or draws them for people (``drawing``); both come from the same facts.
2. Standard output carries the answer only; progress, notes and errors go to standard error.
3. An error of ours is one red line ``error: <what and the way out>``, an exit code that tells
   its family (``exits``), and with ``--json`` also ``{"error", "message"}``.
4. Nothing heavy (Arrow, Spark, Airflow) is imported before a command needs it.
"""

from collections.abc import Sequence

from airflow_provider_segtable.cli.app import app


def main(argv: Sequence[str] | None = None) -> None:
    """Run the ``segtable`` command and end the process with its exit code."""
    app(args=list(argv) if argv is not None else None, prog_name="segtable")


__all__ = ["app", "main"]
