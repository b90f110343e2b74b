"""Completion of commands, options, choices and tables for shells, from the table of commands.

1. The scripts that ``segtable --install-completion`` installs call ``segtable`` at each TAB, with
   ``_SEGTABLE_COMPLETE=complete_SHELL`` and the words so far in further variables. They are
   Typer's, and so is the form of the answers: one candidate a line, or a call of ``_arguments``.
2. After a word that takes a value come its choices. After ``-`` come the options that are not
   given yet; in a group its commands; at an argument TABLE the folders that hold a table.
3. An empty answer leaves the word to the shell, which offers files.
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_segtable.cli.display.command_table import (
    Parameter,
    Place,
    follow,
    names,
    parameters,
)
from airflow_provider_segtable.cli.display.help_page import Styled, first_paragraph

VARIABLE = "_SEGTABLE_COMPLETE"


class Candidate(NamedTuple):
    """A word that may stand here, and a line about it."""

    word: str
    about: str = ""


def completed(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the answer to a shell and the exit code; None if no completion is asked for.

    Unknown shells and the scripts themselves (``source_SHELL``) are left to Typer.
    """
    shell = environment.get(VARIABLE, "").removeprefix("complete_")
    if environment.get(VARIABLE, "") == shell or shell not in _SHELLS:
        return None
    words, begun = _words(shell, environment)
    found = candidates(words, begun)
    if shell == "fish" and environment.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    return _SHELLS[shell](found), 0


def candidates(words: Sequence[str], begun: str) -> list[Candidate]:
    """Return the words that may come after ``words``, and begin as ``begun`` does."""
    place = follow(words)
    if not place.is_known or place.asks_help:
        return []
    return [each for each in _all(place, begun) if each.word.startswith(begun)]


def _all(place: Place, begun: str) -> Iterable[Candidate]:
    if place.waiting is not None:
        return (Candidate(word) for word in place.waiting.get("choices", ()))
    if begun.startswith("-") and place.options:
        return _options(place)
    if "commands" in place.command:
        below = place.command["commands"]
        return (Candidate(name, first_paragraph(each)) for name, each in below.items())
    arguments = [each for each in parameters(place.command) if "name" in each]
    is_table = place.arguments < len(arguments) and arguments[place.arguments]["name"] == "TABLE"
    return _tables(begun) if is_table else ()


def _options(place: Place) -> Iterable[Candidate]:
    for each in parameters(place.command):
        if each.get("repeats") or not place.used & {*names(each)}:
            about = _plain(each)
            yield from (Candidate(name, about) for name in (*each.get("long", ()), *_off(each)))


def _off(option: Parameter) -> Sequence[str]:
    return [name for name in option.get("off", ()) if name.startswith("--")]


def _plain(option: Parameter) -> str:
    return Styled.of_markup(option.get("help", "")).text


def _tables(begun: str) -> Iterable[Candidate]:
    """Yield the folders beside a begun path that hold a table."""
    folder = begun.rpartition("/")[0] + "/" if "/" in begun else ""
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111
            here = sorted(each.name for each in entries if each.is_dir())
    except OSError:
        return
    for name in here:
        path = os.path.expanduser(f"{folder}{name}")  # noqa: PTH111 - pathlib takes time
        if os.path.isdir(f"{path}/_segtable"):  # noqa: PTH112
            yield Candidate(f"{folder}{name}")


# What shells send and take
def _words(shell: str, environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the whole words without the program's name, and the one that has begun."""
    if shell == "bash":
        words = _split(environment.get("COMP_WORDS", ""))
        at = int(environment.get("COMP_CWORD", "0"))
        return _joined(words[1:at]), words[at] if at < len(words) else ""
    line = environment.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if shell in {"powershell", "pwsh"}:
        begun = environment.get("_TYPER_COMPLETE_WORD_TO_COMPLETE", "")
        return (words[:-1] if begun else words), begun
    return (words[:-1], words[-1]) if words and not line.endswith(" ") else (words, "")


def _joined(words: Sequence[str]) -> list[str]:
    """Return words without the ``=`` that bash makes a word of its own."""
    return [word for word in words if word != "="]


def _split(line: str) -> list[str]:
    """Split as a shell does, also where a quotation is not closed yet."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _bash(found: Iterable[Candidate]) -> str:
    return "\n".join(each.word for each in found)


def _zsh(found: Sequence[Candidate]) -> str:
    def escaped(text: str) -> str:
        for letter, by in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", r"\\:")):
            text = text.replace(letter, by)
        return text

    def one(each: Candidate) -> str:
        about = f':"{escaped(each.about)}"' if each.about else ""
        return f'"{escaped(each.word)}"{about}'

    lines = "\n".join(one(each) for each in found)
    return f"_arguments '*: :(({lines}))'" if found else "_files"


def _fish(found: Iterable[Candidate]) -> str:
    return "\n".join(f"{each.word}\t{each.about}" if each.about else each.word for each in found)


def _powershell(found: Iterable[Candidate]) -> str:
    return "\n".join(f"{each.word}:::{each.about or ' '}" for each in found)


_SHELLS = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
    "powershell": _powershell,
    "pwsh": _powershell,
}
