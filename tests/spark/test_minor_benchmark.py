"""The benchmark itself works; its numbers are for people."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "minor.py"


@pytest.mark.long
@pytest.mark.spark
def test_the_benchmark_runs() -> None:
    """A quick run measures every way and checks every result's rows."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["files"], found["rows"], found["outputs"]) == (8, 320_000, 1)
    assert len(found["seconds"]) == 7
    assert all(seconds > 0 for seconds in found["seconds"].values())
