"""Thousands of small worlds of every scenario: ``make sim-swarm SEEDS=10000``.

A world of the scenarios takes seconds, because many act in it. Most faults need few: here each
seed leaves out about half of its scenario's roles, and those that are left act once or twice. So a
seed takes a fraction of the time, and seeds differ more in what meets what. The scenarios' own
worlds, with everybody, are still needed for what takes many.

The outcomes are added up by scenario; a failure says how it is seen again.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields, replace
from random import Random

from tests.simulation import rollup, scenario
from tests.simulation.keyed import scenario as keyed
from tests.simulation.keyed.test_keyed import MOVERS
from tests.simulation.log_store import scenario as log_store
from tests.simulation.publishing import scenario as publishing
from tests.simulation.publishing.kinds import KINDS
from tests.simulation.seeds import command, say, tried
from tests.simulation.world import Shape, World

NEEDED = frozenset(
    {
        "appenders",
        "upserters",
        "compactors",
        "planners",
        "drops",
        "requesters",
        "builders",
        "tenders",
    }
)
"""What a seed's scenario has is never left out of its small world; of a log store it has all."""
PLACES = ("chunks", "hours")
MOST = 2
BATCH = 5


def small(shape: Shape, seed: int) -> Shape:
    """Return a shape with fewer roles, of which each acts less."""
    random = Random(f"small {seed}")
    kept = {}
    for each in fields(shape):
        value = getattr(shape, each.name)
        if isinstance(value, int) and each.name not in PLACES and "log" not in each.name:
            left_out = each.name not in NEEDED and not each.name.endswith("_each")
            most = random.randint(1, MOST)
            kept[each.name] = 0 if left_out and random.random() < 0.5 else min(value, most)
    return replace(shape, **kept)


def _plain(seed: int) -> World:
    return scenario.simulate(seed, small(scenario.shape_of(seed), seed))


def _keyed(seed: int) -> World:
    world = keyed.build(seed, small(keyed.shape_of(seed), seed))
    scenario.run(world)
    return world


def _moving(seed: int) -> World:
    world = keyed.build(seed, small(MOVERS, seed))
    scenario.run(world)
    return world


def _log_store(seed: int) -> World:
    return log_store.simulate(seed, small(log_store.shape_of(seed), seed))


def _publishing(seed: int) -> World:
    kind = sorted(KINDS)[seed % len(KINDS)]
    cast = publishing.cast_of(seed)
    few = replace(cast, publishers=min(cast.publishers, 2), cleaners=1, removals_each=1)
    shape = small(KINDS[kind].shape_of(seed), seed)
    return publishing.simulate(seed, shape, few, kind).world


def _rollup(seed: int) -> World:
    return rollup.simulate(seed, small(rollup.shape_of(seed), seed))


SCENARIOS: Mapping[str, Callable[[int], World]] = {
    "plain": _plain,
    "keyed": _keyed,
    "moving": _moving,
    "log-store": _log_store,
    "rollup": _rollup,
    "publishing": _publishing,
}


@dataclass(slots=True)
class Total:
    """What became of the seeds of a scenario: counts, and CPU seconds."""

    seeds: int = 0
    steps: int = 0
    events: int = 0
    faults: int = 0
    failed: int = 0
    cpu_s: float = 0.0

    def add(self, other: "Total") -> None:
        """Add another total."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def play(name: str, seeds: Sequence[int]) -> tuple[str, Total, list[str]]:
    """Play seeds of a scenario; return its name, their total, and what went wrong."""
    logging.disable(logging.CRITICAL)
    total, wrong = Total(), []
    begun = time.process_time()
    for seed, world in tried(seeds, SCENARIOS[name]):
        total.seeds += 1
        if isinstance(world, Exception):
            total.failed += 1
            wrong.append(f"{name} {seed}: {type(world).__name__}: {str(world)[:600]}")
        else:
            total.steps += world.simulation.steps
            total.events += world.newest.ledger.checked.n if world.newest.ledger.checked else 0
            total.faults += sum(world.faults.injected.values())
    total.cpu_s = time.process_time() - begun
    return name, total, wrong


def batches(names: Sequence[str], seeds: int, first: int) -> Iterator[tuple[str, range]]:
    """Yield the seeds of each scenario in batches, by turns."""
    each = -(-seeds // len(names))
    for start in range(first, first + each, BATCH):
        for name in names:
            yield name, range(start, min(start + BATCH, first + each))


def main(argv: Sequence[str] | None = None) -> int:
    """Play seeds until they are over, or the time is; print what went wrong, and the totals."""
    parser = command(__doc__, seeds=1000)
    parser.add_argument("--only", choices=SCENARIOS, nargs="+", default=[*SCENARIOS])
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no batch after these")
    given = parser.parse_args(argv)
    totals = {name: Total() for name in given.only}
    begun, told = time.monotonic(), 0
    with ProcessPoolExecutor(given.jobs) as pool:
        waiting = [pool.submit(play, *b) for b in batches(given.only, given.seeds, given.first)]
        for future in as_completed(waiting):
            name, total, wrong = future.result()
            totals[name].add(total)
            for line in wrong:
                say(line)
            minutes = (time.monotonic() - begun) / 60
            if minutes >= told + 1:
                told = int(minutes)
                say(f"{told} min: {sum(each.seeds for each in totals.values())} seeds")
            if minutes >= given.minutes:
                pool.shutdown(cancel_futures=True)
                break
    say(f"{(time.monotonic() - begun) / 60:.0f} min")
    for name, total in totals.items():
        say(f"{name}: {total}")
    return 1 if any(total.failed for total in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
