"""The runbook: its commands work as they stand, and it names every finding there is."""

import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq

from tests.architecture.tree import PACKAGE
from tests.unit.cli.conftest import Run, trips

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "runbook.md"
SOURCES = (
    "core/recovery/damage_findings.py",
    "data/parquet/checksums/inspection.py",
    "planning/findings/health_findings.py",
    "health/doctor.py",
)
CODE = re.compile(r'(?:code=|Problem\(|_say\()"([a-z-]+)"|else "([a-z]+-[a-z-]+)"')


def test_the_examples_of_the_runbook_work(run: Run, tmp_path: Path) -> None:
    """Every command ends well on a table that is well."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    made = run("table", "create", "trips", "--like", "trips.parquet", "--time", "at")
    assert made.exit_code == 0
    assert run("ingest", "trips", "trips.parquet").exit_code == 0
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    assert len(commands) == 4
    for command in commands:
        result = run(*shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}: {result.stdout}{result.stderr}"


def test_every_finding_is_in_the_runbook() -> None:
    """No code of verify or doctor is without its line."""
    text = PAGE.read_text()
    codes = {
        code
        for name in SOURCES
        for found in CODE.findall((PACKAGE / name).read_text())
        for code in found
        if code
    }
    assert {"bad-footer", "unsorted", "orphans", "unread", "log-gap", "old-wait"} <= codes
    assert not {code for code in codes if f"`{code}`" not in text}
