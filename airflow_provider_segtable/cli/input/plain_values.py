"""Values of options that Typer need not convert.

1. Typer from 0.29 on converts values by pydantic, whose import takes as long as that of Typer.
   Most values need no conversion: none at all, a text for a text, digits for a whole number, a
   choice by its name.
2. Such a value is taken here. All others, and all that are refused, go to Typer as before: so its
   messages stay, and so does its meaning.
3. Earlier versions have no such converter, and nothing is replaced.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, get_args, get_origin

_NOT_PLAIN = object()


class PlainValues:
    """The converter of a parameter's values; Typer's own is made when it is first needed."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a value as the command gets it.

        Raises:
            BadParameter: it is none of the parameter's type (Typer's message).
        """
        several = param.multiple or param.nargs == -1
        found = _of_many(value, self.kind) if several else _plain(value, self.kind)
        if found is not _NOT_PLAIN and _in_range(found, param):
            return found
        param._runtime_param = None  # noqa: SLF001 - Typer makes its own then
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def with_plain_values(get_params: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Let the parameters of a command, its help option too, take plain values without Typer."""

    def parameters(ctx: Any) -> list[Any]:
        found = get_params(ctx)
        for each in found:
            _take_plain_values(each)
        return found

    return parameters


def _take_plain_values(parameter: Any) -> None:
    descriptor = getattr(parameter, "type_descriptor", None)
    given = getattr(descriptor, "parameter_info", None)
    own = any(getattr(given, name, None) for name in ("parser", "click_type"))
    if descriptor is None or own or getattr(parameter, "_runtime_param", "none") is not None:
        return
    parameter._runtime_param = PlainValues(descriptor.annotation)  # noqa: SLF001 - see rule 3


def _plain(value: Any, kind: Any) -> Any:
    """Return a value of a type, or that there is none without a conversion."""
    if value is None:
        return None
    if not isinstance(kind, type):
        return _NOT_PLAIN
    if type(value) is kind:
        return value
    if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    if issubclass(kind, Enum) and isinstance(value, str):
        return next((each for each in kind if each.value == value), _NOT_PLAIN)
    return _NOT_PLAIN


def _of_many(values: Any, kind: Any) -> Any:
    """Return the values of a repeated parameter; Typer gives an empty tuple for none."""
    if values is None:
        return ()
    if get_origin(kind) is not list or not isinstance(values, list | tuple):
        return _NOT_PLAIN
    found = [_plain(each, get_args(kind)[0]) for each in values]
    return _NOT_PLAIN if any(each is _NOT_PLAIN for each in found) else found


def _in_range(value: Any, parameter: Any) -> bool:
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if type(value) is not int:
        return value is None or (low is None and high is None)
    return (low is None or value >= low) and (high is None or value <= high)
