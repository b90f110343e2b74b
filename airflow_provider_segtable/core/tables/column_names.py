"""Names of columns: which ones a table can have, and lists of them in one text.

1. A name is not empty, begins and ends without a space, is not ``*`` (all columns), and does not
   begin like hidden columns. A table of an earlier segtable may have another one: it is renamed.
2. In a list names are separated by commas. A name with a comma or parentheses is written in double
   quotes, in which ``""`` is a quote: ``carrier,"price, net"``.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from airflow_provider_segtable.core.errors import InvalidName, SchemaMismatch
from airflow_provider_segtable.core.tables.metric import HIDDEN

ALL = "*"
"""Stands for all columns in a list."""


def check_name(name: str) -> None:
    """Refuse a name that a new column cannot have.

    Raises:
        InvalidName: with the name and the reason.
    """
    if not name or name != name.strip() or name.startswith(HIDDEN):
        raise InvalidName(f"column name {name!r} is empty or reserved: choose another")
    if name == ALL:
        raise InvalidName(f"column name {name!r} stands for all columns in reads: choose another")


def no_column(
    name: str, known: Iterable[str], use: str = "", of: str = "the table"
) -> SchemaMismatch:
    """Return the error for a column that is not there.

    Args:
        name: the name.
        known: the columns that are there.
        use: what the column was named for, e.g. ``to set``.
        of: what has the columns.
    """
    names = list(known)
    for_use = f" {use}" if use else ""
    return SchemaMismatch(
        f"there is no column {name!r}{for_use}: {did_you_mean(name, names)}{of} has "
        f"{', '.join(names)}"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question for the known name that is nearest to another one; empty if none is."""
    lower = {each.lower(): each for each in reversed([*known])}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.75)
    return f"did you mean {lower[near[0]]!r}? " if near else ""


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list, stripped; an empty text has one empty name."""
    return tuple(map(unquoted, split_outside(text, ",")))


def split_outside(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are not in quotes."""
    parts, start, quoted = [], 0, False
    for at, char in enumerate(text):
        if char == '"' and (quoted or not text[start:at].strip(" =") or text[at - 1] == "="):
            quoted = not quoted
        elif char == separator and not quoted:
            parts.append(text[start:at])
            start = at + 1
    if quoted:  # the quote is a part of a name
        return text.split(separator)
    return [*parts, text[start:]]


def unquoted(name: str) -> str:
    """Return a name of a list, stripped and without its quotes."""
    name = name.strip()
    inside = re.fullmatch(r'"((?:[^"]|"")+)"', name)
    return inside[1].replace('""', '"') if inside else name


def joined_names(names: Iterable[str]) -> str:
    """Return the list of names that ``split_names`` reads."""
    return ",".join(
        '"' + name.replace('"', '""') + '"' if re.search(r'[,()]|^"', name) else name
        for name in names
    )
