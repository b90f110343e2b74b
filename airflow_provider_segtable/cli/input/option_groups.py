"""Options that several commands share, declared once as a dataclass.

1. ``@option_groups`` replaces a command's parameters whose types are dataclasses by one option for
   each of their fields.
2. The command gets the dataclass; Typer, and so ``--help``, sees the single options in its place.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its dataclass parameters as options."""
    groups: dict[str, type] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in _fields(kind)})
        command(**given)

    shown = signature(command).replace(parameters=parameters)
    run.__signature__ = shown  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _fields(kind: Any) -> Any:
    return fields(kind)


def _options(kind: type) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in _fields(kind)
    ]
