"""The commands that a writer carries out, and the rows that a table must have after them.

1. A command appends rows, upserts rows by ``id``, or deletes rows by a condition on ``id``.
2. *append*: rows of four days. Every third command is late data, every third a delete, which hits
   rows of every file.
3. *keyed*: upserts of random keys, a tenth of them new. The highest ``number`` of a key wins; a
   tenth of the rows come late, with a lower number. Every third command is a delete by keys, and
   a deleted key is not written again.
4. The expected rows follow from the commands that were acknowledged, one after another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

DAYS = 4
DAY_US = 86_400_000_000
START_US = 1_767_225_600_000_000
RESIDUES = 499
"""A delete takes one row of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is written."""

    fill_commits: int
    fill_rows: int
    keys: int
    rows: int
    alone: int
    """Commands of the writer before the compaction."""
    scans: int = 3
    """Of as many scans the median counts."""


@dataclass(frozen=True, slots=True)
class Command:
    """One write: rows to append or upsert, or a condition to delete by."""

    verb: str
    rows: pa.Table | None = None
    residue: int = -1

    @property
    def where(self) -> str:
        """Return the condition of a delete."""
        return f"id % {RESIDUES} = {self.residue}"


def table_of(ids: np.ndarray, numbers: np.ndarray, days: np.ndarray, seed: int) -> pa.Table:
    """Return rows with these ids and numbers, in these days."""
    random = np.random.default_rng([seed, len(ids)])
    at = START_US + days * DAY_US + random.integers(0, DAY_US, len(ids))
    return pa.table(
        {
            "id": ids,
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "day": pa.array(START_US // DAY_US + days, pa.int32()).cast(pa.date32()),
            "number": numbers,
            "amount": random.normal(100, 20, len(ids)),
            "kind": pa.array([f"kind-{k}" for k in random.integers(0, 50, len(ids))]),
        }
    )


@dataclass(slots=True)
class Workload:
    """The commands of one table, and its expected rows."""

    kind: str
    size: Size
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """By id; -1 where there is no such row."""
    deletes: int = 0
    turn: int = 0

    def fill(self) -> Iterator[Command]:
        """Yield the commands that fill the table with small files."""
        if self.kind == "keyed":
            yield self._upsert(np.arange(self.size.keys), late=False)
            for _ in range(self.size.fill_commits // 2):
                yield self._upsert(self._keys(self.size.fill_rows), late=True)
            return
        for _ in range(self.size.fill_commits):
            yield self._append(self.size.fill_rows, spread=DAYS)

    def next(self) -> Command:
        """Return the writer's next command."""
        self.turn += 1
        if self.turn % 3 == 2:
            self.deletes += 1
            return Command("delete", residue=self.deletes % RESIDUES)
        if self.kind == "keyed":
            return self._upsert(self._keys(self.size.rows), late=True)
        return self._append(self.size.rows, spread=DAYS if self.turn % 3 else 1)

    def acknowledge(self, command: Command) -> None:
        """Apply a command that the system has committed."""
        if command.rows is None:
            self.numbers[command.residue :: RESIDUES] = -1
            return
        ids = command.rows.column("id").to_numpy()
        given = command.rows.column("number").to_numpy()
        room = max(0, int(ids.max()) + 1 - len(self.numbers))
        self.numbers = np.concatenate([self.numbers, np.full(room, -1, np.int64)])
        self.numbers[ids] = np.maximum(self.numbers[ids], given)

    def differences(self, found: pa.Table) -> dict[str, int]:
        """Return how many rows are lost, doubled or unexpected, and how many are stale."""
        ids, numbers = (found.column(name).to_numpy() for name in ("id", "number"))
        expected = np.flatnonzero(self.numbers >= 0)
        unique, first = np.unique(ids, return_index=True)
        both = np.intersect1d(unique, expected, assume_unique=True)
        at = first[np.searchsorted(unique, both)]
        counts = {
            "lost": len(expected) - len(both),
            "doubled": len(ids) - len(unique),
            "not deleted": len(unique) - len(both),
            "stale": int((numbers[at] != self.numbers[both]).sum()),
        }
        return {name: count for name, count in counts.items() if count}

    def _random(self) -> np.random.Generator:
        return np.random.default_rng([len(self.numbers), self.turn, self.deletes])

    def _append(self, rows: int, *, spread: int) -> Command:
        random = self._random()
        ids = np.arange(len(self.numbers), len(self.numbers) + rows)
        days = random.integers(0, spread, rows)
        numbers = random.integers(0, 2**40, rows)
        return Command("append", table_of(ids, numbers, days, len(self.numbers)))

    def _keys(self, rows: int) -> np.ndarray:
        random = self._random()
        known = np.flatnonzero(self.numbers >= 0)
        old = random.choice(known, rows - rows // 10, replace=False)
        new = np.arange(len(self.numbers), len(self.numbers) + rows // 10)
        return np.concatenate([np.sort(old), new])

    def _upsert(self, ids: np.ndarray, *, late: bool) -> Command:
        random = self._random()
        known = np.full(len(ids), 0, np.int64)
        old = ids < len(self.numbers)
        known[old] = self.numbers[ids[old]]
        numbers = known + random.integers(1, 1000, len(ids))
        if late:
            behind = (random.random(len(ids)) < 0.1) & (known > 0)
            numbers[behind] = known[behind] - 1
        return Command("upsert", table_of(ids, numbers, ids % DAYS, len(self.numbers)))
