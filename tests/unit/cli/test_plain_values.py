"""Plain values of options are as Typer converts them, and Typer converts the others."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from airflow_provider_segtable.cli.input.plain_values import with_plain_values


class Colour(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


def application(*, plainly: bool) -> tuple[typer.Typer, Any, list[Any]]:
    """Return a command with a parameter of each kind, and the values that it got."""
    app, got = typer.Typer(add_completion=False), list[Any]()

    @app.command()
    def take(  # noqa: PLR0917 - one of each
        files: Annotated[list[Path] | None, typer.Argument()] = None,
        text: str = "x",
        number: Annotated[int | None, typer.Option(min=-1, max=9)] = None,
        share: float = 0.5,
        colour: Colour = Colour.RED,
        names: Annotated[list[str] | None, typer.Option("--name")] = None,
        colours: Annotated[list[Colour] | None, typer.Option("--paint")] = None,
        folder: Path | None = None,
        flag: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        got.append((files, text, number, share, colour, names, colours, folder, flag))

    command = typer.main.get_command(app)
    if plainly:
        command.get_params = with_plain_values(command.get_params)  # type: ignore[method-assign]
    return app, command, got


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--text y --number 3 --share 1 --colour blue --flag",
        "--number -1 --number 0009",
        "--number -2",
        "--number 10",
        "--number 1_0",
        "--number +3",
        "--number ٣",
        "--number 1.5",
        "--colour BLUE",
        "--colour green",
        "--name a --name b --paint red --paint blue",
        "--paint red --paint green",
        "--folder /tmp a b",
        "--share x",
    ],
)
def test_values_and_refusals_are_those_of_typer(words: str) -> None:
    """Values, their types, exit codes and messages are the same with and without the shortcut."""
    ends = []
    for plainly in (False, True):
        _, command, got = application(plainly=plainly)
        result = CliRunner().invoke(_Given(command), words.split())
        ends.append((got, [[type(each) for each in one] for one in got], result.exit_code))
        ends[-1] += (result.output,)
    assert ends[0] == ends[1]


class _Given(typer.Typer):
    """An application whose command is made already."""

    def __init__(self, command: Any) -> None:
        super().__init__()
        self.made = command


@pytest.fixture(autouse=True)
def _made_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.testing._get_command", lambda given: given.made)


def test_a_command_with_plain_values_imports_no_pydantic(tmp_path: Path) -> None:
    """A table that does not exist is looked for, and refused, without it."""
    code = (
        "import sys\n"
        "from airflow_provider_segtable.cli import main\n"
        "try:\n"
        f"    main(['table', 'scan', {str(tmp_path)!r}, '--limit', '3', '--format', 'csv'])\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, 'pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"], done.stderr
