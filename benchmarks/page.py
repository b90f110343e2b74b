"""What the page costs: 1,000 tables of 1,000 segments, and one table of 1,000,000.

1. The page is served by ``segtable ui``, a process of its own, as it was started. Tables are in
   folders of this machine, without ZooKeeper: each pass asks each table for its next event. Their
   data files do not exist: nothing here reads them.
2. ``first view`` is the first answer to the list of tables; ``all known`` is when each table has
   been looked at. ``meanwhile`` is an answer that needs no table, the slowest of those that were
   asked for until then: how much a pass delays the server that it is a part of. Other views are
   asked for once, which is ``cold``, and then ``ROUNDS`` times with a second in between, so that
   no answer is given twice: ``warm`` is the median.
3. ``100 readers`` ask for the list and for the large table at once: the slowest answer.
4. Memory is that of the server above what it had before the first request; ``most`` is its peak.
5. Warm answers and memory have goals (``GOALS``).

Usage: ``python benchmarks/page.py [--quick] [--on DIR] [--json]``; ``DIR`` is made if it is not
there.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from results import Result, report

from benchmarks import fleet, scale

TABLES = 1000
LARGE = "large/events"
ROUNDS = 7
VIEWS = {
    "table": f"api/table?table={LARGE}",
    "growth": f"api/growth?table={LARGE}",
    "map": f"api/map?table={LARGE}",
    "map of hours": f"api/map?table={LARGE}&start=2013-01-01&end=2013-01-03",
    "map of an hour": f"api/map?table={LARGE}&start=2013-01-01&end=2013-01-01T01:00:00",
    "replay": f"api/map/changes?table={LARGE}&start=2013-01-01&end=2013-01-01T01:00:00",
    "timeline": f"api/timeline?table={LARGE}",
    "plans": f"api/plans?table={LARGE}",
    "indexes": f"api/indexes?table={LARGE}",
    "published": f"api/published?table={LARGE}",
    "locks": f"api/locks?table={LARGE}",
    "runs": f"api/runs?table={LARGE}",
    "all runs": "api/runs",
    "changes": f"api/fleet/changes?table={LARGE}",
    "fleet": "api/fleet",
    "search": "api/fleet?search=group_7&sort=bytes",
}
GOALS = {"first view": 1.0, "warm": 0.3, "MiB": 200.0}


def make(root: Path, *, quick: bool) -> None:
    """Make the tables, unless they are there."""
    if (root / LARGE).exists():
        return
    fleet.make(root, 30 if quick else TABLES)
    scale.made(root / LARGE, 10 if quick else 1000, 1000)


@contextmanager
def served(root: Path) -> Iterator[tuple[str, int]]:
    """Serve the page; give its address, and the server's process id."""
    command = [str(Path(sys.executable).with_name("segtable")), "ui"]
    listened = subprocess.Popen(
        [*command, "--root", str(root), "--port", "0"],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[1],
        text=True,
    )
    with listened as server:
        try:
            yield (server.stdout.readline().strip() if server.stdout else ""), server.pid
        finally:
            server.terminate()


def asked(address: str, path: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds of an answer, and the answer."""
    begin = time.perf_counter()
    with urllib.request.urlopen(address + path, timeout=120) as answer:  # noqa: S310 - loopback
        found = json.loads(answer.read())
    return time.perf_counter() - begin, found


def memory_mib(pid: int, field: str) -> float:
    """Return a field of a process's status: ``VmRSS``, or ``VmHWM`` for the peak."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(each for each in status if each.startswith(field))
    return int(line.split()[1]) / 1024


def measure(root: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Measure one server."""
    found: dict[str, float] = {}
    with served(root) as (address, pid):
        asked(address, "api/session")
        before = memory_mib(pid, "VmRSS")
        begin = time.perf_counter()
        found["first view"], answer = asked(address, "api/fleet")
        delays = [0.0]
        while "looked at so far" in answer["late"] or not answer["data"]["total"]:
            for _ in range(5):
                time.sleep(0.05)
                delays.append(asked(address, "api/session")[0])
            _, answer = asked(address, "api/fleet?limit=1")
        found["meanwhile"] = max(delays)
        found["meanwhile, median"] = statistics.median(delays)
        found["all known"] = time.perf_counter() - begin
        for name, path in VIEWS.items():
            found[f"{name}, cold"], _ = asked(address, path)
            took = []
            for _ in range(rounds):
                time.sleep(1.1)
                took.append(asked(address, path)[0])
            found[f"{name}, warm"] = statistics.median(took)
        with ThreadPoolExecutor(100) as pool:
            paths = [VIEWS["fleet"], VIEWS["table"]] * 50
            found["100 readers"] = max(pool.map(lambda path: asked(address, path)[0], paths))
        found["MiB"] = memory_mib(pid, "VmRSS") - before
        found["MiB, most"] = memory_mib(pid, "VmHWM") - before
    return found


def results(found: dict[str, float]) -> Iterator[Result]:
    """Yield what was measured, with the goals of warm answers and of memory."""
    for name, value in found.items():
        goal = GOALS.get("warm" if name.endswith("warm") else name.partition(",")[0])
        yield Result(
            benchmark="page",
            what=name,
            ours=value,
            unit="MiB" if "MiB" in name else "s",
            most=None if "cold" in name else goal,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few tables: does it still work?")
    parser.add_argument("--on", type=Path, help="where the tables are, or will be")
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        root = given.on or Path(folder)
        make(root, quick=given.quick)
        report([*results(measure(root, 1 if given.quick else ROUNDS))], as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
