"""Each benchmark still runs, with little to do: what it prints then is no measurement."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TIMEOUT_S = 300
QUICK = sorted(path.stem for path in BENCHMARKS.glob("*.py") if '"--quick"' in path.read_text())


def test_every_command_has_a_quick_form() -> None:
    """A benchmark that is a command of its own can be run by the test below."""
    commands = {
        path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()
    } - set(QUICK)
    assert not commands


@pytest.mark.parametrize("name", QUICK)
def test_benchmark_runs(name: str, tmp_path: Path) -> None:
    """With ``--quick`` it ends well and prints something."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
