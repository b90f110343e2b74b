"""The committed table of commands is that of the commands, and help and completion come from it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.cli import main
from airflow_provider_segtable.cli.completion import candidates, completed
from airflow_provider_segtable.cli.display.command_table import FILE, command_at, follow
from airflow_provider_segtable.cli.display.help_page import FRAME, Styled, help_page
from tests.command_table import table_text


def words_of(words: str, begun: str = "") -> list[str]:
    return [each.word for each in candidates(words.split(), begun)]


def test_the_table_is_that_of_the_commands() -> None:
    """Whatever the commands say of themselves is in the committed file."""
    assert FILE.read_text("utf-8") == table_text(), "run `make commands`"


@pytest.mark.parametrize(
    ("words", "code", "begins"),
    [
        ("--help", 0, " Usage: segtable [OPTIONS] COMMAND"),
        ("", 2, " Usage: segtable [OPTIONS] COMMAND"),
        ("table", 2, " Usage: segtable table [OPTIONS] COMMAND"),
        ("table scan trips --where --help -h", 0, " Usage: segtable table scan"),
    ],
)
def test_help_ends_with_its_exit_code(
    words: str, code: int, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help that is asked for ends with 0, a group without a command with 2."""
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == code
    assert capsys.readouterr().out.splitlines()[1].startswith(begins)


@pytest.mark.parametrize(
    "words",
    ["scan --help", "table scan --bogus --help", "table scan trips", "table scan --where --help"],
)
def test_other_words_are_left_to_the_parser(words: str) -> None:
    """An unknown word, a command that shall run, and a value like an option ask for no help."""
    place = follow(words.split())
    assert not (place.is_known and place.asks_help)


@pytest.mark.parametrize("width", [60, 80, 131])
def test_a_page_keeps_to_its_width(width: int) -> None:
    """No line of any page is longer, and every line of a frame is as long as the width."""
    for words in ((), ("table", "create"), ("index", "create"), ("table", "set"), ("compact",)):
        lines = help_page(command_at(words), width).splitlines()
        framed = [line for line in lines if line and line[0] in FRAME["utf"]]
        assert {len(line) for line in framed} == {width}, words
        assert all(len(line) <= width or line.startswith(" Usage") for line in lines), words


def test_colours_change_no_letter() -> None:
    """The page with colours is the page without, between the terminal's codes."""
    page = command_at(("clean",))
    coloured = help_page(page, 80, colours=True)
    assert "\33[1;36m--dry-run\33[0m" in coloured
    bare = "".join(part.partition("m")[2] for part in f"m{coloured}".split("\33["))
    assert bare == help_page(page, 80)


def test_markup_is_read_as_rich_reads_it() -> None:
    """A tag gives a style, an escaped bracket is a bracket."""
    styled = Styled.of_markup(r"a [green]date32\[day][/] b")
    assert styled.text == "a date32[day] b"
    assert styled.styles.count("green") == len("date32[day]")


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ("", "co", ["compact", "consumers"]),
        ("table", "s", ["set", "scan", "segments"]),
        (
            "table scan trips",
            "--c",
            ["--columns", "--consumer", "--changes", "--count", "--checksum"],
        ),
        ("table scan trips --count", "--cou", []),
        ("table create t --dimension a", "--dim", ["--dimension"]),
        ("table create t", "--no-h", ["--no-header"]),
        ("table scan --format", "", ["table", "csv", "json"]),
        ("table scan --where", "--", []),
        ("bogus", "", []),
    ],
)
def test_candidates(words: str, begun: str, expected: list[str]) -> None:
    """Commands, options that are not given yet, and choices, of those that begin so."""
    assert words_of(words, begun) == expected


def test_tables_are_candidates_where_a_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders with a log, here and below a begun path; not where other files are named."""
    for name in ("trips/_segtable", "lake/tolls/_segtable", "lake/raw", "text"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert words_of("table scan", "") == ["trips"]
    assert words_of("table scan --count", "lake/") == ["lake/tolls"]
    assert words_of("table scan", "lake/x") == []
    assert words_of("ingest trips", "") == []
    assert words_of("table scan", "nowhere/") == []


@pytest.mark.parametrize(
    ("shell", "variables", "answer"),
    [
        ("bash", {"COMP_WORDS": "segtable\ntable\ndr", "COMP_CWORD": "2"}, ("drop", 0)),
        (
            "bash",
            {"COMP_WORDS": "segtable\ntable\nscan\nt\n--format\n=\nc", "COMP_CWORD": "6"},
            ("csv", 0),
        ),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "segtable table scan t "}, ("_files", 0)),
        ("fish", {"_TYPER_COMPLETE_ARGS": "segtable table scan t --format c"}, ("csv", 0)),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "segtable ingest t ",
                "_TYPER_COMPLETE_FISH_ACTION": "is-args",
            },
            ("", 1),
        ),
        (
            "powershell",
            {
                "_TYPER_COMPLETE_ARGS": "segtable table scan t --format c",
                "_TYPER_COMPLETE_WORD_TO_COMPLETE": "c",
            },
            ("csv::: ", 0),
        ),
    ],
)
def test_shells_are_answered_in_their_form(
    shell: str, variables: dict[str, str], answer: tuple[str, int]
) -> None:
    """Each shell sends the line in its variables, and reads its own form of candidates."""
    assert completed({"_SEGTABLE_COMPLETE": f"complete_{shell}", **variables}) == answer


def test_zsh_is_told_about_each_candidate() -> None:
    """A candidate comes with its line, quoted for the shell."""
    sent = {"_SEGTABLE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "segtable table de"}
    answer, _ = completed(sent) or ("", 1)
    assert answer.startswith("_arguments '*: :((\"describe\":\"Show a table''s definition")


def test_scripts_and_unknown_shells_are_left_to_typer() -> None:
    """Typer writes the script that a shell sources."""
    assert completed({"_SEGTABLE_COMPLETE": "source_bash"}) is None
    assert completed({"_SEGTABLE_COMPLETE": "complete_csh"}) is None


def test_bash_completes_with_the_script_of_typer(tmp_path: Path) -> None:
    """The script that ``--show-completion`` prints offers commands in a real shell."""
    program = tmp_path / "segtable"
    run = "from airflow_provider_segtable.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{run}" "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = subprocess.run(
        ["segtable"],
        env={**environment, "_SEGTABLE_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    typed = "COMP_WORDS=(segtable table sc); COMP_CWORD=2; _segtable_completion segtable"
    shown = subprocess.run(
        ["bash", "--norc", "-c", f'{script}\n{typed}\necho "${{COMPREPLY[*]}}"'],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "scan\n"
