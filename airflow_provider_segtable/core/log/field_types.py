"""Compare the fields of decoded values with their declared types.

An event file with a valid checksum may still be wrong: written by hand, or by a program with a
fault. ``misfit`` names the field, so that no reader ends in the middle of a sum. Checks are made
once per type; abstract types (``TableKind``, ``Plan``) are checked as the value's own type.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Check = Callable[[Any], str]
"""Returns where a value does not have its type; empty if it has."""


def misfit(value: object) -> str:
    """Return the first field of a dataclass that has another type, and its value; empty if none."""
    kind: Any = type(value)
    return _of_type(kind)(value)


@lru_cache(maxsize=512)
def _of_type(kind: Any) -> Check:
    """Return the check of all fields of a dataclass."""
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]
    plain = [name for name in names if hints[name] in (int, str, bool, bytes)]
    wanted = tuple(hints[name] for name in plain)
    values = attrgetter(*plain, *plain[:1]) if plain else None  # always a tuple
    checks = [(name, _check(hints[name])) for name in names]
    others = [each for each in checks if each[0] not in plain]

    def check(value: Any) -> str:
        fit = values is None or tuple(map(type, values(value)))[:-1] == wanted
        for name, fits in others if fit else checks:
            if found := fits(getattr(value, name)):
                return f"{name}{found}"
        return ""

    return check


def _check(hint: Any) -> Check:
    """Return the check of values of a type."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_check(each) for each in inside])
    if origin is tuple:
        return _each(inside[0]) if inside[1:] == (...,) else _row(inside)
    if origin is frozenset:
        return _each(inside[0], frozenset)
    if origin is not None and issubclass(origin, Mapping):
        return _entries(*inside)
    return _plain(hint)


def _plain(hint: Any) -> Check:
    if hint is Any or not isinstance(hint, type):
        return lambda _: ""
    if is_dataclass(hint) or getattr(hint, "_is_protocol", False):
        return _dataclass(hint)
    if hint is float:
        return _one_of(int, float)
    return _one_of(hint)


def _dataclass(hint: type) -> Check:
    protocol = getattr(hint, "_is_protocol", False)
    concrete = hint if not protocol else object

    def check(value: Any) -> str:
        kind: Any = type(value)
        if not isinstance(value, concrete) or not hasattr(kind, "__dataclass_fields__"):
            return f" is a {kind.__name__}"  # no value: that of a whole segment says less
        found = _of_type(kind)(value)
        return f".{found}" if found else ""

    return check


def _one_of(*kinds: type) -> Check:
    exact = not any(issubclass(kind, Enum) for kind in kinds)

    def check(value: Any) -> str:
        fits = type(value) in kinds if exact else isinstance(value, kinds)
        return "" if fits or (value is None and NoneType in kinds) else f" = {value!r}"

    return check


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any) -> str:
        wrong = ""
        for each in checks:
            found = each(value)
            if not found:
                return ""
            wrong = wrong or found
        return wrong

    return check


def _each(inside: Any, kind: Any = tuple) -> Check:
    one = _check(inside)

    def check(value: Any) -> str:
        if type(value) is not kind:
            return f" = {value!r}"
        for at, item in enumerate(value):
            if found := one(item):
                return f"[{at}]{found}"
        return ""

    return check


def _row(inside: tuple[Any, ...]) -> Check:
    checks = [_check(each) for each in inside]

    def check(value: Any) -> str:
        if type(value) is not tuple or len(value) != len(checks):
            return f" = {value!r}"
        return next((f for one, item in zip(checks, value, strict=True) if (f := one(item))), "")

    return check


def _entries(key: Any, item: Any) -> Check:
    keys, items = _check(key), _check(item)

    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return f" = {value!r}"
        for name, each in value.items():
            if found := keys(name) or items(each):
                return f"[{name!r}]{found}"
        return ""

    return check
