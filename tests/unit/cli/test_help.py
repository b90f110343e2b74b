"""Help as a new user reads it: every command shows itself at work, in plain words."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app

RIDDLES = re.compile(r"\b(whoever|nobody|somebody)\b")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, without those of groups."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield path
    for name, each in inner.items():
        yield from commands(each, (*path, name))


def test_every_command_explains_itself() -> None:
    """There is an example, no escaped bracket is left, and no option lacks its words."""
    everything = list(commands(typer.main.get_command(app)))
    assert len(everything) > 20
    for words in everything:
        told = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}).output
        command = " ".join(words)
        about, _, options = told.partition("─ Options")
        assert about.count(f"segtable {command}") > 1, f"{command}: usage, but no example"
        assert "\\[" not in told, command
        assert not RIDDLES.search(told), command
        for line in options.splitlines():
            if re.match(r"│ \*?\s+--\w", line):
                assert len(re.split(r"\s{2,}", line.strip("│* "))) > 1, f"{command}: {line}"
        flags = [line for line in options.splitlines() if "<bool>" in line]
        assert all("--help" in line for line in flags), f"{command}: a flag has no value"
        for line in about.splitlines():
            assert not line.startswith(" segtable") or len(line.rstrip()) < 80, line


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
