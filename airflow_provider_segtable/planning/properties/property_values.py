"""Settings in a table's properties: read by the fields of a dataclass, refused by name.

1. Each field is a property ``<prefix>.<field>``. Its type is that of the field: whole numbers are
   ``int``, other numbers ``float``, words ``str``.
2. Unknown or malformed keys are refused, because a typo would silently select a default.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import did_you_mean

Value = int | float | str


def names_of(settings: type[Any], prefix: str) -> tuple[str, ...]:
    """Return the properties that a dataclass of settings has."""
    return tuple(f"{prefix}.{field.name}" for field in fields(settings))


def values_of(settings: type[Any], prefix: str, properties: Mapping[str, str]) -> dict[str, Value]:
    """Return the values that properties give to a dataclass of settings, by field.

    Args:
        settings: a dataclass whose fields are ``int``, ``float`` or ``str``.
        prefix: what its properties begin with; others are left to their readers.
        properties: a table's properties.

    Raises:
        InvalidInput: a property is unknown, or no number.
    """
    kinds = get_type_hints(settings)
    known = names_of(settings, prefix)
    given: dict[str, Value] = {}
    for key, text in properties.items():
        if not key.startswith(f"{prefix}."):
            continue
        if key not in known:
            raise InvalidInput(
                f"{key!r} is not a property: {did_you_mean(key, known)}known are {', '.join(known)}"
            )
        name = key.removeprefix(f"{prefix}.")
        given[name] = _value(key, text, kinds[name])
    return given


def _value(key: str, text: str, kind: type[Value]) -> Value:
    if kind is str:
        return text.strip()
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InvalidInput(f"property {key} = {text!r} is not {what}") from None
