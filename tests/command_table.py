"""The table of commands that help and completion are answered from, made from the commands.

    python -m tests.command_table

``tests/unit/cli/test_command_table.py`` compares the committed table with the commands.
"""

import json
from collections.abc import Iterator
from enum import EnumType
from typing import Any, get_args

import typer.main

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.cli.display.command_table import FILE


def command_table() -> dict[str, Any]:
    """Return the entry of ``segtable``, with those of all commands below it."""
    return _entry(typer.main.get_command(app), None, "segtable")


def table_text() -> str:
    """Return the file of the table."""
    return json.dumps(command_table(), indent=1, ensure_ascii=False) + "\n"


def _entry(command: Any, parent: Any, name: str) -> dict[str, Any]:
    context = command.context_class(
        command, parent=parent, info_name=name, **command.context_settings
    )
    below = getattr(command, "commands", {})
    return _filled(
        usage=command.get_usage(context).removeprefix("Usage: "),
        help=command.help,
        epilog=command.epilog,
        panels=[*_panels(command, context)],
        commands={inner: _entry(each, context, inner) for inner, each in below.items()},
    )


def _filled(**entries: Any) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if value}


def _panels(command: Any, context: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield titles with parameters: arguments, options, then those with a title of their own."""
    found: dict[str, list[dict[str, Any]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(context):
        if not each.hidden:
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            title = each.rich_help_panel if hasattr(each, "rich_help_panel") else None
            found.setdefault(title or usual, []).append(_parameter(each, context))
    yield from ((title, rows) for title, rows in found.items() if rows)


def _parameter(each: Any, context: Any) -> dict[str, Any]:
    is_argument = each.param_type_name == "argument"
    name = each.metavar or (each.display_name_raw if is_argument else "")
    flag = getattr(each, "is_flag", False)
    return _filled(
        name=f"{name}..." if is_argument and each.nargs != 1 else name if is_argument else "",
        long=[] if is_argument else [n for n in each.opts if n.startswith("--")],
        short=[] if is_argument else [n for n in each.opts if not n.startswith("--")],
        off=each.secondary_opts,
        type="" if flag or is_argument else _type(each, context),
        help=" ".join((each.help or "").split("\n")),
        notes=[*_notes(each, context)],
        required=each.required,
        value=not (is_argument or flag),
        choices=[*_choices(each.type_descriptor.annotation)],
        repeats=getattr(each, "multiple", False),
    )


def _choices(kind: Any) -> Iterator[str]:
    """Yield the values of an enumeration, also of one that may be left out or repeated."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, EnumType):
            yield from (str(member.value) for member in each)


def _type(each: Any, context: Any) -> str:
    shown = each.display_type_rich(ctx=context) or ""
    limits = each._get_number_range_help_str()
    return f"{shown} [{limits}]" if limits else shown


def _notes(each: Any, context: Any) -> Iterator[str]:
    """Yield the variable, the default and the need of a parameter, as they are shown."""
    if each.envvar and each.show_envvar:
        yield f"[env var: {each.envvar}]"
    default = each._extract_default_help_str(ctx=context)
    if default is not None and each.show_default:
        shown = each._get_default_string(
            ctx=context, show_default_is_str=False, default_value=default
        )
        if shown:
            yield f"[default: {shown}]"
    if each.required:
        yield "[required]"


if __name__ == "__main__":
    FILE.write_text(table_text(), "utf-8")
