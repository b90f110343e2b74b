"""Turn segtable's errors into one line and an exit code, and let help come from its table."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from airflow_provider_segtable.cli.display.command_table import command_at
from airflow_provider_segtable.cli.display.help_page import help_for
from airflow_provider_segtable.cli.display.output import (
    Exit,
    error_facts,
    exit_code,
    note,
    print_error,
    print_json,
)
from airflow_provider_segtable.cli.input.options import JSON_WANTED
from airflow_provider_segtable.cli.input.plain_values import with_plain_values
from airflow_provider_segtable.core.errors import SegtableError


class GuardedGroup(TyperGroup):
    """A command group that turns ``SegtableError`` and Ctrl-C into exit codes."""

    def invoke(self, ctx: Any) -> Any:  # Typer keeps the type of its contexts to itself
        """Run the command, to its publications; unexpected exceptions pass, with a traceback."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            raise
        except SegtableError as error:
            print_error(error)
            if ctx.meta.get(JSON_WANTED):
                print_json(error_facts(error))
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(Exit.INTERRUPTED) from None
        finally:
            _publish_waiting()


def _publish_waiting() -> None:
    """Wait until the command's commits are published."""
    from airflow_provider_segtable.table.background import OF_THIS_PROCESS

    OF_THIS_PROCESS.flush()


def prepared(command: Any, *, below: bool = True) -> Any:
    """Let a command, and those below it, show its help from the table of commands.

    Its prose is wrapped at the width that there is, and flags, which take no value, show no type.
    """
    for each in _commands(command) if below else (command,):
        each.help = flowing(each.help or "")
        each.format_help = _write_help
        each.get_params = with_plain_values(each.get_params)
        for parameter in each.params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
    return command


def _write_help(ctx: Any, formatter: Any) -> None:
    words = list[str]()
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    formatter.write(help_for(command_at(words), sys.stdout))


def _commands(command: Any) -> Iterator[Any]:
    """Yield a command and those below it."""
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def flowing(text: str) -> str:
    """Join the lines of each paragraph of prose; examples and lists keep their lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        each
        if re.match(r"\[green\]", each) or re.search(r"^ ", each, re.MULTILINE)
        else " ".join(each.split("\n"))
        for each in paragraphs
    )
