"""Reads with the live tail show what a checkpoint at that moment makes all other reads show.

Both are compared with a plain model: the rows or records of commits in their order, and of buckets
what is not committed yet. Writers append to buckets of a log store and replace each other; rows are
committed by checkpoints and beside them, deleted, and compacted, in an append table and in ones
with a primary key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine, MergeRules
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.ports.log_store import Cut
from tests.examples import examples
from tests.unit.table.conftest import SCHEMA
from tests.unit.table.streamed import BUCKETS, Streamed, table_of
from tests.unit.table.test_windows import compacted

HOUR_US = 3_600_000_000
KEYS = 9
KINDS: dict[str, TableKind | None] = {
    "append": None,
    "latest": PrimaryKey(key=("row",), buckets=2),
    "ordered": PrimaryKey(key=("row",), buckets=2, ordering="price"),
    "partial": PrimaryKey(key=("row",), buckets=2, merge=MergeEngine.PARTIAL_UPDATE),
}
Row: TypeAlias = dict[str, Any]
READS: tuple[tuple[dict[str, Any], Callable[[Row], bool]], ...] = (
    ({}, lambda _: True),
    ({"where": "name >= 'n3'"}, lambda row: row["name"] is not None and row["name"] >= "n3"),
    ({"where": "row < 4"}, lambda row: row["row"] < 4),
    (
        {"columns": ["name"], "interval": "1970-01-01T01:00/1970-01-01T02:00"},
        lambda row: row["at"].hour == 1,
    ),
    ({"columns": ["row"], "where": "price > 10"}, lambda row: row["price"] > 10),
)
"""What is read, and which rows it is to show."""
GONE = "gone"


@dataclass
class World:
    """A table with its log store."""

    draw: Random
    streamed: Streamed
    written: int = 0
    pending: Cut | None = None
    rules: MergeRules | None = field(init=False)
    committed: list[Row] = field(default_factory=list)
    tails: dict[int, list[Row]] = field(default_factory=lambda: {each: [] for each in BUCKETS})

    def __post_init__(self) -> None:
        """Look at the table's kind."""
        self.rules = self.streamed.table.state().table.kind.rules

    @property
    def keyed(self) -> bool:
        """Return whether the table has a primary key."""
        return self.rules is not None

    def shown(self, records: list[Row]) -> list[Row]:
        """Return the rows that records in their order leave."""
        if self.rules is None:
            return records
        ordering, partial = self.rules.ordering, self.rules.partial
        rows: dict[int, Row] = {}
        for record in sorted(records, key=lambda each: each[ordering] if ordering else 0):
            key, gone = record["row"], record[GONE]
            before = rows.pop(key, {})
            given = {k: v for k, v in record.items() if v is not None or not partial}
            if not gone:
                rows[key] = {**dict.fromkeys(SCHEMA.names), **(before if partial else {}), **given}
        return [*rows.values()]

    @property
    def tail(self) -> list[Row]:
        """Return what is not committed, in the order in which a checkpoint commits it."""
        return [row for bucket in BUCKETS for row in self.tails[bucket]]

    def rows(self) -> pa.Table:
        """Return a few new rows; of a table with keys, of few keys."""
        found = []
        for _ in range(self.draw.randint(1, 5)):
            self.written += 1
            key = self.draw.randrange(KEYS) if self.keyed else self.written
            found.append(
                {
                    "at": key % 3 * HOUR_US + 7,
                    "row": key,
                    "name": self.draw.choice([None, f"n{self.written}"]),
                    "price": float(self.draw.randint(0, 20)),
                }
            )
        return pa.Table.from_pylist(found, SCHEMA)

    def send(self) -> None:
        """Append rows to a bucket."""
        rows = self.rows()
        gone = [self.draw.random() < 0.3 for _ in range(rows.num_rows)]
        bucket = self.draw.choice(BUCKETS)
        self.streamed.send(bucket, rows, gone)
        self.tails[bucket] += noted(rows, gone)

    def write(self) -> None:
        """Commit rows beside the log store."""
        table = self.streamed.table
        rows = self.rows()
        (table.upsert if self.keyed else table.append)(rows)
        self.committed += noted(rows)

    def checkpoint(self) -> None:
        """Commit what the store holds; sometimes the store hears of it later."""
        if self.pending is None:
            self.pending = self.streamed.cut()
            self.streamed.commit(self.pending)
            self._commit_tail()
        if self.draw.random() < 0.5:
            self.settle()

    def _commit_tail(self) -> None:
        self.committed += self.tail
        self.tails = {each: [] for each in BUCKETS}

    def settle(self) -> None:
        """Tell the store of the last commit."""
        if self.pending is not None:
            self.streamed.store.committed(self.pending)
            self.pending = None

    def replace(self) -> None:
        """Begin a new epoch of a bucket, whose store sometimes does not hear of it yet."""
        self.settle()
        bucket = self.draw.choice(BUCKETS)
        self.streamed.begin(bucket)
        self.tails[bucket] = []

    def delete(self) -> None:
        """Delete some rows."""
        number = self.draw.randint(0, 20)
        self.streamed.table.delete(where=f"row = {number}")
        if self.keyed:
            seen = [row for row in self.shown(self.committed) if row["row"] == number]
            self.committed += [{**row, GONE: True} for row in seen]
        else:
            self.committed = [row for row in self.committed if row["row"] != number]

    def compact(self) -> None:
        """Compact the table."""
        try:
            compacted(self.streamed.table, self.draw.choice(["minor", "semi-major", "major"]))
        except InvalidInput:
            return  # there is nothing to compact

    def read(self) -> None:
        """Compare a read with the live tail to one after a checkpoint."""
        asked, matches = self.draw.choice(READS)
        table = self.streamed.table
        before, n = sorted_rows(table.scan(**asked).to_arrow()), table.state().n
        union = self.streamed.union(**asked)
        found, count = sorted_rows(union.to_arrow()), union.count()
        assert (union.version, table.state().n) == (n, n)
        assert sorted_rows(table.scan(**asked).to_arrow()) == before
        names = asked.get("columns", SCHEMA.names)
        every = self.shown([*self.committed, *self.tail])
        right = [{name: row[name] for name in names} for row in every if matches(row)]
        assert found == sorted(map(repr, right))
        self.settle()
        self.streamed.checkpoint()
        self._commit_tail()
        assert found == sorted_rows(table.scan(**asked).to_arrow())
        assert count == len(found)
        assert sorted_rows(union.to_arrow()) == found


def noted(rows: pa.Table, gone: Sequence[bool] = ()) -> list[Row]:
    """Return rows as the model has them; some of them delete their keys."""
    flags = gone or [False] * rows.num_rows
    return [{**row, GONE: flag} for row, flag in zip(rows.to_pylist(), flags, strict=True)]


def sorted_rows(rows: pa.Table) -> list[str]:
    """Return rows as text, in an order of their own."""
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("kind", KINDS)
@examples(5)
@given(seed=st.integers(0, 2**32))
def test_a_read_with_the_tail_is_one_after_a_checkpoint(kind: str, seed: int) -> None:
    """Whatever was appended, committed, replaced, deleted and compacted before."""
    draw = Random(seed)
    world = World(draw, Streamed(table_of(KINDS[kind])))
    steps = [world.send] * 4 + [
        world.write,
        world.checkpoint,
        world.replace,
        world.delete,
        world.compact,
    ]
    for _ in range(3):
        for _ in range(draw.randint(1, 7)):
            draw.choice(steps)()
        world.read()
    assert list(violations(world.streamed.table.state())) == []
