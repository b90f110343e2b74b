"""Checks of external texts that become command arguments.

1. An argument is ``--name=value`` in one piece, so a value that begins with ``-`` is no option.
2. Commands are lists, never shell lines. Control characters are still refused: a NUL would end an
   argument early, and a line break in a name would forge a line of a log. Only SQL may contain
   line breaks and tabs.
3. A refusal names the value and the way out, before any process starts.
"""

import argparse
import math
import re

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import redacted

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_CONTROL_IN_SQL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PLAN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_SHOWN = 80


def option(name: str, value: str, *, sql: bool = False) -> str:
    """Return the argument ``--name=value``.

    Raises:
        InvalidInput: if the value contains control characters.
    """
    return f"--{name}={plain(name, value, sql=sql)}"


def plain(title: str, value: str, *, sql: bool = False) -> str:
    """Return a text after checking it for control characters.

    Args:
        title: the value's name, for messages.
        value: the text.
        sql: whether line breaks and tabs are allowed.

    Raises:
        InvalidInput: if the value is no text, or contains control characters.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{title} = {shown(value)} is a {type(value).__name__}: give a text")
    found = (_CONTROL_IN_SQL if sql else _CONTROL).search(value)
    if found:
        raise InvalidInput(
            f"{title} = {shown(value)} holds the control character {found[0]!r} at "
            f"{found.start()}: take it out"
        )
    return value


def plan_id_of(value: object) -> str:
    """Return a value after checking that it has the form of a plan id.

    Raises:
        InvalidInput: if it has another form.
    """
    if not isinstance(value, str) or not _PLAN_ID.fullmatch(value):
        raise InvalidInput(
            f"plan {shown(value)} is not a plan id: ids are letters, digits, '.', '_' and '-', and "
            "begin with a letter; `segtable plan` and the table's log name them"
        )
    return value


def seconds(title: str, value: float) -> float:
    """Return a number of seconds after checking it.

    Raises:
        InvalidInput: if it is no number, negative or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{title} = {shown(value)} is not a number of seconds: write e.g. 60")
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInput(f"{title} = {value} is not a waiting time: give 0 or more seconds")
    return float(value)


def shown(value: object) -> str:
    """Return a refused value for a message: redacted and shortened."""
    text = repr(redacted(value) if isinstance(value, str) else value)
    return redacted(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def pair(text: str) -> tuple[str, str]:
    """Parse ``KEY=VALUE``, as a type of ``argparse``."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value
