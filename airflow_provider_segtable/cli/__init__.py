"""The command line: Typer reads it, Rich shows the answer, the library does the work.

1. A command gathers *facts* (``core.facts``: plain JSON values under stable keys). It prints them
   (``--json``) or draws them as tables (``drawing``).
2. Standard output has the answer only; progress, notes and errors go to standard error.
3. A segtable error becomes one red line ``error: MESSAGE`` with the way out, the exit code of its
   family (``exits``), and with ``--json`` also ``{"error", "message"}``.
4. Heavy modules (Arrow, Spark, Airflow) are imported only when a command needs them.
"""

from collections.abc import Sequence

from airflow_provider_segtable.cli.app import app


def main(argv: Sequence[str] | None = None) -> None:
    """Run the ``segtable`` command and end the process with its exit code."""
    app(args=list(argv) if argv is not None else None, prog_name="segtable")


__all__ = ["app", "main"]
