"""A table that lives through all that can happen to one, published after each stage."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.library.table import Table
from tests.property.published_readers import EVENTS, NEWEST
from tests.property.published_values import Row, rows
from tests.property.published_world import new_table

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("row", pa.int32()),
        ("name", pa.string()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("local", pa.timestamp("us")),
    ]
)
START = datetime(2026, 1, 30, tzinfo=UTC)
REFUSED_BY_DELTA = ("widened", "renamed", "dropped", "restored")
"""Stages in which files have columns under another name or type."""
FORMATS = {"publish.delta": "on", "publish.iceberg": "on", "publish.lag_seconds": "0"}


def batch(table: Table, start: int, count: int = 60) -> pa.Table:
    """Return numbered rows of some days, in the present columns."""
    made = []
    for n in range(start, start + count):
        at = START + timedelta(hours=n % 96)
        row = {"at": at, "local": at.replace(tzinfo=None), "row": n, "name": f"n{n % 7}"}
        made.append({**row, "fare": None if n % 5 == 0 else n / 4, "price": n})
    schema = table.snapshot().schema
    return pa.Table.from_pylist([{k: r.get(k) for k in schema.names} for r in made], schema)


STAGES: Mapping[str, Callable[[Table], object]] = {
    "empty": lambda _: None,
    "appended": lambda t: t.append(batch(t, 0)),
    "appended again": lambda t: t.append(batch(t, 60)),
    "deleted": lambda t: t.delete("row % 6 = 1"),
    "minor": lambda t: t.compact("minor"),
    "appended after it": lambda t: t.append(batch(t, 120)),
    "tagged": lambda t: t.tag("january"),
    "updated": lambda t: t.update({"name": "'new'"}, "row between 50 and 70"),
    "semi-major": lambda t: t.compact("semi-major"),
    "merged": lambda t: t.merge(batch(t, 170, 20), on=["row"]),
    "z-order": lambda t: t.compact("major", clustering="zorder(row, name)"),
    "deleted from it": lambda t: t.delete("row > 175 or name = 'n3'"),
    "by the hour": lambda t: t.compact("major", granularity="hour"),
    "deleted by the hour": lambda t: t.delete("row % 11 = 3"),
    "by the month": lambda t: t.compact("major", granularity="month"),
    "column added": lambda t: t.alter(columns=[AddColumn(name="more", type="string")]),
    "appended with it": lambda t: t.append(batch(t, 300)),
    "widened": lambda t: t.alter(columns=[WidenColumn(name="row", type="int64")]),
    "renamed": lambda t: t.alter(columns=[RenameColumn(name="name", new="label")]),
    "dropped": lambda t: t.alter(columns=[DropColumn(name="fare")]),
    "written anew": lambda t: t.compact("major"),
    "restored": lambda t: t.restore(tag="january"),
    "compacted at last": lambda t: t.compact("major"),
}


@dataclass(frozen=True)
class Life:
    """A table that lived through all stages, and its event after each of them."""

    table: Table
    root: Path
    events: Mapping[str, int]

    def rows(self, stage: str) -> Counter[Row]:
        """Return the rows after a stage, as the log has them."""
        return rows(self.table_of(stage))

    def table_of(self, stage: str) -> pa.Table:
        """Return the rows after a stage as a table."""
        return self.table.scan(version=self.events[stage]).to_arrow()

    def number(self, name: str, stage: str) -> int:
        """Return the number of the newest version up to the event of a stage."""
        first = 0 if name == "delta" else 1
        numbers = range(first, NEWEST[name](self.root) + 1)
        event = self.events[stage]
        return max(n for n in numbers if EVENTS[name](self.root, n) <= event)


def lived(root: Path) -> Life:
    """Make a table, and publish each stage unless a format cannot show it."""
    table = new_table(root, SCHEMA, granularity="day", properties=FORMATS)
    events = {}
    for name, act in STAGES.items():
        act(table)
        table.publish()
        events[name] = table.state().n
        assert list(violations(table.state())) == []
    return Life(table, root, events)
