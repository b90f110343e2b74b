"""What the page's views of a table of 1,000,000 segments cost: 100,000 time chunks of 10.

1. The table is that of ``scale.py``; its data files do not exist, and only footers would be read.
   ``--on DIR`` keeps it there, and uses it again: making it takes minutes.
2. The page is asked in this process, through its whole application. ``first`` is the first answer
   of a view once the table was opened, ``warm`` the median of ``ROUNDS`` later ones. Both are in
   milliseconds of processor time, which a busy machine distorts less; ``took`` is by the clock.
3. Later answers are made anew: no answer is given twice (``Limits.fresh_s``).
4. Memory is the resident set of the process: before the table was opened, and after all views.
5. Each goal is printed with what was measured, and whether it is met.

Usage: ``python benchmarks/page_views.py [--quick] [--on DIR]``.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from airflow_provider_segtable.page.app import page_app
from airflow_provider_segtable.page.lake import Lake, Limits
from airflow_provider_segtable.page.rights import OnLoopback
from airflow_provider_segtable.page.sources import source_at
from airflow_provider_segtable.storage.local import SystemClock
from benchmarks.scale import make

ROUNDS = 5
GOAL_WARM_MS, GOAL_OPEN_MS, GOAL_MIB = 300.0, 2000.0, 200.0
BODY = {"properties": {"compaction.min_segments": "20"}}
DAY = {"start": "2013-01-01", "end": "2013-01-02"}
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "map, whole range": ("map", {}),
    "map, half a year": ("map", {"start": "2013-01-01", "end": "2013-07-01"}),
    "map, a week": ("map", {"start": "2013-01-01", "end": "2013-01-08"}),
    "map, a day": ("map", DAY),
    "changes of a day": ("map/changes", DAY),
    "timeline": ("timeline", {}),
    "plans": ("plans", {}),
    "indexes": ("indexes", {}),
    "log store": ("log_store", {}),
    "published": ("published", {}),
    "runs": ("runs", {}),
}


class Page:
    """The page of a folder of tables, asked in this process."""

    def __init__(self, folder: Path) -> None:
        source = source_at(str(folder))
        limits = Limits(limit_s=600.0, fresh_s=0.001)
        lake = Lake(lambda: {"": source}, SystemClock(), limits)
        self._app: FastAPI = page_app(lake, OnLoopback("me", None))

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer about the table."""

        async def sent() -> Any:
            transport = ASGITransport(self._app)
            async with AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                asked = {"table": "big", **query}
                found = await client.get(f"/api/{path}", params=asked, timeout=600.0)
                return found.raise_for_status().json()["data"]

        return asyncio.run(sent())


def timed(act: Callable[[], Any]) -> tuple[float, float]:
    """Return the milliseconds of an act: processor time, and by the clock."""
    begin, spent = time.perf_counter(), time.process_time()
    act()
    return 1e3 * (time.process_time() - spent), 1e3 * (time.perf_counter() - begin)


def resident_mib() -> float:
    """Return the resident set of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def measured(page: Page) -> Iterator[tuple[str, float, float, float]]:
    """Yield each view with its first time, its warm one, and the warm one by the clock."""
    for name, (path, query) in VIEWS.items():
        first, _ = timed(lambda path=path, query=query: page.ask(path, **query))  # type: ignore[misc]
        later = []
        for _ in range(ROUNDS):
            time.sleep(0.01)
            later.append(timed(lambda path=path, query=query: page.ask(path, **query)))  # type: ignore[misc]
        warm, took = (statistics.median(each) for each in zip(*later, strict=True))
        yield name, first, warm, took


def report(page: Page) -> None:
    """Measure all views, and print them with the goals."""
    before = resident_mib()
    opened, took = timed(lambda: page.ask("event", n="0"))
    print(f"{'open':20} {opened:8.0f} ms                took {took:8.0f} ms")
    slowest = 0.0
    for name, first, warm, took in measured(page):
        print(f"{name:20} {first:8.0f} ms first {warm:6.0f} ms warm, took {took:8.0f} ms")
        slowest = max(slowest, warm)
    after = resident_mib()
    print(f"memory {before:.0f} MiB before, {after:.0f} MiB after")
    for name, found, goal in (
        ("open, ms", opened, GOAL_OPEN_MS),
        ("slowest warm view, ms", slowest, GOAL_WARM_MS),
        ("memory of table and views, MiB", after - before, GOAL_MIB),
    ):
        print(f"{name}: {found:.0f} of {goal:.0f}: {'met' if found <= goal else 'MISSED'}")


def main() -> None:
    """Make the table if need be, and measure its views."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 time chunks instead")
    parser.add_argument("--on", type=Path, help="folder that keeps the table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.on or Path(scratch)
        if not (folder / "big").exists():
            make(folder / "big", 1000 if given.quick else 100_000, 10)
        report(Page(folder))


if __name__ == "__main__":
    main()
