"""Turn segtable's errors into one line and an exit code."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from airflow_provider_segtable.cli.display.output import (
    Exit,
    error_facts,
    exit_code,
    note,
    print_error,
    print_json,
)
from airflow_provider_segtable.cli.input.options import JSON_WANTED
from airflow_provider_segtable.core.errors import SegtableError


class GuardedGroup(TyperGroup):
    """A command group that turns ``SegtableError`` and Ctrl-C into exit codes.

    Its help shows no type beside flags, which take no value, and wraps prose at the width that
    there is.
    """

    def __init__(self, **settings: Any) -> None:
        """Make the group, and prepare the help of all its commands."""
        super().__init__(**settings)
        for command in _commands(self):
            command.help = flowing(command.help or "")
            for each in command.params:
                if getattr(each, "is_flag", False):
                    each.metavar = ""

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
