"""The command line: Typer reads it, Rich shows the answer, the library does the work.

1. A command gathers *facts* (``core.facts``: plain JSON values under stable keys). It prints them
   (``--json``) or draws them as tables (``drawing``).
2. Standard output has the answer only; progress, notes and errors go to standard error.
3. A segtable error becomes one red line ``error: MESSAGE`` with the way out, the exit code of its
   family (``exits``), and with ``--json`` also ``{"error", "message"}``.
4. A start imports what its command needs. Help, completion and the version come from the table of
   commands (``display.command_table``), without Typer; ``app`` imports the module of one command;
   heavy modules (Arrow, Spark, Airflow) are imported when the command first needs them.
"""

import atexit
import gc
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the ``segtable`` command and end the process with its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    code = _quick_answer(words)
    if code is not None:
        sys.exit(code)
    # A start makes a hundred thousand objects and drops none: a sixth of it were vain collections,
    # and at the end Python would look at all of them once more.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    from airflow_provider_segtable.cli.app import app

    app(args=words, prog_name="segtable")


def _quick_answer(words: Sequence[str]) -> int | None:
    """Print help, the version or completions; return the exit code, None for other commands."""
    if "_SEGTABLE_COMPLETE" in os.environ:
        from airflow_provider_segtable.cli.completion import completed

        answer = completed(os.environ)
        if answer is not None:
            sys.stdout.write(f"{answer[0]}\n" if answer[0] else "")
            return answer[1]
        return None
    if [*words] == ["--version"]:
        from airflow_provider_segtable import __version__

        sys.stdout.write(f"segtable {__version__}\n")
        return 0
    return _help(words)


def _help(words: Sequence[str]) -> int | None:
    """Print the help that is asked for, or that of a group without a command, an error."""
    from airflow_provider_segtable.cli.display.command_table import follow

    place = follow(words)
    is_group = "commands" in place.command
    if not place.is_known or not (place.asks_help or (is_group and not place.used)):
        return None
    from airflow_provider_segtable.cli.display.help_page import show_help

    show_help(place.command)
    return 0 if place.asks_help else 2


__all__ = ["main"]
