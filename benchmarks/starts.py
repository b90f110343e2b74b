"""What a start costs: small commands, help, completion, and the import of operators.

1. Each command runs in processes of its own, one of each in turn, ``--rounds`` times. Measured is
   the processor time of the process, which other work on the machine changes less than the time of
   a clock; shown is the least, without that of ``python -c pass``.
2. The commands read a table of three rows, made in a temporary folder. Python has its bytecode, as
   after an installation by pip.
3. ``pyarrow`` is the floor of commands that read files: the import of its Parquet reader alone.
4. Operators are imported after Airflow's SDK and its standard provider, and their own time counts.
5. ``--against FOLDER`` measures another checkout in the same rounds, and prints the ratio.

Usage: ``python benchmarks/starts.py [--quick] [--rounds N] [--against FOLDER] [--json]``.
"""

import argparse
import compileall
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from results import Result, report

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table

HERE = Path(__file__).resolve().parents[1]
CLI = "from airflow_provider_segtable.cli import main; main()"
COMPLETE = (
    "import os; os.environ.update(_SEGTABLE_COMPLETE='complete_bash', COMP_CWORD='2', "
    f"COMP_WORDS='segtable table sc'); {CLI}"
)
OPERATORS = """
import sys, time
import airflow.sdk, airflow.triggers.base
import airflow.providers.standard.operators.trigger_dagrun
start = time.process_time()
import airflow_provider_segtable.operators.plan, airflow_provider_segtable.operators.compact
import airflow_provider_segtable.sensors.published, airflow_provider_segtable.triggers.watch
sys.stdout.write(str(time.process_time() - start))
"""
COMMANDS: dict[str, tuple[str, str, float | None]] = {
    "--help": (CLI, "--help", 0.15),
    "table scan --help": (CLI, "table scan --help", 0.30),
    "completion": (COMPLETE, "", 0.15),
    "--version": (CLI, "--version", 0.15),
    "table scan": (CLI, "table scan TABLE", 0.40),
    "table describe": (CLI, "table describe TABLE", 0.40),
    "table timeline": (CLI, "table timeline TABLE", 0.40),
    "plan": (CLI, "plan TABLE", 0.40),
    "pyarrow": ("import pyarrow.compute, pyarrow.parquet", "", None),
}
BARE = "python -c pass"


def run(code: str, words: Sequence[str], place: Path) -> tuple[float, str]:
    """Run a program with a checkout's package; return its processor seconds and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = {name: value for name, value in os.environ.items() if "DONTWRITEBYTECODE" not in name}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *words],
        cwd=place,
        env={**kept, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, done.stdout


def measured(
    table: str, places: Sequence[Path], rounds: int
) -> dict[tuple[str, Path], list[float]]:
    """Return the processor seconds of every command and checkout, round by round."""
    found: dict[tuple[str, Path], list[float]] = {}
    for place in places:  # as an installation does
        compileall.compile_dir(place / "airflow_provider_segtable", quiet=1)
    for _ in range(rounds):
        for place in places:
            seconds = {BARE: run("pass", (), place)[0]}
            for name, (code, words, _) in COMMANDS.items():
                given = [table if word == "TABLE" else word for word in words.split()]
                seconds[name] = run(code, given, place)[0]
            seconds["operators"] = float(run(OPERATORS, (), place)[1].splitlines()[-1])
            for name, each in seconds.items():
                found.setdefault((name, place), []).append(each)
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    given = parser.parse_args()
    places = [HERE, *([given.against.resolve()] if given.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/trips"
        rows = pa.table({"at": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
        Table.create(table, schema=rows.schema, time_column="at")
        ports = open_context(table)
        coordinator = MemoryCoordinator(ports.clock, MemoryService())
        Table(replace(ports, optional_coordinator=coordinator)).append(rows)
        found = measured(table, places, 1 if given.quick else given.rounds)
    report(list(results(found, places)), as_json=given.json)


def results(found: dict[tuple[str, Path], list[float]], places: Sequence[Path]) -> Iterator[Result]:
    """Yield each command's least time; a goal if no other checkout is measured."""
    bare = min(found[BARE, HERE])
    goals = {name: goal for name, (_, _, goal) in COMMANDS.items()} | {"operators": 0.05}
    for name, goal in goals.items():
        start = 0.0 if name == "operators" else bare
        over = [min(found[name, place]) - start for place in places]
        yield Result(
            benchmark="starts",
            what=f"{name}, over Python's own",
            ours=over[0],
            unit="s",
            peer=over[1] if len(over) > 1 else None,
            against="the other" if len(over) > 1 else "",
            most=goal if len(over) == 1 else None,
        )


if __name__ == "__main__":
    main()
