"""What durability costs: local creates a second, with and without fsync, and obstore's own.

1. Each way creates small objects, as events are, under fresh names in one directory; rounds take
   turns, so that a drift of the machine hits all of them. Medians are reported.
2. ``durable`` is what segtable does: fsync of the file and of its directory before it returns.
   ``unsynced`` is the same without the two syncs, ``obstore`` its LocalStore, which never syncs.

Usage: ``python benchmarks/commits.py [--quick] [--rounds N] [--on DIR]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import obstore
from obstore.store import LocalStore

from airflow_provider_segtable.storage import LocalStorage

EVENT = b"x" * 1000
Create = Callable[[str, bytes], object]


def ways(root: Path) -> dict[str, Create]:
    """Return the ways of creating an object, each in a directory of its own."""
    store = LocalStore(root / "obstore", mkdir=True)
    return {
        "durable": LocalStorage(root / "durable").create,
        "unsynced": LocalStorage(root / "unsynced", sync=lambda _: None).create,
        "obstore": lambda path, data: obstore.put(store, path, data, mode="create"),
    }


def creates_per_second(create: Create, round_: int, count: int) -> float:
    """Create ``count`` objects and return the rate."""
    begin = time.perf_counter()
    for n in range(count):
        create(f"timeline/{round_}-{n:020d}.json", EVENT)
    return count / (time.perf_counter() - begin)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer objects")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--on", type=Path, help="a directory on the disk to measure")
    given = parser.parse_args(argv)
    count = 200 if given.quick else 2000
    with tempfile.TemporaryDirectory(dir=given.on) as root:
        rates: dict[str, list[float]] = {}
        for round_ in range(given.rounds):
            for name, create in ways(Path(root)).items():
                rates.setdefault(name, []).append(creates_per_second(create, round_, count))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in medians.items():
        ratio = medians["unsynced"] / rate
        print(f"{name:<10}{rate:>10,.0f} creates/s {1e6 / rate:>8,.0f} us each {ratio:>7.1f} x")
    print(f"durability costs {medians['unsynced'] / medians['durable']:.1f} x here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
