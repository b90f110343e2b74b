"""Worlds of tables that do not keep rows as they come: with a primary key, and rolled up."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from tests.property.published_world import FIRST_US, World, new_table, random_schema


@dataclass
class KeyedWorld(World):
    """A table with a primary key, whose base files are published."""

    def steps(self) -> dict[Callable[[], None], int]:
        """Return what may happen, with how often."""
        return {self.upsert: 5, self.delete: 2, self.update: 1, self.compact: 5, self.clean: 1}

    def upsert(self) -> None:
        """Write records of a few keys, some of them deletes."""
        ids = sorted({self.draw.randrange(12) for _ in range(self.draw.randint(1, 5))})
        self.count = 12
        made = self.made(ids)
        start = pa.array([FIRST_US] * len(ids), pa.timestamp("us", "UTC"))
        at = made.schema.field("at")
        made = made.set_column(made.schema.get_field_index("at"), at, start.cast(at.type))
        gone = pa.array([self.draw.random() < 0.25 for _ in ids])
        self.table.upsert(made.append_column("gone", gone), deleted="gone")

    def read(self, event: int) -> pa.Table:
        """Read the base files of a version: the read-optimised view."""
        return self.table.scan(version=event, base_only=True).to_arrow()


@dataclass
class RollupWorld(World):
    """A rollup table, published only while it is rolled up perfectly."""

    perfect: bool = True

    def steps(self) -> dict[Callable[[], None], int]:
        """Return what may happen, with how often."""
        acts = {self.append: 3, self.erase: 2, self.compact: 1, self.perfected: 4, self.restore: 1}
        return {**acts, self.clean: 1}

    def columns(self) -> pa.Schema:
        """Return the columns that are written."""
        return ROLLED

    def append(self) -> None:
        """Append rows of few groups."""
        super().append()
        self.perfect = False

    def erase(self) -> None:
        """Delete some groups."""
        self.table.delete(f"k = {self.draw.randrange(3)}")
        self.perfect = False

    def restore(self) -> None:
        """Show an earlier version again, which may be rolled up or not."""
        super().restore()
        self.perfect = False

    def perfected(self) -> None:
        """Roll all chunks up perfectly."""
        with suppress(InvalidInput):  # there may be nothing to compact
            self.table.compact("major")
            self.perfect = True

    def may_refuse(self, name: str, reason: str) -> bool:
        """Return whether some rows may not be rolled up."""
        del name
        return "not rolled up perfectly" in reason and not self.perfect


SUMS = Rollup(
    dimensions=("k",),
    metrics=tuple(map(Metric.parse, ("n=count", "s=sum(id)", "low=min(x)", "high=max(x)"))),
)
ROLLED = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        *(("id", pa.int64()), ("k", pa.int8()), ("x", pa.float64())),
    ]
)


def played(seed: int, root: Path, steps: int, kind: str = "append", **readers: Any) -> World:
    """Play a random history of a table of some kind, and publish its end."""
    draw = Random(seed)
    granularity = draw.choice(("hour", "day", "month"))
    keyed = PrimaryKey(key=("id",), buckets=1 + seed % 3)
    made: dict[str, tuple[type[World], TableKind | None]] = {
        "append": (World, None),
        "keyed": (KeyedWorld, keyed),
        "rollup": (RollupWorld, SUMS),
    }
    world_of, keeps = made[kind]
    schema = ROLLED if kind == "rollup" else random_schema(draw)
    world = world_of(
        draw, root, new_table(root, schema, granularity=granularity, kind=keeps), **readers
    )
    for _ in range(steps):
        world.step()
    world.publish()
    return world
