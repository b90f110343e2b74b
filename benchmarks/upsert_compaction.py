"""Base compaction of a primary-key table against Spark, DuckDB, Polars and deltalake, in one run.

1. The files and the ways are those of ``upsert_ways``: 2 million rows and 8 logs of 100,000.
   segtable runs as a table's compaction does; the others do not check, and do not sync.
2. Every way runs in a process of its own, which imports only what it needs. The processes take
   turns: each round runs every way once, so that a drift of the machine hits all. The first round
   warms up and is not counted.
3. Reported are medians, ratios to segtable, processor time, and the peak memory of each process
   (for Spark with its JVM). Inputs are in the page cache.
4. Each result is checked: its rows, and the sum of a column.

Usage: ``python benchmarks/upsert_compaction.py [--quick] [--text] [--rounds N] [--only WAY]
[--keep DIR]``.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import results
from upsert_ways import WAYS, Data, generate

BASE, LOG = 2_000_000, 100_000
MIB = 1 << 20


QUICK_ROWS = BASE // 20
"""Of fewer rows nothing is measured, and nothing is waited for."""


def measured(name: str, data: Data, run: object, work: Path) -> dict[str, float]:
    """Run a way once, check and remove its result."""
    out = Path(tempfile.mkdtemp(dir=work)) / "result"
    if name == "deltalake merge":  # its table is the base file, which it does not change
        from deltalake import convert_to_deltalake

        out.mkdir()
        os.link(data.base, out / "base.parquet")
        convert_to_deltalake(str(out))
    if data.rows > QUICK_ROWS:
        os.sync()  # nobody pays for the pages of the one before
    began, used = time.perf_counter(), _processor()
    made = run(data, out)  # type: ignore[operator]
    took, used = time.perf_counter() - began, _processor() - used
    rows, users = _result(made)
    if (rows, users) != (data.rows, data.users):
        raise SystemExit(f"{name}: {rows} rows, users {users}; not {data.rows}, {data.users}")
    shutil.rmtree(out.parent)
    return {"seconds": took, "processor": used, "peak": _peak()}


def _result(made: Path) -> tuple[int, int]:
    # In a process of its own: reading all rows of a result would count as the way's memory.
    if (made / "_delta_log").exists():
        from deltalake import DeltaTable

        paths = [str(made / path) for path in DeltaTable(str(made)).to_pyarrow_dataset().files]
    else:
        paths = [str(path) for path in ([made] if made.is_file() else made.glob("*.parquet"))]
    program = (
        "import sys, pyarrow.parquet as pq, pyarrow.compute as pc\n"
        "found = [pq.read_table(path, columns=['user'])['user'] for path in sys.argv[1:]]\n"
        "print(sum(map(len, found)), sum(pc.sum(one).as_py() or 0 for one in found))"
    )
    command = [sys.executable, "-c", program, *paths]
    rows, users = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(rows), int(users)


def _family() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _processor() -> float:
    return sum(sum(member.cpu_times()[:2]) for member in _family())


def _peak() -> int:
    """Return the sum of the high-water marks of this process and its children, in bytes."""
    found = 0
    for member in _family():
        status = Path(f"/proc/{member.pid}/status").read_text().splitlines()
        marks = dict(line.split(":", 1) for line in status)
        found += int(marks.get("VmHWM", "0 kB").split()[0]) * 1024
    return found


def serve(name: str, root: Path, base: int, log: int, *, text: bool) -> None:
    """Run a way each time a line is read, and print what was measured."""
    data = generate(root, base, log, text=text)
    run = WAYS[name]()
    for _ in sys.stdin:
        print(json.dumps(measured(name, data, run, root.parent)), flush=True)


def take_turns(
    names: list[str], serving: list[str], rounds: int, warm_up: int = 1
) -> dict[str, list[dict[str, float]]]:
    """Run every way once in each round; return what was measured after those that warm up."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ways = {
        name: subprocess.Popen([sys.executable, __file__, "--serve", name, *serving], **pipe)
        for name in names
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    try:
        for _ in range(rounds + warm_up):
            for name, way in ways.items():
                way.stdin.write("go\n")
                way.stdin.flush()
                line = way.stdout.readline()
                if not line:
                    raise SystemExit(f"{name} ended; its message is above")
                found[name].append(json.loads(line))
                print(f"{name}: {line.strip()}", file=sys.stderr)
    finally:
        for way in ways.values():
            way.stdin.close()
            way.wait(60)
    return {name: some[warm_up:] for name, some in found.items()}


FASTEST = 1.0
"""The goal: ours by the fastest of the others."""


@contextmanager
def workplace(keep: str | None) -> Iterator[Path]:
    """Yield a directory, removed afterwards unless it was named."""
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="segtable-bench-") as made:
        yield Path(made)


def show(found: dict[str, dict[str, float]]) -> None:
    """Print medians, ratios and peaks."""
    print(f"{'way':<18}{'s':>8}{'x segtable':>12}{'processor s':>13}{'peak MiB':>10}")
    first = next(iter(found.values()))
    for name, one in found.items():
        ratio = one["seconds"] / first["seconds"]
        print(
            f"{name:<18}{one['seconds']:>8.2f}{ratio:>12.2f}{one['processor']:>13.2f}"
            f"{one['peak'] / MIB:>10,.0f}"
        )


def judged(found: dict[str, dict[str, float]]) -> Iterator[results.Result]:
    """Yield ours against each other way."""
    others = {name: one["seconds"] for name, one in found.items() if name != "segtable"}
    fastest = min(others, key=lambda name: others[name], default="")
    for name, took in others.items():
        yield results.Result(
            benchmark="upsert_compaction",
            what="base compaction by primary key",
            ours=found["segtable"]["seconds"],
            unit="s",
            peer=took,
            against=name,
            most=FASTEST if name == fastest else None,
        )


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows, one round")
    parser.add_argument("--text", action="store_true", help="keys are text, not numbers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="ways whose name matches this, and segtable")
    parser.add_argument("--keep", help="a directory for the files, kept for later runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    base, log = (BASE // 100, LOG // 100) if args.quick else (BASE, LOG)
    if args.serve:
        name, root, base, log = args.serve
        serve(name, Path(root), int(base), int(log), text=args.text)
        return
    with workplace(args.keep) as work:
        root = work / f"{'text' if args.text else 'numbers'}-{base}"
        generate(root, base, log, text=args.text)
        names = [name for name in WAYS if name == "segtable" or re.search(args.only, name)]
        serving = [str(root), str(base), str(log), *(["--text"] if args.text else [])]
        rounds, warm_up = (1, 0) if args.quick else (args.rounds, 1)
        some = take_turns(names, serving, rounds, warm_up)
    found = {
        name: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for name, runs in some.items()
    }
    if args.json:
        results.report([*judged(found)], as_json=True)
    else:
        show(found)


if __name__ == "__main__":
    main()
