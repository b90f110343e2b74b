"""Turn segtable's errors into one line and an exit code."""

from typing import Any

import typer
from typer.core import TyperGroup

from airflow_provider_segtable.cli.display.output import error_facts, note, print_error, print_json
from airflow_provider_segtable.cli.exits import Exit, exit_code
from airflow_provider_segtable.cli.input.options import JSON_WANTED
from airflow_provider_segtable.core.errors import SegtableError


class GuardedGroup(TyperGroup):
    """A command group that turns ``SegtableError`` and Ctrl-C into exit codes."""

    def invoke(self, ctx: Any) -> Any:  # Typer keeps the type of its contexts to itself
        """Run the command; unexpected exceptions pass through, with their traceback."""
        try:
            return super().invoke(ctx)
        except SegtableError as error:
            print_error(error)
            if ctx.meta.get(JSON_WANTED):
                print_json(error_facts(error))
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(Exit.INTERRUPTED) from None
