"""A new user's first hour: the built wheel in a fresh environment, and README's own example.

1. The wheel is installed into an empty environment by pip, without a network. What the wheel needs
   is lent by the environment of the tests afterwards; the wheel's own package comes first.
2. README's blocks run as they stand and in their order, ``bash`` by bash and ``python`` by the
   environment's interpreter, in one empty folder.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import discover, stop_background

ROOT = Path(__file__).parents[2]
TRY_IT = (ROOT / "README.md").read_text().partition("## Try it")[2].partition("\n## ")[0]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 400.0  # of a whole block, on a busy machine

OPENED = """
import sys
from airflow_provider_segtable import Table
from airflow_provider_segtable.core.tables.evolution import AddColumn
trips = Table.open("trips", zookeeper=sys.argv[1])
"""
# A step a line, and what it prints. README leaves four rows: Soho at 12.5 and 21.0, twice.
STEPS = [
    ("trips.update({'fare': 0.0}, where='fare > 20')", ""),
    ("print(trips.scan(where='fare = 0').count())", "2"),
    ("trips.alter(columns=[AddColumn(name='note', type='string')])", ""),
    ("print(trips.scan(where='note is null').count())", "4"),
    ("trips.tag('kept')", ""),
    ("day = trips.scan(interval='2026-01-05/2026-01-06').to_arrow()", ""),
    ("trips.overwrite(day.slice(0, 1), interval='2026-01-05/2026-01-06')", ""),
    ("print(trips.scan().count())", "3"),
    ("trips.delete('fare = 0')", ""),
    ("print(trips.scan().count(), trips.scan(tag='kept').count())", "1 4"),
]

pytestmark = [pytest.mark.slow, pytest.mark.zookeeper]


@dataclass(frozen=True)
class Desk:
    """Where the user works: a fresh environment, and a folder."""

    programs: Path
    folder: Path

    @property
    def home(self) -> Path:
        """Return where segtable keeps its embedded ZooKeeper."""
        return self.folder / "home"

    def run(self, *command: str) -> str:
        """Run a command that must end well; return what it prints."""
        path = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**kept, "PATH": path, "SEGTABLE_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Install the wheel into a fresh environment; end the ZooKeeper that the user leaves."""
    place = tmp_path_factory.mktemp("desk")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place))
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", str(place / "env")), check=True)
    programs = place / "env" / "bin"
    into = (sys.executable, "-m", "pip", "--python", str(programs / "python"))
    alone = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    subprocess.run((*into, "install", *alone, str(wheel)), check=True)
    (site,) = place.glob("env/lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib"))
    user = Desk(programs=programs, folder=place / "work")
    user.folder.mkdir()
    yield user
    stop_background(user.home / "zookeeper")


@pytest.fixture(scope="module")
def told(desk: Desk) -> dict[str, str]:
    """Run README's example; return what its last block of each language prints."""
    run = {"bash": ("bash", "-euo", "pipefail", "-c"), "python": ("python", "-c")}
    return {language: desk.run(*run[language], text) for language, text in BLOCK.findall(TRY_IT)}


def test_the_wheel_is_what_runs(desk: Desk) -> None:
    """The fresh environment has the package and the command of the wheel, not of this tree."""
    where = desk.run("python", "-c", "import airflow_provider_segtable as s; print(s.__file__)")
    assert Path(where.strip()).is_relative_to(desk.programs.parent)
    assert (desk.programs / "segtable").exists()


def test_the_example_of_the_readme_works(told: dict[str, str]) -> None:
    """Shell and Python blocks end well, and every library sees the rows that were not deleted."""
    assert "Camden" not in told["python"]
    assert told["python"].count("Soho") == 4 + 4 + 1  # pandas, Polars, one group in DuckDB
    assert told["python"].splitlines()[-1] == "6"


def test_the_table_can_be_changed_on(desk: Desk, told: dict[str, str]) -> None:
    """What README leaves out works from the wheel, too, and leaves the table sound."""
    assert told
    program = "\n".join([OPENED, *(call for call, _ in STEPS)])
    expected = [shown for _, shown in STEPS if shown]
    assert desk.run("python", "-c", program, address(desk)).splitlines() == expected
    desk.run("segtable", "clean", "trips")
    verified = desk.run("segtable", "verify", "trips", "--deep", "--json")
    assert json.loads(verified)["findings"] == []


def address(desk: Desk) -> str:
    found = discover(desk.home / "zookeeper")
    assert found
    return found
