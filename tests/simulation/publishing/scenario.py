"""Publishing in the standing disaster: three publishers, and every commit publishes, too.

Appenders, changers, overwriters, alterers, restorers, repairers, compactors and cleaners as
everywhere; publishers, who publish again and again; unpublishers, who switch a format off, remove
what is published, and switch it on again; droppers, and who creates the next table. All of them
die, lose replies, sleep, and put what is late. The ``PublishedOracle`` checks each version as it
becomes visible, and each deletion.

    python -m tests.simulation.publishing.scenario --seeds 100
    python -m tests.simulation.publishing.scenario --seeds 100 --kind keyed

Tables are append tables, primary-key tables or rollup tables (``kinds``). In the end the publishers
must have caught up; the latter two are compacted, so that their newest rows are published; one
cleaning must leave nothing that is not needed, and what was published last is whole after it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Self
from unittest.mock import patch

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.core.errors import InvalidInput, PublishingRefused
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, Granularity
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.planning.properties import PublishSettings, Retention, property_of
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table import publications
from airflow_provider_segtable.table.context import MOST_SKEW_S, TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publishing.publisher import publish
from airflow_provider_segtable.table.publishing.targets import remove_published
from airflow_provider_segtable.table.table import Table
from tests.simulation import process_threads
from tests.simulation.caretakers import tidied, tolerate
from tests.simulation.disasters import faults_of
from tests.simulation.droppers import spawn_each
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.model import Alter
from tests.simulation.process_threads import VirtualCondition, VirtualLock
from tests.simulation.publishing.decoders import (
    Decoder,
    DeltaDecoder,
    IcebergDecoder,
    PlainDecoder,
)
from tests.simulation.publishing.kinds import KINDS, Kind
from tests.simulation.publishing.published_oracle import PublishedOracle, WatchedStorage
from tests.simulation.scenario import checkpoints_of, founded, run
from tests.simulation.seeds import command, failing, say, wanted
from tests.simulation.simulator import Actor
from tests.simulation.world import SESSION_TIMEOUT_S, Founding, Shape, World

DECODERS: Mapping[str, type[Decoder]] = {
    "plain": PlainDecoder,
    "delta": DeltaDecoder,
    "iceberg": IcebergDecoder,
}
HOURS = 0.0005
"""Retention of the cleaners: 1.8 seconds, which some publishers sleep longer than."""
ORPHAN_HOURS = 0.1
LAST_ARRIVAL_S = 31.0
"""After so long without faults, late requests have arrived, and those that slept are awake."""
SLACK_S = 5.0
"""How long publications may take beyond the lag, without faults."""
PACKAGES = ("airflow_provider_segtable.data.publishing", "airflow_provider_segtable.formats")
"""Packages whose threads become one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """How many publish and clean, beside a shape's actors.

    ``lag_s`` is the lag of the background that publishes commits; 0 if each commit publishes in its
    call. ``pause_s`` is the longest pause of publishers: what they publish is behind meanwhile.
    """

    lag_s: float = 0.0
    pause_s: float = 1.0
    publishers: int = 3
    cleaners: int = 2
    hours: float = HOURS
    overseers: int = 0
    unpublishers: int = 0
    removals_each: int = 2
    removed: dict[str, set[str]] = field(default_factory=dict)

    def is_done(self, world: World) -> bool:
        """Return whether all removals of a table are over."""
        return len(self.over(world)) == self.unpublishers * self.removals_each

    def over(self, world: World) -> set[str]:
        """Return the removals of a table that are over, by name."""
        return self.removed.setdefault(world.named("removals"), set())


def unpublisher(world: World, cast: Cast, number: int) -> Callable[[Actor], None]:
    """A process that removes what is published, as ``Table.unpublish`` does, and switches on."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(cast.removals_each):
            name = sorted(FORMATS)[(number + turn) % len(FORMATS)]
            what = f"unpublish-{number}-{turn}"
            if what in cast.over(world):
                continue
            actor.sleep(actor.uniform() * 3)
            _switched(world, actor, ports, name, f"{what}-off")
            gone = partial(remove_published, ports, FORMATS[name])
            while not tolerate(actor, what, gone):
                actor.sleep(actor.uniform())
            _switched(world, actor, ports, name, f"{what}-on")
            cast.over(world).add(what)

    return run


def _switched(world: World, actor: Actor, ports: TableContext, name: str, commit_id: str) -> None:
    """Switch a format on or off, as the end of the commit id says; not the plain one.

    It stays off if a column was added meanwhile that keeps the table from being published.
    """
    if name == "plain":
        return
    wanted = Alter(set={f"publish.{name}": commit_id.rpartition("-")[2]})
    world.ledger.intend(commit_id, wanted)

    def alter() -> None:
        with suppress(PublishingRefused):
            Table(ports).alter(set=wanted.set, commit_id=commit_id)

    while not tolerate(actor, commit_id, alter):
        actor.sleep(actor.uniform())


def publisher(world: World, cast: Cast, _: int) -> Callable[[Actor], None]:
    """A process that publishes again and again, and in each format once all is settled."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        left = set(FORMATS)
        while left:
            name = sorted(FORMATS)[int(actor.uniform() * len(FORMATS))]
            settled = world.settled() and cast.is_done(world)
            if tolerate(actor, f"publish {name}", partial(publish, ports, FORMATS[name])):
                left -= {name} if settled else set()
            actor.sleep(actor.uniform() * (1.0 if settled else cast.pause_s))

    return run


def overseer(world: World, cast: Cast, _: int) -> Callable[[Actor], None]:
    """A planner's run, which publishes in all formats that are switched on."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not (world.settled() and cast.is_done(world)):
            tolerate(actor, "publish all", partial(publish_all, ports))
            actor.sleep(actor.uniform() * cast.pause_s)

    return run


def latecomer(world: World, cast: Cast, _: int) -> Callable[[Actor], None]:
    """A process that commits once the faults are over: then the lag of all before it closes.

    Its first commit changes no row: what it publishes is what killed processes, and those that had
    no luck, have left. The next ones compact what they can, and so wait for the background. It
    waits for it as long as the lag, or ends.
    """

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not (world.settled() and cast.is_done(world)):
            actor.sleep(1.0)
        world.faults.stop()
        actor.sleep(LAST_ARRIVAL_S)
        recut = [partial(_compact, ports, cut) for cut in (Granularity.DAY, Granularity.HOUR)]
        for commit in (partial(Table(ports).tag, f"last-{actor.token()}"), *recut):
            while not tolerate(actor, "commit late", commit):
                actor.sleep(actor.uniform())
            actor.sleep(cast.lag_s / 8)  # the next one waits
        if actor.uniform() < 0.5:
            actor.sleep(cast.lag_s + SLACK_S)
            check_published(world)
        process_threads.end(actor)
        check_published(world)

    return run


def check_published(world: World) -> None:
    """Check that the formats that are switched on are not behind; a dropped table has none."""
    if world.newest is world and not world.ended:
        state = EventLog(world.storage).load()
        names = PublishSettings.read(state.table.properties).formats
        watched(world).check_newest(names)
        assert watched(world).is_newest(names), f"{names} show files that were compacted"


def cleaner(world: World, hours: float) -> Callable[[Actor], None]:
    """Somebody who cleans with a retention so short that it bites."""
    retention = Retention(hours=hours, versions=1, orphan_hours=ORPHAN_HOURS)

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "clean", partial(clean, ports, retention=retention))
            actor.sleep(actor.uniform())

    return run


def build(
    seed: int, shape: Shape, cast: Cast, faults: Faults | None = None, kind: Kind = KINDS["append"]
) -> World:
    """Make a world with its table, its oracle and all actors, not started yet."""
    shape = replace(shape, background=bool(cast.lag_s))
    founding = Founding(
        define=partial(_defined, kind, cast, seed),
        ledger=kind.ledger,
        populate=partial(populated, kind, cast),
        kinds=(),
    )
    world, ports = founded(
        *(seed, shape, founding, faults), make_storage=WatchedStorage, most_skew_s=kind.most_skew_s
    )
    storage = world.storage
    assert isinstance(storage, WatchedStorage)
    world.ledger.check(ports)
    decoders = {name: DECODERS[name]() for name in FORMATS}
    kept_us = int(cast.hours * HOUR_US)
    storage.oracle = PublishedOracle(world=world, decoders=decoders, kept_us=kept_us)
    for entry in storage.list(""):
        storage.oracle.created(entry.path)
    populated(kind, cast, world)
    return world


def populated(kind: Kind, cast: Cast, world: World) -> None:
    """Add the actors of a table to its simulation."""
    kind.crowd(world)
    behind = bool(cast.lag_s)
    for many, count, apart_us in (
        (publisher, cast.publishers, 1_000_000),
        (overseer, cast.overseers, 0),
        (latecomer, behind, 0),
        (unpublisher, cast.unpublishers, 300_000),
    ):
        spawn_each(world, many.__name__, count, partial(many, world, cast), apart_us.__mul__)

    def clean(_: int) -> Callable[[Actor], None]:
        return cleaner(world, cast.hours)

    spawn_each(world, "cleaner", cast.cleaners, clean, lambda number: -number * 500_000)


def _defined(kind: Kind, cast: Cast, seed: int, table_id: str) -> TableDefinition:
    """Return the definition of a table whose every commit publishes it."""
    table = kind.define(table_id, seed)
    on = {f"publish.{name}": "on" for name in FORMATS if name != "plain"}
    if cast.lag_s:
        on[property_of("lag_seconds")] = f"{cast.lag_s:g}"
    return replace(table, properties={**table.properties, **on})


class InTurn:
    """A pool without threads: an actor is one greenlet of one thread."""

    def __init__(self, threads: int) -> None:
        """Have no threads."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End nothing."""

    def map(self, function: Callable[[Any], Any], given: Iterable[Any]) -> Iterator[Any]:
        """Call a function for each value, in turn."""
        return map(function, given)


def watched(world: World) -> PublishedOracle:
    """Return the oracle of a world."""
    assert isinstance(world.storage, WatchedStorage)
    assert world.storage.oracle
    return world.storage.oracle


def live(world: World) -> PublishedOracle:
    """Run a world to its end, and check it.

    Raises:
        AssertionError: naming what was wrong.
    """
    oracle = watched(world)
    try:
        with ExitStack() as stack:
            for module in [each for name, each in sys.modules.items() if name.startswith(PACKAGES)]:
                if hasattr(module, "ThreadPoolExecutor"):
                    stack.enter_context(patch.object(module, "ThreadPoolExecutor", InTurn))
            stack.enter_context(patch.object(publications, "Lock", partial(_lock, oracle.world)))
            run(world)
            if world.newest.ended:
                oracle.conclude()
            else:
                _conclude(world.newest, oracle)
    except AssertionError as error:
        error.add_note("\n".join(oracle.problems[:5]))
        raise
    return oracle


def _lock(world: World) -> VirtualLock:
    """Return a lock for the threads of a process; those that wait do so in virtual time."""
    return VirtualLock(VirtualCondition(world.simulation))


def _conclude(world: World, oracle: PublishedOracle) -> None:
    """Check what is published in the end, after a major compaction, and after a cleaning.

    A primary-key or rollup table then shows its newest rows, unless a column keeps it from that.
    """
    outside = Actor(name="o", run=lambda _: None, simulation=world.simulation)
    ports = world.raw_ports(outside)
    unpublished = {"plain"} & FORMATS.keys() if world.shape.background else ()  # by any commit
    for name in {*filter(oracle.is_broken, sorted(FORMATS)), *unpublished}:
        publish(ports, FORMATS[name])
    if oracle.ledger.has_bases:
        oracle.conclude()
        _compact_at_last(world, outside)
        world.ledger.check(ports)
        for name in sorted(FORMATS):
            publish(ports, FORMATS[name])
    oracle.conclude()
    if oracle.is_newest():
        tidied(world, ports)
        oracle.conclude()


def _compact_at_last(world: World, outside: Actor) -> None:
    """Do a major compaction of whatever there is, when no dead process holds a lock."""
    world.simulation.now += int(2e6 * SESSION_TIMEOUT_S)
    world.reap()
    client = MemoryCoordinator(outside, world.service)
    _compact(replace(world.raw_ports(outside), optional_coordinator=client))


def _compact(ports: TableContext, cut: Granularity | None = None) -> None:
    """Do a major compaction of whatever there is, maybe with time cut otherwise."""
    with suppress(InvalidInput):
        plans = [known.plan.id for known in request(ports, MajorPlan.kind, granularity=cut)]
        for result in compact(ports, plans, in_process(ports.files)):
            assert result.ended is Ended.COMPLETED, f"at last, {result.ended}: {result.message}"


def simulate(
    seed: int, shape: Shape | None = None, cast: Cast | None = None, kind: str = "append"
) -> PublishedOracle:
    """Build and run one seed.

    What a cast has removed belongs to one world: with that of an earlier one, nobody would remove.
    """
    of, faults = KINDS[kind], faults_of(seed)
    cast = replace(cast or cast_of(seed), removed={})
    if of.most_skew_s > MOST_SKEW_S:
        faults.clock = 0.0  # clocks are as far apart as they may be
    with checkpoints_of(seed):
        return live(build(seed, shape or of.shape_of(seed), cast, faults, of))


def cast_of(seed: int) -> Cast:
    """Return the publishers and cleaners of a seed."""
    random = Random(-seed)
    return Cast(
        publishers=random.randint(1, 3),
        cleaners=random.choice((1, 2)),
        unpublishers=random.choice((0, 1, 2)),
        removals_each=random.randint(1, 3),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds; print which failed, and why, and how many versions were published."""
    parser = command("Simulate disasters of published versions.")
    parser.add_argument("--kind", choices=[*KINDS], default="append", help="of table (append)")
    given = parser.parse_args(argv)
    total: Counter[str] = Counter()

    def keep(oracle: PublishedOracle) -> None:
        total.update(versions=oracle.versions, late=oracle.late)

    failed = failing(wanted(given), partial(simulate, kind=given.kind), keep)
    say(f"{total['versions']} versions, {total['late']} late")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
