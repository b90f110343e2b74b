"""Sizes and durations as people write them: ``200 GiB``, ``15m``.

A bare number has the unit that machines count in: bytes and seconds.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, MINUTE_US, SECOND_US

_FORM = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)")

SIZES: Mapping[str, int] = MappingProxyType(
    {"b": 1, **{f"{letter}ib": 1024**at for at, letter in enumerate("kmgtp", start=1)}}
)
"""Bytes of each unit, in lower case; decimal units are refused, since few mean them."""
DURATIONS: Mapping[str, int] = MappingProxyType(
    {"s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US, "w": 7 * DAY_US}
)
"""Microseconds of each unit."""


def parse_size(given: object) -> int:
    """Return a number of bytes.

    Raises:
        InvalidInput: it is neither a number nor a number with a unit; the message shows the form.
    """
    return round(_parsed(given, SIZES, "b", "a size: write e.g. 200 GiB, or a number of bytes"))


def parse_duration(given: object) -> int:
    """Return a duration in microseconds.

    Raises:
        InvalidInput: it is neither a number nor a number with a unit; the message shows the form.
    """
    form = "a duration: write e.g. 90s, 15m, 2h or 1d"
    return round(_parsed(given, DURATIONS, "s", form))


def describe_duration(us: float) -> str:
    """Return a duration in its largest unit, e.g. ``1.5 h``."""
    for unit in ("d", "h", "m"):
        if us >= DURATIONS[unit]:
            return f"{us / DURATIONS[unit]:.3g} {unit}"
    return f"{us / SECOND_US:.3g} s"


def _parsed(given: object, units: Mapping[str, int], bare: str, form: str) -> float:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise InvalidInput(f"{given!r} is not {form}")
    found = _FORM.fullmatch(str(given).strip())
    unit = units.get((found["unit"] or bare).lower()) if found else None
    if found is None or unit is None:
        raise InvalidInput(f"{given!r} is not {form}")
    return float(found["number"]) * unit
