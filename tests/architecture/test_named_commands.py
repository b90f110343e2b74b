"""Each command that a message or a document names exists, with the options that it is named with.

1. A command is ``segtable``, words, and then what no prose has: an option, a place (``TABLE``,
   ``./trips``), or the end of a piece of code in a document. Before a value of the message, the
   first word has to be a command's, or an option follows.
2. Its words have to lead to a command of the application; a word more than that is an argument, if
   the command takes one. Each option up to the end of the command has to be one of it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from airflow_provider_segtable.cli.app import app
from tests.architecture.test_messages import messages
from tests.architecture.tree import modules, named

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMAND = re.compile(
    r"(?<![\w/.-])segtable((?: [a-z][a-z-]*)+)"
    r"(?= (?:TABLE|NAME|\{\}|--|\./|\[)|[`\]])"
    r"(?P<rest>[^`;\n]*)"
)
END = re.compile(r" (?:or|and|then|which|publishes|if|so|to|in|for)\b|[;:)]|, |\. |\.$|segtable ")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@cache
def application() -> Any:
    """Return the command line, a group of commands of typer's own click."""
    return typer.main.get_command(app)


def wrong_in(text: str) -> Iterator[str]:
    """Yield the commands in a text that do not exist."""
    for found in COMMAND.finditer(text):
        words = found[1].split()
        command, path = command_of(words)
        rest = END.split(found["rest"])[0]
        group = hasattr(command, "commands")
        if not path and "--" not in rest and found["rest"].startswith(" {}"):
            continue  # prose about a value
        if (group and (rest or not path)) or not takes(command, words[len(path) :]):
            yield f"segtable {' '.join(words)}"
            continue
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        unknown = [each for each in OPTION.findall(rest) if each not in {*known, "--help"}]
        if unknown:
            yield f"segtable {' '.join(path)} {' '.join(unknown)}"


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words lead to, and the words of its name."""
    command, path = application(), list[str]()
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command, path = inner, [*path, word]
    return command, path


def takes(command: Any, words: list[str]) -> bool:
    """Return whether a command takes as many arguments as there are words after its name."""
    if hasattr(command, "commands"):
        return not words
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    return len(words) <= len(arguments) or any(each.nargs < 0 for each in arguments)


def test_messages_name_commands_that_exist() -> None:
    """The way out in an error, a finding or a help text can be typed."""
    texts = {path: path.read_text() for path in modules()}
    assert not {
        f"{named(path)}:{line}": wrong
        for path, source in texts.items()
        if "segtable " in source
        for line, text in messages(ast.parse(source))
        for wrong in wrong_in(text)
    }


def test_documents_name_commands_that_exist() -> None:
    """A command that a guide names can be typed; the changelog may name what there was."""
    texts = {path: path.read_text() for path in DOCUMENTS if path.name != "CHANGELOG.md"}
    assert not {f"{path}": wrong for path, text in texts.items() for wrong in wrong_in(text)}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("run segtable request TABLE --kind major", ["segtable request"]),
        ("segtable compact {} --kinds major", ["segtable compact --kinds"]),
        ("segtable publish TABLE --format delta --full; or segtable table show ./t", None),
        ("segtable writes them; segtable that alone writes", []),
        ("`segtable doctor` and `segtable table describe TABLE`", []),
    ],
)
def test_commands_are_found(text: str, wrong: list[str] | None) -> None:
    """A command that does not exist, or lacks the option, is found; prose is none."""
    assert [*wrong_in(text)] == (["segtable table show"] if wrong is None else wrong)
