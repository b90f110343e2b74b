"""Where the keys of a TOML file are, so that a message about a value can name its line.

``tomllib`` gives values without their lines. A header or a key is one line, and is parsed by
``tomllib`` itself, so quotes and dots need no rules of ours. Lines that begin no key are skipped;
those inside a text of several lines may be taken for keys, after the real one of that name.
"""

import tomllib
from collections.abc import Mapping
from typing import Any

Key = tuple[str, ...]


class TomlLines:
    """The lines of the keys of one text, counted from 1."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Key, int] = {}
        header: Key = ()
        for number, line in enumerate(text.splitlines(), start=1):
            found = _header(line)
            if found is not None:
                header = found
                self._add(header, number)
            elif (key := _key(line)) is not None:
                self._add((*header, *key), number)

    def _add(self, key: Key, number: int) -> None:
        for end in range(1, len(key) + 1):
            self._lines.setdefault(key[:end], number)

    def of(self, key: Key) -> int:
        """Return the line of a key, or of the nearest one that holds it; 1 if none does."""
        ends = range(len(key), 0, -1)
        return next((self._lines[key[:end]] for end in ends if key[:end] in self._lines), 1)


def _header(line: str) -> Key | None:
    text = line.strip()
    if not text.startswith("["):
        return None
    return _path(text)


def _key(line: str) -> Key | None:
    ends = (at for at, char in enumerate(line) if char == "=")  # one may be inside quotes
    return next((found for at in ends if (found := _path(f"{line[:at]} = 0"))), None)


def _path(text: str) -> Key | None:
    """Return the one path of names in a parsed line."""
    try:
        inside: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    found: list[str] = []
    while isinstance(inside, Mapping) and len(inside) == 1:
        name, inside = next(iter(inside.items()))
        found.append(name)
    return tuple(found) or None
