"""The guide to compaction: its commands work as they stand, and lose no row."""

import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq

from tests.unit.cli.conftest import Run, trips
from tests.unit.cli.test_commands import Facts

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "compaction.md"


def test_the_examples_of_the_guide_work(run: Run, facts: Facts, tmp_path: Path) -> None:
    """Every command ends well, and the end holds the rows that were sent."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    pq.write_table(trips(24), tmp_path / "more.parquet")
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    assert len(commands) > 10
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "segtable"
        result = run(*arguments)
        assert result.exit_code == 0, f"{command}: {result.stdout}{result.stderr}"
    assert facts("table", "scan", "./trips", "--count")["rows"] == 72
    described = facts("table", "describe", "./trips")
    assert [override["granularity"] for override in described["zones"]] == ["month"]
    assert described["counts"]["segments"] == 1
