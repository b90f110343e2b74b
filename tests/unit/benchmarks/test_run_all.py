"""The runner of all benchmarks: it knows each, and leaves no process behind."""

import sys
from pathlib import Path

import psutil
import pytest

from tests.airflow.waiting import eventually

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return the module, which is imported as its neighbours import each other."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run_all

    return run_all


def test_each_command_is_run_or_left_out_with_a_reason(runner: object) -> None:
    """A new benchmark is in the table, or says why it is not."""
    commands = {
        path.stem for path in BENCHMARKS.glob("*.py") if '"--quick"' in path.read_text()
    } - {"run_all"}
    run = [*runner.BENCHMARKS]  # type: ignore[attr-defined]
    assert {*(each.name for each in run), *runner.LEFT_OUT} == commands  # type: ignore[attr-defined]
    assert len(run) == len({each.title for each in run})


def test_a_benchmark_that_does_not_end_is_ended_with_all_it_started(
    runner: object, tmp_path: Path
) -> None:
    """Its servers end, too; what it printed until then is kept."""
    child = "import time; time.sleep(60)"
    program = (
        "import subprocess, sys, time\n"
        f"one = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(one.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"
    ended = runner.ended([sys.executable, "-c", program], log, 1.0)  # type: ignore[attr-defined]
    assert ended is None
    eventually(lambda: _has_ended(int(log.read_text())) or None, "the end of a killed process")


def _has_ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_an_exit_code_is_returned(runner: object, tmp_path: Path) -> None:
    """A benchmark that fails is told from one that ends well."""
    for code in (0, 3):
        command = [sys.executable, "-c", f"raise SystemExit({code})"]
        assert runner.ended(command, tmp_path / "log", 30.0) == code  # type: ignore[attr-defined]
