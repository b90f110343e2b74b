"""The table of all commands: their help, options and arguments, as data.

1. ``commands.json`` is made from the commands themselves (``make commands``), and a test compares
   both. So help and completion need neither the modules of the commands nor Typer.
2. A command is a mapping: ``usage``, ``help``, ``epilog``, ``panels`` (a title with parameters)
   and, of a group, ``commands``. Empty entries are left out.
3. A parameter has ``long``, ``short`` and ``off`` names, a ``type`` to show, ``help``, ``notes``
   behind it; ``required``; ``value`` if an option takes one, ``choices``, ``repeats``. An argument
   has a ``name`` instead of ``long`` and ``short``.
4. ``follow`` reads words as the parser does, as far as it needs no values: a word that is unknown
   ends it, and leaves the answer to the parser.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Command: TypeAlias = dict[str, Any]
Parameter: TypeAlias = dict[str, Any]
FILE = Path(__file__).with_name("commands.json")
HELP_NAMES = ("--help", "-h")


def load_commands() -> Command:
    """Return the command itself, with all others below it."""
    found: Command = json.loads(FILE.read_text("utf-8"))
    return found


def command_at(words: Sequence[str]) -> Command:
    """Return the command of these words, without the first, ``segtable``."""
    found = load_commands()
    for word in words:
        found = found["commands"][word]
    return found


def parameters(command: Command) -> Iterator[Parameter]:
    """Yield the arguments and options of a command, in the order of its help."""
    for _, rows in command.get("panels", ()):
        yield from rows


def names(option: Parameter) -> tuple[str, ...]:
    """Return all names of an option."""
    return (*option.get("long", ()), *option.get("short", ()), *option.get("off", ()))


class Place:
    """Where words have led: a command, and what the next word may be."""

    __slots__ = ("arguments", "asks_help", "command", "is_known", "options", "used", "waiting")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.is_known = True
        self.asks_help = False
        self.arguments = 0
        self.options = True
        self.used: set[str] = set()
        self.waiting: Parameter | None = None

    def take(self, word: str) -> None:
        """Go on by a word."""
        if self.waiting is not None:
            self.waiting = None
        elif word == "--" and self.options:
            self.options = False
        elif word.startswith("-") and len(word) > 1 and self.options:
            self._take_option(word)
        elif "commands" in self.command:
            self._take_command(word)
        else:
            self.arguments += 1

    def _take_option(self, word: str) -> None:
        name, equals, _ = word.partition("=")
        option = next((each for each in parameters(self.command) if name in names(each)), None)
        if option is None:
            self.is_known = False
            return
        self.asks_help |= name in HELP_NAMES
        self.used.add(name)
        if option.get("value") and not equals:
            self.waiting = option

    def _take_command(self, word: str) -> None:
        if word not in self.command["commands"]:
            self.is_known = False
            return
        self.command, self.used = self.command["commands"][word], set()


def follow(words: Sequence[str]) -> Place:
    """Return where words lead; ``is_known`` is false where one of them is not in the table."""
    place = Place(load_commands())
    for word in words:
        place.take(word)
        if not place.is_known or place.asks_help:
            break
    return place
