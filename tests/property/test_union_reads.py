"""Reads with the live tail show what a checkpoint at that moment makes all other reads show.

Writers append to buckets of a log store and replace each other; rows are committed by checkpoints
and beside them, deleted, and compacted, in an append table and in ones with a primary key.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segments.invariants import violations
from airflow_provider_segtable.core.tables.keyed.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeEngine
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
READS: tuple[dict[str, Any], ...] = (
    {},
    {"where": "name >= 'n3'"},
    {"where": "row < 4"},
    {"columns": ["name"], "interval": "1970-01-01T01:00/1970-01-01T02:00"},
    {"columns": ["row"], "where": "price > 10"},
)


@dataclass
class World:
    """A table with its log store."""

    draw: Random
    streamed: Streamed
    written: int = 0
    pending: Cut | None = None
    keyed: bool = field(init=False)

    def __post_init__(self) -> None:
        """Look at the table's kind."""
        self.keyed = self.streamed.table.state().table.kind.rules is not None

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
        self.streamed.send(self.draw.choice(BUCKETS), rows, gone)

    def write(self) -> None:
        """Commit rows beside the log store."""
        table = self.streamed.table
        (table.upsert if self.keyed else table.append)(self.rows())

    def checkpoint(self) -> None:
        """Commit what the store holds; sometimes the store hears of it later."""
        if self.pending is None:
            self.pending = self.streamed.cut()
            self.streamed.commit(self.pending)
        if self.draw.random() < 0.5:
            self.settle()

    def settle(self) -> None:
        """Tell the store of the last commit."""
        if self.pending is not None:
            self.streamed.store.committed(self.pending)
            self.pending = None

    def replace(self) -> None:
        """Begin a new epoch of a bucket, whose store sometimes does not hear of it yet."""
        self.settle()
        self.streamed.begin(self.draw.choice(BUCKETS))

    def delete(self) -> None:
        """Delete some rows."""
        self.streamed.table.delete(where=f"row = {self.draw.randint(0, 20)}")

    def compact(self) -> None:
        """Compact the table."""
        try:
            compacted(self.streamed.table, self.draw.choice(["minor", "semi-major", "major"]))
        except InvalidInput:
            return  # there is nothing to compact

    def read(self) -> None:
        """Compare a read with the live tail to one after a checkpoint."""
        asked = self.draw.choice(READS)
        table = self.streamed.table
        before, n = sorted_rows(table.scan(**asked).to_arrow()), table.state().n
        union = self.streamed.union(**asked)
        found, count = sorted_rows(union.to_arrow()), union.count()
        assert (union.version, table.state().n) == (n, n)
        assert sorted_rows(table.scan(**asked).to_arrow()) == before
        self.settle()
        self.streamed.checkpoint()
        assert found == sorted_rows(table.scan(**asked).to_arrow())
        assert count == len(found)
        assert sorted_rows(union.to_arrow()) == found


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
