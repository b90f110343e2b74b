"""The benchmarks that compare ways on Spark work; their numbers are for people."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [pytest.mark.long, pytest.mark.spark]


def printed(name: str) -> str:
    """Return the output of a quick run, which ends well."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_minor_compactions() -> None:
    """A quick run measures every way and checks every result's rows."""
    found = json.loads(printed("minor.py"))
    assert (found["files"], found["rows"], found["outputs"]) == (8, 320_000, 1)
    assert len(found["seconds"]) == 7
    assert all(seconds > 0 for seconds in found["seconds"].values())


def test_compactions_of_upserts() -> None:
    """A quick run measures every way and checks every result."""
    found = json.loads(printed("upsert_compaction.py"))["ways"]
    assert len(found) == 5
    assert all(way["seconds"] > 0 for way in found.values())


def test_sorting_and_rolling_up() -> None:
    """A quick run measures every way of both tasks and checks every result's rows."""
    found = json.loads(printed("sort_and_rollup.py").splitlines()[-1])
    assert {task: len(found[task]["seconds"]) for task in found} == {"sort": 7, "rollup": 5}
