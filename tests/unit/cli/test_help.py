"""Help as a new user reads it: every command shows itself at work, in plain words."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from rich.text import Text
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.cli.guard import flowing

RIDDLES = re.compile(r"\b(whoever|nobody|somebody)\b")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words, without groups."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, each in inner.items():
        yield from commands(each, (*path, name))


EVERYTHING = list(commands(typer.main.get_command(app)))


def test_there_are_commands() -> None:
    """The commands are found in their groups."""
    assert len(EVERYTHING) > 20


@pytest.mark.parametrize(
    ("words", "shown"), [pytest.param(*each, id=" ".join(each[0])) for each in EVERYTHING]
)
def test_every_command_explains_itself(words: tuple[str, ...], shown: Any) -> None:
    """There is an example, no escaped bracket is left, and no option lacks its words."""
    told = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
    command = " ".join(words)
    about, _, options = told.partition("─ Options")
    assert about.count(f"segtable {command}") > 1, f"{command}: usage, but no example"
    assert "\\[" not in told, command
    assert "\u2026" not in told, f"{command}: a word is cut at 80 columns"
    assert not RIDDLES.search(told), command
    for line in options.splitlines():
        if re.match(r"│ \*? {1,5}--\w", line):
            assert len(re.split(r"\s{2,}", line.strip("│* "))) > 1, f"{command}: {line}"
    flags = [line for line in options.splitlines() if "<bool>" in line]
    assert all("--help" in line for line in flags), f"{command}: a flag has no value"
    examples = re.findall(r"^\[green\].*", shown.help, re.MULTILINE)
    assert all(len(Text.from_markup(line).plain) < 79 for line in examples), command


def test_prose_is_wrapped_by_the_terminal() -> None:
    """Lines of prose are joined; examples, lists and what belongs to an example keep theirs."""
    text = "Join\nlines.\n\n[green]segtable x[/]\n[green]segtable y[/]\n\nCodes:\n  0  done\n\na\nb"
    first, *others = flowing(text).split("\n\n")
    assert (first, others[-1]) == ("Join lines.", "a b")
    assert others[:2] == text.split("\n\n")[1:3]


def test_a_table_is_created_before_it_is_read() -> None:
    """The commands over a table come in the order in which they are needed."""
    told = CliRunner().invoke(app, ["table", "--help"], env={"COLUMNS": "120"}).output
    assert told.index("│ create") < told.index("│ scan") < told.index("│ drop")


def test_all_properties_are_in_the_help_of_the_command_that_sets_them() -> None:
    """Those of compaction, of retention and of indexes, with the form that names an index."""
    result = CliRunner().invoke(app, ["table", "set", "--help"], env={"COLUMNS": "400"})
    for key in ("compaction.indexes", "retention.hours", "index.NAME", "index.timeout_minutes"):
        assert key in result.output


def test_a_choice_that_is_none_is_named_with_those_that_are() -> None:
    """The message begins with the option and the value, without words of the parser's library."""
    told = CliRunner().invoke(app, ["table", "scan", "t", "--format", "tsv"]).output
    assert "'--format': 'tsv' is not one of 'table', 'csv', 'json'" in " ".join(told.split())
