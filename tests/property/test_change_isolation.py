"""A change takes the rows of its snapshot, whatever is loaded, cut anew or cleaned meanwhile.

Each play is one delete, update or merge on the real code. Others act between its snapshot and its
commit: they load rows that its condition holds for, change other rows of the same files, cut time
anew, compact and clean. They share no lock service with it, so they act at any moment.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import (
    ChangeKind,
    ChangeRequest,
    Delete,
    Merge,
    Update,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.append import AppendTicket, Write
from airflow_provider_segtable.table.changes.arrow_engine import ArrowEngine, arrow_rows
from airflow_provider_segtable.table.changes.row_change import Found, change
from airflow_provider_segtable.table.changes.run_change import find_rows
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeRandomness
from tests.unit.table.conftest import new_table, rows
from tests.unit.table.test_change import Trap, rival

NOW = Retention(hours=0, versions=1, orphan_hours=1000)
SEEDS = 16
LOADED = 1000
"""Numbers from here on are of rows that others load."""

Contents = Counter[tuple[int, float]]


def contents(table: Table) -> Contents:
    """Return number and price of every row that is shown."""
    found = table.snapshot().to_arrow()
    return Counter(zip(found["row"].to_pylist(), found["price"].to_pylist(), strict=True))


@dataclass
class Others:
    """Everybody else; ``expected`` is what they leave of the table, less the change."""

    table: Table
    draw: Random
    expected: Contents
    acted: Counter[str] = field(default_factory=Counter)

    def act(self) -> None:
        """Do one thing, or nothing."""
        acts: tuple[Callable[[], object], ...] = (
            *(self.load, self.recut, self.recut, self.update, self.sort_and_clean),
        )
        chosen = acts[self.draw.randrange(len(acts))]
        chosen()
        self.acted[chosen.__name__] += 1

    def load(self) -> None:
        """Load rows, for which each condition holds."""
        first = LOADED + 10 * sum(self.acted.values())
        self.add(range(first, first + 3))

    def add(self, numbers: range) -> None:
        """Append rows whose price is -1."""
        given = rows(numbers)
        free = pa.array([-1.0] * given.num_rows)
        self.table.append(given.set_column(given.column_names.index("price"), "price", free))
        self.expected += Counter((number, -1.0) for number in numbers)

    def update(self) -> None:
        """Update rows that the change does not match."""
        here = [pair for pair in self.expected if 10 <= pair[0] < 40]
        number, price = here[self.draw.randrange(len(here))]
        self.table.update({"price": price + 1}, f"row = {number}")
        self.expected -= Counter([(number, price)])
        self.expected += Counter([(number, price + 1)])

    def recut(self) -> None:
        """Cut time anew."""
        self.compact("major", granularity=self.draw.choice(("day", "hour")))

    def sort_and_clean(self) -> None:
        """Leave deleted rows out, and forget which they were."""
        self.compact("major")
        self.table.ports.clock.sleep(1)  # so that versions are old
        clean(self.table.ports, retention=NOW)

    def compact(self, kind: str, **wish: str) -> None:
        """Compact all there is."""
        ports = self.table.ports
        try:
            plans = [known.plan.id for known in request(ports, kind, **wish)]  # type: ignore[arg-type]
        except InvalidInput:
            return
        compact(ports, plans, in_process(ports.files))


@dataclass
class Play:
    """One change, and when others act."""

    seed: int
    table: Table = field(init=False)
    others: Others = field(init=False)
    draw: Random = field(init=False)

    def __post_init__(self) -> None:
        """Make a table of 40 rows, cut by hour or by day."""
        self.draw = Random(self.seed)
        self.table = new_table(MemoryService())
        ports = self.table.ports
        for first in (0, 20):
            self.table.append(rows(range(first, first + 20)))
        client = MemoryCoordinator(ports.clock, MemoryService())
        elsewhere = Table(
            replace(
                ports,
                author="others",
                randomness=FakeRandomness(1 + self.seed),  # 0 is the table's own: equal file names
                optional_coordinator=client,
            )
        )
        self.others = Others(elsewhere, self.draw, contents(self.table))
        if self.draw.random() < 0.5:
            self.others.compact("major", granularity="day")

    def meanwhile(self) -> None:
        """Let others act, up to twice."""
        for _ in range(self.draw.randrange(3)):
            self.others.act()

    def run(self) -> None:
        """Change the rows below number 10 or so, and compare."""
        kind = self.draw.choice((*ChangeKind,))
        wanted, gone, come = self.wanted(kind)
        looks = 0

        def find(snapshot: Snapshot) -> Found:
            nonlocal looks
            looks += 1
            found = find_rows(wanted, ArrowEngine(), snapshot)
            self.meanwhile()
            return replace(found, prepare=found.prepare and self.prepare(found.prepare))

        storage = self.table.ports.storage
        strikes = [rival(self.meanwhile, storage) for _ in range(self.draw.randrange(3))]
        ports = replace(self.table.ports, storage=Trap(storage, strikes))  # type: ignore[arg-type]
        done = change(ports, find, kind=kind, reason="", commit_id="mine")
        assert looks == 1, "it was evaluated again"
        assert (done.deleted, done.inserted) == (gone.total(), come.total())
        assert contents(self.table) == self.others.expected - gone + come
        self.others.acted["forgotten"] += self.table.state().vectors_pruned_through > 0
        assert list(violations(self.table.state())) == []
        named = {s.path for s in self.table.state().timeline.segments()}
        written = {p for p in self.table.ports.files.store if p.startswith("data/")}  # type: ignore[attr-defined]
        assert written - {s for s in named if s} <= self.table.state().pending_delete

    def wanted(self, kind: ChangeKind) -> tuple[ChangeRequest, Contents, Contents]:
        """Return a change, the rows that it takes away and those that it brings."""
        hit = Counter({pair: 1 for pair in self.others.expected if pair[1] < 4.0})
        where = "price < 4.0"
        if kind is ChangeKind.DELETE:
            return Delete(where=where), hit, Counter()
        if kind is ChangeKind.UPDATE:
            come = Counter({(number, -7.0): 1 for number, _ in hit})
            return Update(set={"price": -7.0}, where=where), hit, come
        both = rows(range(LOADED - 4, LOADED + 40))  # others load some of these
        known = rows(range(8))
        source = pa.concat_tables([known, both]).select(["at", "row", "price"])
        hit = Counter({pair: 1 for pair in self.others.expected if pair[0] < 8})
        come = Counter(zip(source["row"].to_pylist(), source["price"].to_pylist(), strict=True))
        return Merge(source=arrow_rows(source), on=("row",)), hit, come

    def prepare(
        self, inner: Callable[[State], tuple[Mapping[Interval, int], Write]]
    ) -> Callable[[State], tuple[Mapping[Interval, int], Write]]:
        """Let others act before the files are written, too."""

        def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
            counts, write = inner(state)

            def late(ticket: AppendTicket) -> Sequence[Segment]:
                self.meanwhile()
                return write(ticket)

            return counts, late

        return prepare


def test_a_change_takes_the_rows_of_its_snapshot() -> None:
    """No row that was loaded after a change began is touched by it, and it is evaluated once."""
    acted: Counter[str] = Counter()
    for seed in range(SEEDS):
        play = Play(seed)
        try:
            play.run()
        except AssertionError as error:
            error.add_note(f"seed {seed}: {dict(play.others.acted)}")
            raise
        acted += play.others.acted
    assert min(acted[act] for act in ("load", "recut", "update", "sort_and_clean")) > 3
    assert acted["forgotten"]
