"""A table of any history, published at random points, and what its readers have to find.

1. Every step goes through the library, in one process and on a local disk, as users take it.
2. After each publish, the newest published version and one that is still within retention are read
   by every reader, and must have the rows of the version of their event.
   ``readers`` and ``filters`` are those of the Python libraries unless others are given.
3. A format may refuse a version only for a column type, or while a file has other columns than the
   table. Then its newest published version is the one that it had.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.segment import ChunkKey, tombstone
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Interval
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.publishing.publisher import AlreadyPublished, PublishedNow
from tests.property.published_readers import (
    EVENTS,
    FILTERS,
    NEWEST,
    READERS,
    UNREAD,
    Filter,
    Read,
    pyiceberg_rows,
)
from tests.property.published_values import (
    NO_BOUNDS,
    NOT_EVERYWHERE,
    REFUSED,
    TYPES,
    Row,
    plain,
    rows,
    value,
)

Reader = TypeVar("Reader", bound=Callable[..., Any])

FIRST_US = 1_356_998_400_000_000
DAYS = 3
KEPT = ("at", "id")
"""Columns that no alteration touches."""
ALTERED = {
    "delta": ("in older files (schema",),
    "iceberg": ("was added with the value", "was dropped, and files still have it"),
}
"""Why a version is refused while files have the columns of an earlier schema, by format."""
WIDER = {"int8": "int32", "int16": "int64", "int32": "int64", "float": "double"}
DEFAULTS = (("int32", "7"), ("double", "0.5"), ("string", "x"), ("string", None), ("int64", None))
CUTS = (None, None, "hour", "day", "week", "month")


def new_table(place: Path, schema: pa.Schema, **settings: Any) -> Table:
    """Create an empty table in a folder, coordinated in memory."""
    made = Table.create(str(place), schema=schema, time_column="at", **settings)
    coordinator = MemoryCoordinator(made.ports.clock, MemoryService())
    return Table(replace(made.ports, optional_coordinator=coordinator))


def random_schema(draw: Random) -> pa.Schema:
    """Return a schema of a few columns, now and then with one that a format refuses."""
    fine, coarse = (pa.timestamp("us", "UTC"), pa.timestamp("us")), pa.timestamp("ms", "UTC")
    times = (*fine * 4, coarse)
    kinds = draw.sample(TYPES, 4)
    if draw.random() < 0.05:
        odd = [*NOT_EVERYWHERE, *(each for some in REFUSED.values() for each in some)]
        kinds.append(draw.choice(odd))
    at = pa.field("at", draw.choice(times), nullable=False)
    return pa.schema([at, ("id", pa.int64()), *((f"c{n}", k) for n, k in enumerate(kinds))])


@dataclass
class World:
    """One table, and what has been published of it; ``shown`` maps numbers to events."""

    draw: Random
    root: Path
    table: Table
    shown: dict[str, dict[int, int]] = field(default_factory=dict)
    tables: dict[int, pa.Table] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    count: int = 0
    readers: Mapping[str, Sequence[Read]] = field(default_factory=lambda: READERS)
    filters: Mapping[str, Sequence[Filter]] = field(default_factory=lambda: FILTERS)
    unread: Mapping[Callable[..., Any], Sequence[pa.DataType]] = field(
        default_factory=lambda: UNREAD
    )
    other: Table = field(init=False)

    def __post_init__(self) -> None:
        """Open the table in what could be another process: it publishes now and then, too."""
        self.other = Table.open(str(self.root))

    def steps(self) -> dict[Callable[[], None], int]:
        """Return what may happen, with how often."""
        return {
            self.append: 5,
            self.delete: 3,
            self.update: 1,
            self.merge: 1,
            self.overwrite: 1,
            self.compact: 4,
            self.alter: 3,
            self.restore: 1,
            self.clip: 1,
            self.clean: 1,
        }

    def step(self) -> None:
        """Do something, and publish with even odds."""
        acts = self.steps()
        self.draw.choices([*acts], [*acts.values()])[0]()
        assert list(violations(self.table.state())) == []
        if self.draw.random() < 0.5:
            self.publish()

    def columns(self) -> pa.Schema:
        """Return the columns that are written."""
        return self.table.snapshot().schema

    def made(self, ids: list[int]) -> pa.Table:
        """Return random rows, of the present columns."""
        schema = self.columns()
        unit = schema.field("at").type.unit
        parts = 1000 if unit == "us" else 1
        rows = []
        for each in ids:
            row = {f.name: value(self.draw, f.type, 0.2 * f.nullable) for f in schema}
            late = self.draw.choice((0, 1, self.draw.randrange(DAYS * DAY_US // 1000 * parts)))
            at = FIRST_US // 1000 * parts + late
            rows.append({**row, "at": pa.scalar(at, schema.field("at").type).as_py(), "id": each})
        return pa.Table.from_pylist(rows, schema)

    def append(self) -> None:
        """Append rows of some days."""
        new = range(self.count, self.count + self.draw.randint(1, 6))
        self.count = new.stop
        self.table.append(self.made([*new]))

    def some(self) -> str:
        """Return a condition that holds for some rows."""
        by = self.draw.randint(2, 5)
        return f"id % {by} = {self.draw.randrange(by)}"

    def delete(self) -> None:
        """Delete some rows."""
        ids = self.draw.sample(range(self.count + 1), self.draw.randint(1, self.count + 1) // 2 + 1)
        self.table.delete(f"id in ({', '.join(map(str, ids))})")

    def update(self) -> None:
        """Give a column of some rows another value, perhaps null."""
        schema = self.table.snapshot().schema
        free = [f for f in schema if f.name not in KEPT and not pa.types.is_nested(f.type)]
        if free and self.count:
            one = self.draw.choice(free)
            new = pa.scalar(value(self.draw, one.type), one.type)
            low = self.draw.randrange(self.count)
            self.table.update({one.name: pa.compute.scalar(new)}, f"id between {low} and {low + 2}")

    def merge(self) -> None:
        """Merge rows by id, known and new ones."""
        ids = {self.draw.randrange(self.count + 1) for _ in range(3)}
        self.count += 1
        matched = self.draw.choice(("update", "delete", "ignore"))
        self.table.merge(self.made(sorted(ids)), on=["id"], matched=matched)

    def overwrite(self) -> None:
        """Replace some hours, whose rows may be all of a file or a few."""
        start = FIRST_US + self.draw.randrange(DAYS * 24) * HOUR_US
        end = start + self.draw.choice((1, 7, 24)) * HOUR_US
        new = self.made([self.count])
        self.count += 1
        inside = pa.array([start], pa.timestamp("us", "UTC")).cast(new.schema.field("at").type)
        new = new.set_column(new.schema.get_field_index("at"), new.schema.field("at"), inside)
        self.table.overwrite(new, interval=Interval(start, end))

    def compact(self) -> None:
        """Compact as any of the kinds does, sorted or not, perhaps by other time chunks."""
        kind = self.draw.choice(("minor", "semi-major", "major"))
        options: dict[str, Any] = {}
        if kind == "major":
            options = {"granularity": self.draw.choice(CUTS)}
        if kind != "minor" and self.draw.random() < 0.4:
            options["clustering"] = "id"
        with suppress(InvalidInput):  # there may be nothing to compact
            self.table.compact(kind, **options)

    def alter(self) -> None:
        """Alter a column; a dropped one's name may come back."""
        fields = self.table.snapshot().schema
        free = [f for f in fields if f.name not in KEPT]
        self.count += 1
        if not free or self.draw.random() < 0.3:
            kind, default = self.draw.choice(DEFAULTS)
            gone = {f"c{n}" for n in range(4)} - {*fields.names}
            name = min(gone, default=f"n{self.count}")
            return self.altered(AddColumn(name=name, type=kind, default=default))
        one = self.draw.choice(free)
        wider = WIDER.get(str(one.type))
        changes: list[Any] = [DropColumn(name=one.name), MakeNullable(name=one.name)]
        changes.append(RenameColumn(name=one.name, new=f"{one.name[:1]} {self.count}ü"))
        changes.append(Reorder(names=tuple(self.draw.sample(fields.names, len(fields)))))
        if wider:
            changes += [WidenColumn(name=one.name, type=wider)] * 3
        return self.altered(self.draw.choice(changes))

    def altered(self, change: Any) -> None:
        """Alter the table, if it lets this change be made."""
        with suppress(InvalidInput):
            self.table.alter(columns=[change])

    def restore(self) -> None:
        """Show the rows of an earlier version again."""
        state = self.table.state()
        with suppress(InvalidInput):
            self.table.restore(version=self.draw.randint(state.retained_from, state.n))

    def clip(self) -> None:
        """Hide some hours of a longer chunk: a new version of them alone, without rows."""
        state = self.table.state()
        chunks = [each.interval for each in state.timeline.visible_chunks()]
        longer = [each for each in chunks if each.end - each.start > HOUR_US]
        if not longer:
            return
        whole = self.draw.choice(longer)
        first = self.draw.randrange(min(whole.end - whole.start, DAYS * DAY_US) // HOUR_US)
        start = whole.start + first * HOUR_US
        hours = Interval(start, min(start + self.draw.choice((1, 9)) * HOUR_US, whole.end))
        empty = tombstone(ChunkKey(hours, state.version_above(hours) + 1), state.time)
        action = Appended(segments=(empty,))
        n = state.n + 1
        event = Event(n=n, time=state.time + 1, commit=f"clip {n}", author="x", action=action)
        self.table.ports.storage.create(event_path(n), encode(event))

    def clean(self) -> None:
        """Delete what only older versions need: published versions before the newest are gone."""
        self.expect(self.table.state().n)
        self.table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
        for name, shown in self.shown.items():
            self.shown[name] = dict([max(shown.items())])
            self.check(name, max(shown))

    def expect(self, event: int) -> Counter[Row]:
        """Return the rows of a version."""
        if event not in self.tables:
            self.tables[event] = self.read(event)
        return rows(self.tables[event])

    def read(self, event: int) -> pa.Table:
        """Read a version."""
        return self.table.snapshot(version=event).to_arrow()

    def publish(self) -> None:
        """Publish in some formats, and read what is published."""
        names = self.draw.choice(([*FORMATS], [*FORMATS], *([name] for name in FORMATS)))
        state = self.table.state()
        author = self.draw.choice((self.table, self.other, Table.open(str(self.root))))
        for outcome in author.publish(formats=names, full=self.draw.random() < 0.1):
            name = outcome.format
            self.outcomes[f"{name}: {type(outcome).__name__}"] += 1
            if isinstance(outcome, PublishedNow | AlreadyPublished):
                event = EVENTS[name](self.root, outcome.number)
                assert event <= outcome.event == state.n
                assert self.expect(event) == self.expect(state.n)
                self.shown.setdefault(name, {})[outcome.number] = event
            else:
                assert self.may_refuse(name, str(getattr(outcome, "reason", ""))), outcome
            if self.shown.get(name):
                self.check(name, max(self.shown[name]))
                self.check(name, self.draw.choice([*self.shown[name]]))
                self.filter(name)
                self.filter(name)

    def may_refuse(self, name: str, reason: str) -> bool:
        """Return whether a format has a reason to refuse the newest version."""
        state = self.table.state()
        table = state.table
        visible = [s for s in state.timeline.visible_segments() if s.rows]
        other = {s.schema for s in visible} - {table.schema.number}
        kinds = {str(kind) for kind in REFUSED[name]}
        columns = [c.name for c in table.schema.columns if c.type in kinds]
        altered = other and any(each in reason for each in ALTERED[name])
        return bool(altered) or any(repr(each) in reason for each in columns)

    def check(self, name: str, number: int) -> None:
        """Compare what each reader finds in a published version with the version of its event."""
        event = self.shown[name][number]
        self.expect(event)
        assert NEWEST[name](self.root) == max(self.shown[name])
        for read in self.able(self.readers[name]):
            nulls = read is not pyiceberg_rows
            found = rows(read(self.root, number), nulls=nulls)
            expected = rows(self.tables[event], nulls=nulls)
            case = f"{read.__name__}, version {number}, event {event}"
            assert found == expected, f"{case}: {found - expected} != {expected - found}"

    def able(self, readers: Sequence[Reader]) -> list[Reader]:
        """Return the readers that read all types that columns of the table have or had."""
        table = self.table.state().table
        kinds = {c.type for each in (*table.earlier, table.schema) for c in each.columns}
        return [each for each in readers if kinds.isdisjoint(map(str, self.unread.get(each, ())))]

    def filter(self, name: str) -> None:
        """Let readers filter by a value at the edge of a file, or between."""
        table = self.tables[self.shown[name][max(self.shown[name])]]
        flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
        column = self.draw.choice((*flat, "at"))
        kind = table.schema.field(column).type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or not table.num_rows:
            return
        values = [v for v in table.column(column).to_pylist() if plain(v) not in NO_BOUNDS]
        if not values:
            return
        wanted = self.draw.choice((min(values), max(values), self.draw.choice(values)))
        how = self.draw.choice(("=", "<=", ">="))
        for count in self.able(self.filters[name]):
            found, right = count(self.root, column, how, wanted)
            assert found == right, f"{count.__name__}: {column} {how} {wanted!r}"
