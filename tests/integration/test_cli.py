"""The command line as a user has it: processes, a real ZooKeeper, and the examples of its page.

The page has thirty commands. They run in this process, because each new one takes more than a
second to import what it needs; so do others of which the process is not the point.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.coordination.embedded_zookeeper import discover, stop_background

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "cli.md"
SEGTABLE = (sys.executable, "-c", "from airflow_provider_segtable.cli import main; main()")
TIMEOUT_S = 240.0

pytestmark = pytest.mark.zookeeper

Segtable = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own, and no ZooKeeper left in it."""
    home = tmp_path / "home"
    yield {**os.environ, "SEGTABLE_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    stop_background(home / "zookeeper")


@pytest.fixture
def segtable(tmp_path: Path, environment: dict[str, str]) -> Segtable:
    """Return what runs ``segtable`` in ``tmp_path``."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SEGTABLE, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run


@pytest.fixture
def here(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return what runs ``segtable`` in ``tmp_path``, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGTABLE_HOME", environment["SEGTABLE_HOME"])
    return lambda *arguments: CliRunner().invoke(app, arguments, catch_exceptions=False)


def _orders(folder: Path) -> None:
    for day, name in enumerate(("monday", "tuesday", "wednesday"), start=5):
        rows = [f"user {n},{n / 2},2026-01-{day:02d}T{n:02d}:00:00Z" for n in range(8)]
        (folder / f"{name}.csv").write_text("\n".join(["user,amount,at", *rows, ""]))


def _examples() -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


def test_the_examples_of_the_page_run_as_they_stand(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of docs/cli.md works, in order, and compaction keeps every row."""
    _orders(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGTABLE_HOME", environment["SEGTABLE_HOME"])
    examples = _examples()
    assert len(examples) > 10
    told, noted = {}, {}
    for _segtable, *arguments in examples:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        told[" ".join(arguments)] = done.stdout
        noted[" ".join(arguments)] = done.stderr
    twice = "ingest ./orders monday.csv tuesday.csv --commit-id first-days"
    assert noted[twice].count("appended before") == 2
    rows, checksum = told["table scan ./orders --checksum"].split()
    assert (rows, len(checksum)) == ("24", 16)
    assert "overshadowed" in told["table segments ./orders --all"]
    as_csv = "table scan ./orders --columns user,amount --interval 2026-01-05/2026-01-06"
    assert len(told[f"{as_csv} --format csv"].splitlines()) == 9


def test_zookeeper_in_the_foreground_ends_with_ctrl_c(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """It tells its address as JSON, is found while it runs, and leaves no server."""
    place = tmp_path / "own"
    with subprocess.Popen(
        [*SEGTABLE, "zookeeper", "start", "--dir", str(place), "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout
        facts = _document(server.stdout.readline, server)
        assert facts["running"]
        assert discover(place) == facts["address"]
        server.send_signal(signal.SIGINT)
        assert server.wait(TIMEOUT_S) == 0
    assert discover(place) is None


def _document(line: Callable[[], str], process: subprocess.Popen[str]) -> dict[str, object]:
    text = ""
    while process.poll() is None or text:
        text += line()
        try:
            found: dict[str, object] = json.loads(text)
        except ValueError:
            continue
        return found
    raise AssertionError("no JSON document came")


def test_the_background_server_is_started_once(
    segtable: Segtable, here: Callable[..., Result]
) -> None:
    """A second start finds the first process's; status and stop say what is."""
    first = segtable("zookeeper", "start", "--background", "--json")
    second = here("zookeeper", "start", "--background", "--json")
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert json.loads(here("zookeeper", "status", "--json").stdout)["running"]
    assert json.loads(here("zookeeper", "stop", "--json").stdout)["stopped"]
    gone = here("zookeeper", "status", "--json")
    assert (gone.exit_code, json.loads(gone.stdout)["running"]) == (3, False)


def test_output_in_a_pipe_has_no_colours_and_no_bars(
    segtable: Segtable, here: Callable[..., Result], tmp_path: Path
) -> None:
    """What a script captures is text."""
    _orders(tmp_path)
    assert here("zookeeper", "start", "--background").exit_code == 0
    assert here("table", "create", "orders", "--like", "monday.csv", "--time", "at").exit_code == 0
    appended = segtable("ingest", "orders", "monday.csv", "--json")
    assert appended.stderr == ""
    shown = segtable("table", "describe", "orders")
    assert "\x1b" not in shown.stdout + shown.stderr
    assert json.loads(appended.stdout)["appends"][0]["rows"] == 8
