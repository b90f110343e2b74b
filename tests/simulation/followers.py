"""Actors of the standing disaster that follow a table: what they were told adds up to the table.

1. A follower reads a whole version once, and records its position as a consumer. From then on it
   reads the changes since its position, applies them to its copy, and advances.
2. After each window the copy has the rows of the version that the window ended with. No window may
   have expired: cleaners keep what a consumer has yet to read, however short their retention is.
3. Rows added are rows of the version, too.
4. In the end it drops its consumer, so that the last cleaning can clean.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import WindowExpired
from airflow_provider_segtable.table.table import Table
from tests.every_reader import rows_of, tuples_of
from tests.simulation.caretakers import tolerate

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.scan import Scan
    from tests.simulation.simulator import Actor
    from tests.simulation.world import World

NAME = "follower"
CHANGE = "_segtable_change"
Rows = Counter[tuple[int | None, ...]]


class Follower:
    """A copy of some columns of the table, and the version that it is a copy of."""

    def __init__(self, world: World, table: Table, columns: tuple[str, ...]) -> None:
        self.world, self.table, self.columns = world, table, columns
        self.rows: Rows = Counter()
        self.position: int | None = None

    def read(self) -> None:
        """Read on from the position; begin with a whole version."""
        if self.position is None:
            self._begin()
        else:
            self._go_on(self.position)

    def _begin(self) -> None:
        scan = self.table.scan(columns=self.columns)
        rows = rows_of(scan.to_arrow())
        self.table.advance_consumer(NAME, scan.version)
        self._compare(rows, scan)
        self.rows, self.position = rows, self.table.consumers()[NAME].version

    def _go_on(self, position: int) -> None:
        try:
            scan = self.table.scan(
                since_version=position, changes=True, columns=(*self.columns, CHANGE)
            )
            feed = scan.to_arrow()
        except WindowExpired as error:
            raise AssertionError(f"what a consumer has yet to read was cleaned: {error}") from error
        rows = self.rows.copy()
        effects = feed.column(CHANGE).to_pylist()
        for effect, values in zip(effects, tuples_of(feed.drop_columns([CHANGE])), strict=True):
            rows[values] += 1 if effect in ("insert", "update_after") else -1
        self._compare(rows, scan)
        new = self.table.scan(since_version=position, version=scan.version, columns=self.columns)
        strange = rows_of(new.to_arrow()) - rows
        assert not strange, f"rows added since {position} that version {scan.version} lacks"
        self.rows, self.position = rows, scan.version
        self.table.advance_consumer(NAME, scan.version)

    def _compare(self, rows: Rows, scan: Scan) -> None:
        model = self.world.ledger.models[scan.version]
        expected = Counter(model.shown(self.columns))
        lost, extra = expected - rows, rows - expected
        told = f"rows of version {scan.version} by its changes: lost {lost}, extra {extra}"
        assert rows == expected, f"{told}, negative {-rows}"


def follower(
    world: World, _: int, columns: tuple[str, ...] = ("row", "count")
) -> Callable[[Actor], None]:
    """Somebody who keeps a copy of the table by its changes."""
    known: list[Follower] = []

    def run(actor: Actor) -> None:
        table = Table(world.ports(actor))
        before = known.pop() if known else None
        mine = Follower(world, table, columns)
        if before is not None:  # the copy outlives the process, with its position
            mine.rows, mine.position = before.rows, before.position
        known.append(mine)
        while not world.settled():
            tolerate(actor, "follow", mine.read)
            actor.sleep(actor.uniform())
        while not tolerate(actor, "drop the consumer", lambda: _gone(table)):
            actor.sleep(actor.uniform())

    return run


def _gone(table: Table) -> None:
    if NAME in table.consumers():
        table.drop_consumer(NAME)
