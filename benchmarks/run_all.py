"""Run the benchmarks one after another, and print one table of what they found.

1. Each is a process of its own, which ends before the next one begins. Its output is kept in a
   file of its name below ``build/bench``, its results in ``results.jsonl``, the table in
   ``table.md``.
2. A run has an hour, or with ``--quick`` five minutes, for everything. Each benchmark has arguments
   for both. One that would begin after the end is left out and named.
3. ``--quick`` says whether everything works and what is far off. It has few rows and rounds: a mark
   of it proves nothing.
4. The note of the machine belongs to the numbers: compare ratios, of runs with a low load.

Usage: ``python benchmarks/run_all.py [--quick] [--only NAME,NAME]``.
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from results import Result, table

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "bench"
WHOLE_S, QUICK_S, QUICK_EACH_S = 3600.0, 300.0, 45.0
PACKAGES = ("pyarrow", "numpy", "pyspark", "duckdb", "polars", "deltalake", "isal", "xxhash")
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark's name, its arguments for a whole and a quick run, and the most minutes.

    ``part`` names a run of a benchmark that has several.
    """

    name: str
    whole: tuple[str, ...] = ()
    quick: tuple[str, ...] = ("--quick",)
    minutes: float = 5.0
    part: str = ""

    @property
    def title(self) -> str:
        """Return the name, with the part."""
        return "-".join(filter(None, (self.name, self.part)))


BENCHMARKS = (
    Benchmark("wide", ("--rounds", "5"), ("--rounds", "1"), 3),
    Benchmark("scan", ("--days", "4", "--rounds", "3"), minutes=8),
    Benchmark(
        "scan",
        ("--keyed", "--days", "4", "--rounds", "3"),
        ("--keyed", "--quick"),
        minutes=5,
        part="keyed",
    ),
    Benchmark("starts", ("--rounds", "5"), minutes=3),
    Benchmark("get", ("--rounds", "3"), minutes=5),
    Benchmark("commits", ("--rounds", "1"), minutes=4),
    Benchmark("logstore", ("--rounds", "1", "--seconds", "2"), minutes=5),
    Benchmark("publish", ("--rounds", "3"), minutes=5),
    Benchmark("indexing", ("--rows", "2000000", "--rounds", "1", "--seconds", "5"), minutes=5),
    Benchmark("scale", ("--goals",), minutes=8),
    Benchmark("minor", ("--files", "200", "--rounds", "2"), ("--files", "16", "--rounds", "1"), 6),
    Benchmark(
        "sort_and_rollup",
        ("--files", "100", "--rounds", "2", "--no-memory"),
        ("--files", "16", "--rounds", "1", "--no-memory"),
        6,
    ),
    Benchmark("upsert_compaction", ("--rounds", "3"), minutes=5),
    Benchmark("parallel_update", ("--rounds", "1"), minutes=8),
    Benchmark("multi_writer", ("--rounds", "1", "--seconds", "5"), minutes=4),
    Benchmark("pruning", ("--rounds", "3"), minutes=3),
    Benchmark("checksums", ("--rounds", "2", "--no-spark"), ("--quick", "--no-spark"), 4),
    Benchmark("request_counts", minutes=3),
    Benchmark("page", minutes=8),
    Benchmark("fleet", ("--tables", "200"), minutes=4),
)
LEFT_OUT = {
    "peers": "it fetches other systems, and takes a quarter of an hour alone",
    "fleet_latency": "it needs a whole Airflow",
    "fleet_beside_homemade": "it needs a whole Airflow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A benchmark's results, and why it has none."""

    results: tuple[Result, ...] = ()
    failure: str = ""


def machine() -> Iterator[str]:
    """Yield a note of the machine, its load and the versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"{os.cpu_count()} cores, {memory / GIB:.0f} GiB, {platform.system()} "
    yield f"{platform.release()}, Python {platform.python_version()}, load {load}; "
    yield ", ".join(filter(None, map(installed, PACKAGES)))


def installed(package: str) -> str:
    """Return a package's name and version; empty if it is not installed."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def run(benchmark: Benchmark, left_s: float, *, quick: bool) -> Outcome:
    """Run a benchmark in the time that is left, and keep its output."""
    program = HERE / f"{benchmark.name}.py"
    shared = re.search(r"^(import results|from results import)", program.read_text(), re.MULTILINE)
    as_json = ("--json",) if shared else ()
    given = (*(benchmark.quick if quick else benchmark.whole), *as_json)
    most_s = min(left_s, QUICK_EACH_S if quick else 60 * benchmark.minutes)
    log = OUTPUT / f"{benchmark.title}.log"
    code = ended([sys.executable, str(program), *given], log, most_s)
    if code is None:
        return Outcome(failure=f"not ended after {most_s:.0f} s")
    if code:
        return Outcome(failure=f"failed with {code}, see {log}")
    lines = log.read_text().splitlines()
    found = tuple(each for line in lines if (each := Result.parsed(line)))
    return Outcome(results=found, failure="" if found else f"its own table is in {log}")


def ended(command: Sequence[str], log: Path, most_s: float) -> int | None:
    """Run a command with its output in a file; end it and all that it started after a time.

    Returns:
        Its exit code; None if it did not end by itself.
    """
    with log.open("w") as kept:
        running = subprocess.Popen(
            command, stdout=kept, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return running.wait(most_s)
        except subprocess.TimeoutExpired:
            return None
        finally:  # servers, writers and JVMs of a benchmark are of its process group
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def chosen(only: str) -> list[Benchmark]:
    """Return the benchmarks to run, of names by commas; all if none is given."""
    wanted = {name for name in only.split(",") if name}
    unknown = wanted.difference(each.name for each in BENCHMARKS)
    if unknown:
        raise SystemExit(f"there is no benchmark {', '.join(sorted(unknown))} to run here")
    return [each for each in BENCHMARKS if not wanted or each.name in wanted]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="five minutes: does all work?")
    parser.add_argument("--only", default="", help="only these, by commas")
    given = parser.parse_args(argv)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    note = "".join(machine())
    sys.stdout.write(f"{note}\n")
    end = time.monotonic() + (QUICK_S if given.quick else WHOLE_S)
    found: list[Result] = []
    failures: dict[str, str] = {}
    for benchmark in chosen(given.only):
        left = end - time.monotonic()
        sys.stdout.write(f"{benchmark.title} ...\n")
        sys.stdout.flush()
        outcome = (
            run(benchmark, left, quick=given.quick)
            if left > 0
            else Outcome(failure="no time was left")
        )
        found += outcome.results
        if outcome.failure:
            failures[benchmark.title] = outcome.failure
    lines = [note, "", *table(found), ""]
    lines += [f"- {name}: {why}" for name, why in {**failures, **LEFT_OUT}.items()]
    text = "".join(f"{line}\n" for line in lines)
    (OUTPUT / "table.md").write_text(text)
    (OUTPUT / "results.jsonl").write_text("".join(f"{each.line()}\n" for each in found))
    sys.stdout.write(f"\n{text}")
    return int(any("failed" in why for why in failures.values()))


if __name__ == "__main__":
    raise SystemExit(main())
