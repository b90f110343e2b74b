"""Compaction beside a writer: segtable, Hudi, Iceberg, Delta Lake and Paimon, one after another.

1. Of each system there are two tables, *append* (events, late data, deletes) and *keyed* (upserts
   with an ordering column, deletes), on a local disk. ``peer_systems`` has a file for each: its
   settings are those that its documentation recommends for writers beside a compaction.
2. Two processes, each with a session of its own on both cores: one writes, the other compacts
   (``peer_systems/measuring.py`` has the phases, ``peer_systems/workload.py`` the commands).
3. What was committed is compared with what was acknowledged, row by row.
4. Two of the systems are segtable: written to by Spark like the others, and by Python alone.

What the peers need is fetched into ``build/peers`` by pip and Maven, once.

Usage: ``python benchmarks/peers.py [--quick] [--size N] [--only hudi,delta] [--kind keyed]
[--keep DIR]``.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer_systems.measuring import MIB, Measured, Write, measure
from peer_systems.prepare import HOME, PEERS, prepared
from peer_systems.session import Failed, Session
from peer_systems.workload import Size

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper

OWN = ("segtable", "segtable-python")
CORES = "2"
QUICK = Size(fill_commits=6, fill_rows=600, keys=2_000, rows=100, alone=3, scans=1)


def sized(factor: float) -> Size:
    """Return a size; 1 takes about a quarter of an hour for all systems."""
    return Size(
        fill_commits=round(20 * max(factor, 1)),
        fill_rows=round(100_000 * min(factor, 1)),
        keys=round(1_000_000 * factor),
        rows=2_000,
        alone=9,
    )


@contextmanager
def sessions(system: str, lake: Path, zookeeper: str) -> Iterator[tuple[Session, Session]]:
    """Yield the writer and the compaction of a system."""
    python, jars = (Path(sys.executable), HOME) if system in OWN else prepared(system)
    arguments = [system, str(lake / "tables"), str(jars), CORES, zookeeper]
    made = [
        Session.start(python, arguments, lake / f"{role}.log") for role in ("writer", "compaction")
    ]
    try:
        for session in made:
            session.ready()
        yield made[0], made[1]
    finally:
        for session in made:
            session.stop()


def measured(
    system: str, kinds: Sequence[str], size: Size, place: Path, zookeeper: str
) -> Iterator[Measured]:
    """Yield the numbers of a system's tables; a failure is printed, and the next one goes on."""
    lake = place / system
    lake.mkdir(parents=True)
    began = time.monotonic()
    try:
        with sessions(system, lake, zookeeper) as pair:
            for kind in kinds:
                yield measure(system, kind, size, pair, lake, lambda text, k=kind: say(k, text))
    except Failed as failure:
        say("failed", str(failure))
    say("took", f"{time.monotonic() - began:.0f} s")


def say(what: str, text: str) -> None:
    """Print progress."""
    print(f"  {what}: {text}", file=sys.stderr, flush=True)


HEADER = (
    "table",
    "system",
    "compaction, s",
    "attempts (lost)",
    "thrown away, s",
    "written, MiB",
    "writes beside it",
    "median alone, s",
    "median beside, s",
    "p95 alone, s",
    "p95 beside, s",
    "writer's conflicts (given up)",
    "files",
    "count, s",
    "column, s",
    "rows",
)


def line(found: Measured) -> tuple[str, ...]:
    """Return a system's line of the table."""
    attempts = [*found.attempts, *([found.after] if found.after else [])]
    thrown = sum(each.seconds * each.lost for each in attempts)
    beside = found.overlapping
    given_up = sum(bool(each.error) for each in beside)
    conflicts = sum(each.conflicts for each in beside)
    return (
        found.kind,
        PEERS[found.system].title if found.system in PEERS else found.system,
        f"{sum(each.seconds for each in attempts):.1f}"
        + (" (writer stopped)" if found.after else ""),
        f"{len(attempts)} ({sum(each.lost > 0 for each in attempts)})",
        f"{thrown:.1f}",
        f"{sum(each.bytes for each in attempts) / MIB:.0f}",
        f"{len(beside)}",
        f"{middle(found.alone):.3f}",
        f"{middle(beside):.3f}",
        f"{slow(found.alone):.3f}",
        f"{slow(beside):.3f}",
        f"{conflicts}" + (f" ({given_up})" if given_up else ""),
        " → ".join(map(str, found.files)),
        " → ".join(f"{each:.2f}" for each in found.count_s),
        " → ".join(f"{each:.2f}" for each in found.column_s),
        f"{found.rows:,} " + (f"**{found.differences}**" if found.differences else "right"),
    )


def middle(writes: Sequence[Write]) -> float:
    """Return the median seconds."""
    return statistics.median([each.seconds for each in writes] or [float("nan")])


def slow(writes: Sequence[Write]) -> float:
    """Return the 95th percentile."""
    times = sorted(each.seconds for each in writes) or [float("nan")]
    return times[min(len(times) - 1, round(0.95 * len(times)))]


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return Markdown."""
    rows = [HEADER, ["---"] * len(HEADER), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    names = (*OWN, *PEERS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="little, segtable-python: does it work?"
    )
    parser.add_argument("--size", type=float, default=1.0, help="times as many rows (default 1)")
    parser.add_argument("--only", default="", help=f"some of {','.join(names)}")
    parser.add_argument("--kind", choices=("append", "keyed"), help="one kind of table")
    parser.add_argument("--keep", type=Path, help="leave tables and logs in this new folder")
    given = parser.parse_args(argv)
    default = "segtable-python" if given.quick else ",".join(names)
    given.systems = (given.only or default).split(",")
    unknown = set(given.systems) - set(names)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: choose from {','.join(names)}")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    given = arguments(argv)
    size = QUICK if given.quick else sized(given.size)
    kinds = [given.kind] if given.kind else ["append", "keyed"]
    every: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="segtable-peers-") as made:
        place = (given.keep or Path(made)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        with EmbeddedZooKeeper(Path(made) / "zookeeper") as server:
            for system in given.systems:
                print(f"{system}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
                every += measured(system, kinds, size, place, server.address)
    print(table([line(found) for found in every]))
    complete = len(every) == len(kinds) * len(given.systems)
    return 0 if complete and not any(m.differences for m in every if m.system in OWN) else 1


if __name__ == "__main__":
    sys.exit(main())
