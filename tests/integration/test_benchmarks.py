"""Each benchmark still runs, with little to do: what it prints then is no measurement."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TIMEOUT_S = 300
SOURCES = {path.stem: path.read_text() for path in sorted(BENCHMARKS.glob("*.py"))}
QUICK = [name for name, source in SOURCES.items() if '"--quick"' in source]
ON_SPARK = [name for name in QUICK if "spark.driver.session" in SOURCES[name]]
"""Each starts a JVM and asks many small queries, which takes minutes: in ``make test-long``."""
DEAR = ("fleet_beside_homemade", "fleet_latency", "indexing", "multi_writer", "upsert_compaction")
"""Each starts many processes, which takes as long as all others. What they share with others (the
ZooKeeper, writers as processes, rivals) runs in ``commits``, ``logstore`` and ``publish``; the real
Airflow of ``fleet_latency``, which plans and compacts after a commit, in ``tests/airflow``."""
LONG = [name for name in QUICK if name in (*ON_SPARK, *DEAR)]
WITHIN = "pruning"
"""The benchmark that ``run_all`` runs here; the others are run by themselves."""
SOME = {
    "upsert_compaction": ("--only", "DuckDB|Polars|deltalake"),
    "run_all": ("--only", WITHIN),
}
"""What leaves Spark out where it is one of several (``tests/spark`` runs all of them)."""


def test_every_command_has_a_quick_form() -> None:
    """A benchmark that is a command of its own can be run by the test below."""
    assert {name for name, source in SOURCES.items() if "__main__" in source} == set(QUICK)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name in LONG))
        for name in QUICK
        if name != WITHIN
    ],
)
def test_benchmark_runs(name: str, tmp_path: Path) -> None:
    """With ``--quick`` it ends well and prints something."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick", *SOME.get(name, ())],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("name", LONG)
def test_a_long_benchmark_begins(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it imports is there, and it says its options; only the long run plays it."""
    program = BENCHMARKS / f"{name}.py"
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(sys, "argv", [program.name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program), run_name="__main__")
    assert ended.value.code == 0
    assert "--quick" in capsys.readouterr().out
