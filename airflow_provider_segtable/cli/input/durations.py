"""Durations as people write them: ``90``, ``90s``, ``15m``, ``2h``."""

import re

from airflow_provider_segtable.core.errors import InvalidInput

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration that an option gives.

    Raises:
        InvalidInput: it is not a number with a unit.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"{option} {text!r} is not a duration: write e.g. 90s, 15m or 2h")
    number, unit = found.groups()
    return float(number) * _SECONDS[unit]
