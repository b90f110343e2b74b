"""Windows of any history: rows added and changes of rows, against a model that replays the history.

The history has appends, deletes, updates, overwrites, restores, compactions of every kind and
cleanings; a consumer follows it. The model is a list of rows for each version, each row with the
version that added it. It knows nothing of segments, roots or vectors.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput, WindowExpired
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.examples import examples
from tests.unit.table.conftest import SCHEMA, new_table

HOURS = 4
Change = tuple[int, str, int, float]
"""Version, effect, row number and value."""


class Row(NamedTuple):
    """A row, and the version that added it."""

    number: int
    at: int
    value: float
    added: int

    @property
    def shown(self) -> tuple[int, float]:
        """Return what a reader sees."""
        return self.number, self.value


@dataclass
class History:
    """A table, the rows of each version, and the changes of each event."""

    draw: random.Random
    table: Table = field(default_factory=lambda: new_table(MemoryService()))
    versions: list[list[Row]] = field(default_factory=lambda: [[]])
    changes: list[list[Change]] = field(default_factory=lambda: [[]])
    copy: Counter[tuple[int, float]] = field(default_factory=Counter)
    """What a consumer made of the changes that it read."""
    numbers: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the newest version."""
        return self.versions[-1]

    def play(self) -> None:
        """Do one step."""
        kinds = ("minor", "semi-major", "major")
        rows = ("append", "append", "append", "delete", "update", "overwrite")
        step = self.draw.choice((*rows, "restore", "restore", "clean", "consume", *kinds))
        if step in kinds:
            self.compact(step)
        else:
            getattr(self, step)()
        while len(self.versions) <= self.table.state().n:  # events that change no row
            self.versions.append(self.rows)
            self.changes.append([])

    def append(self) -> None:
        """Add rows of several hours."""
        new = self.new(self.draw.randint(1, 5), range(HOURS))
        self.table.append(arrow(new))
        self.became([*self.rows, *new], [], new, "insert", "insert")

    def delete(self) -> None:
        """Delete what is below a value."""
        limit = self.draw.randrange(10)
        gone = [row for row in self.rows if row.value < limit]
        if self.table.delete(f"price < {limit}").n is not None:
            self.became([r for r in self.rows if r not in gone], gone, [], "delete", "insert")

    def update(self) -> None:
        """Add to some values."""
        digit = self.draw.randrange(3)
        old = [row for row in self.rows if row.number % 3 == digit]
        done = self.table.update({"price": Sql("price + 1")}, f"row % 3 = {digit}")
        if done.n is None:
            assert not old
            return
        new = [row._replace(value=row.value + 1, added=len(self.versions)) for row in old]
        left = [row for row in self.rows if row not in old]
        self.became([*left, *new], old, new, "update_before", "update_after")

    def overwrite(self) -> None:
        """Replace an hour."""
        hour = self.draw.randrange(HOURS)
        span = (hour * HOUR_US, (hour + 1) * HOUR_US)
        old = [row for row in self.rows if span[0] <= row.at < span[1]]
        new = self.new(self.draw.randint(0, 2), range(hour, hour + 1))
        if self.table.overwrite(arrow(new), interval=span).n is None:
            assert not [*old, *new]
            return
        left = [row for row in self.rows if row not in old]
        self.became([*left, *new], old, new, "delete", "insert")

    def restore(self) -> None:
        """Bring back any kept version."""
        kept = self.table.state().retained_from
        version = self.draw.randint(kept, len(self.versions) - 1)
        if self.table.restore(version=version).n is None:
            return
        then = self.versions[version]
        gone = [row for row in self.rows if row not in then]
        back = [row for row in then if row not in self.rows]
        self.seen["brought back"] += bool(back)
        self.became(then, gone, back, "delete", "insert")

    def compact(self, kind: str) -> None:
        """Compact; sometimes cut time differently."""
        wishes: dict[str, Any] = {}
        if kind == "major" and self.draw.random() < 0.5:
            wishes["granularity"] = self.draw.choice(("day", "hour"))
        try:
            plans = [known.plan.id for known in request(self.table.ports, kind, **wishes)]
        except InvalidInput:
            return
        compact(self.table.ports, plans, in_process(self.table.ports.files))
        self.seen["compacted"] += 1

    def clean(self) -> None:
        """Clean all that nobody needs, a day later."""
        self.table.ports.clock.sleep(86_400)
        before = self.table.state().retained_from
        keep = Retention(hours=0, versions=self.draw.randint(1, 4), orphan_hours=0)
        clean(self.table.ports, retention=keep)
        self.seen["cleaned"] += self.table.state().retained_from > before

    def consume(self) -> None:
        """Let the consumer read on, and keep what follows."""
        known = self.table.consumers().get("copy")
        start = known.version if known else 0
        if known is None and self.table.state().retained_from:
            return  # it comes too late
        scan = self.table.scan(since_version=start, changes=True)
        for _, effect, *row in told(scan.to_arrow()):
            self.copy[tuple(row)] += 1 if effect in ("insert", "update_after") else -1
        self.table.advance_consumer("copy", scan.version, before=known and known.version)
        assert +self.copy == Counter(row.shown for row in self.versions[scan.version])
        assert not -self.copy
        self.seen["consumed"] += 1

    def new(self, count: int, hours: range) -> list[Row]:
        """Return new rows."""
        first, self.numbers = self.numbers, self.numbers + count
        return [
            Row(
                number,
                self.draw.choice(hours) * HOUR_US + number,
                float(self.draw.randrange(10)),
                len(self.versions),
            )
            for number in range(first, first + count)
        ]

    def became(
        self, rows: list[Row], gone: list[Row], new: list[Row], before: str, after: str
    ) -> None:
        """Remember the rows of the next version, and how they came about."""
        n = len(self.versions)
        self.versions.append(rows)
        came = [(n, after, *row.shown) for row in new]
        self.changes.append([*((n, before, *row.shown) for row in gone), *came])

    def check(self, start: int, end: int, where: str | None = None, limit: float = 99.0) -> None:
        """Compare both reads of a window with the model."""
        rows = self.versions[end]
        expected = [r.shown for r in rows if r.added > start and r.value < limit]
        scan = self.table.scan(since_version=start, version=end, where=where)
        found = scan.to_arrow().select(["row", "price"]).to_pylist()
        assert sorted((row["row"], row["price"]) for row in found) == sorted(expected)
        assert scan.count() == len(expected)
        scan = self.table.scan(since_version=start, version=end, where=where, changes=True)
        changes = [c for some in self.changes[start + 1 : end + 1] for c in some if c[3] < limit]
        feed = told(scan.to_arrow())
        assert sorted(feed) == sorted(changes)
        assert [change[0] for change in feed] == sorted(change[0] for change in feed)
        assert scan.count() == len(changes)


def arrow(rows: list[Row]) -> pa.Table:
    """Return rows as the table takes them."""
    given = [{"at": r.at, "row": r.number, "name": "n", "price": r.value} for r in rows]
    return pa.Table.from_pylist(given, SCHEMA)


def told(feed: pa.Table) -> list[Change]:
    """Return the rows of a change feed, in its order."""
    names = ("_segtable_version", "_segtable_change", "row", "price")
    return [tuple(row[name] for name in names) for row in feed.to_pylist()]


def played(seed: int, length: int) -> History:
    """Return a history after some steps."""
    history = History(random.Random(seed))
    history.table.ports.clock.sleep(1)
    for _ in range(length):
        history.play()
    assert not [*violations(history.table.state())]
    return history


@examples(6)
@given(st.integers(0, 2**32), st.integers(3, 18))
def test_every_window_is_what_the_model_says(seed: int, length: int) -> None:
    """Rows added and changes are exact in every kept window, and cleaned windows are refused."""
    windows(played(seed, length))


def windows(history: History) -> None:
    """Check the longest window and some others, and that earlier ones are refused."""
    newest = history.table.state()
    oldest = newest.retained_from
    history.consume()
    history.check(oldest, newest.n)
    for _ in range(2):
        start = history.draw.randint(oldest, newest.n)
        history.check(start, history.draw.randint(start, newest.n))
    history.check(start, newest.n, "price < 5", 5.0)
    for start in range(max(oldest - 2, 0), oldest):
        refused(history.table, start)


def refused(table: Table, start: int) -> None:
    """A window that was cleaned away is an error which names the oldest start."""
    kept = f"version {table.state().retained_from}"
    for changes in (False, True):
        with pytest.raises(WindowExpired, match=kept):
            table.scan(since_version=start, changes=changes)


def test_windows_of_histories_with_all_that_happens() -> None:
    """The same, over compactions, cleanings, restores and reads of a consumer in each history."""
    seen: Counter[str] = Counter()
    for seed in range(10):
        history = played(seed, 18)
        windows(history)
        seen += history.seen
    assert min(seen[what] for what in ("compacted", "cleaned", "brought back", "consumed")) > 2
