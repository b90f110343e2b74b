"""Reads agree with a naive oracle: read the whole version, and filter it in Arrow.

Tables have several row groups a file, nulls, NaN and both zeros, deleted rows, compacted and
sorted files, and versions of different ages.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.data.sql.sql_text import parsed
from airflow_provider_segtable.data.sql.sql_values import holds
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, new_table

TABLES = 8
READS = 12
NAMES = (None, "", "a", "ab", "b", "é", "zz")
PRICES = (None, math.nan, -0.0, 0.0, 0.5, 1.0, -3.25, 1e300)
HOURS = 4


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups of a few rows."""
    for name in ("jobs.segment_writer.GROUP_ROWS", "jobs.sorted_writer.SORTED_ROWS"):
        monkeypatch.setattr(f"airflow_provider_segtable.data.{name}", 2)
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.passthrough.GROUP_ROWS", 3)


def drawn_rows(draw: Random) -> pa.Table:
    """Return rows whose values lie near each other, so that bounds of row groups differ."""
    first, hour = draw.randrange(-20, 20), draw.randrange(HOURS)
    given = [
        {
            "at": hour * HOUR_US + draw.randrange(5) * draw.choice((1, HOUR_US)),
            "row": draw.choice((None, first, first + 1, first + 2)),
            "name": draw.choice(NAMES[first % 4 :]),
            "price": draw.choice(PRICES),
        }
        for _ in range(draw.randrange(1, 9))
    ]
    return pa.Table.from_pylist(given, SCHEMA)


@dataclass
class Model:
    """What a table has in plain Python: its rows, each with the event that appended it."""

    table: Table
    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    versions: list[list[tuple[int, dict[str, Any]]]] = field(default_factory=lambda: [[]])

    def append(self, rows: pa.Table) -> None:
        """Append rows to both."""
        n = self.table.append(rows).n
        self.rows = [*self.rows, *((n, row) for row in rows.to_pylist())]

    def delete(self, number: int, name: str) -> None:
        """Delete rows from both."""
        self.table.delete(f"row = {number} OR name = '{name}'")
        self.leave_out(lambda row: row["row"] == number or row["name"] == name)

    def leave_out(self, gone: Callable[[dict[str, Any]], bool]) -> None:
        """Forget rows that were deleted."""
        self.rows = [(n, row) for n, row in self.rows if not gone(row)]

    def note(self) -> None:
        """Note the rows of all versions since the last call."""
        self.versions += [self.rows] * (self.table.state().n + 1 - len(self.versions))

    def shown(self, *, version: int, where: str, since: int = -1) -> pa.Table:
        """Return the rows of a version that match, of those that came after an event."""
        rows = [row for n, row in self.versions[version] if n > since]
        return naive(pa.Table.from_pylist(rows, SCHEMA), where)


def drawn_table(draw: Random) -> Table:
    """Return a table after appends, deletes and compactions."""
    return played(draw, Model(new_table(MemoryService()))).table


def played(draw: Random, model: Model) -> Model:
    """Append, delete and compact; return the model."""
    table = model.table

    def compacted(kind: str) -> None:
        try:
            plans = [known.plan.id for known in request(table.ports, kind)]  # type: ignore[arg-type]
        except InvalidInput:
            return
        compact(table.ports, plans, in_process(table.ports.files))

    acts: tuple[Callable[[], object], ...] = (
        lambda: model.append(drawn_rows(draw)),
        lambda: model.append(drawn_rows(draw)),
        lambda: model.delete(draw.randrange(-20, 20), "ab"),
        lambda: compacted("minor"),
        lambda: compacted("major"),
    )
    model.note()
    model.append(drawn_rows(draw))
    for _ in range(draw.randrange(4, 14)):
        model.note()
        draw.choice(acts)()
    model.note()
    return model


COMPUTED = (
    "isnan(price)",
    "price > row",
    "row + 1 > 3",
    "upper(name) = 'AB'",
    "name rlike '^a'",
    "hour(at) = 1",
    "(price > 0.5) is not true",
    "greatest(row, 2) = 2",
)
"""Conditions that are no predicates, so that only the parts beside them skip anything."""


def sql(draw: Random, depth: int = 2) -> str:
    """Return a condition."""
    if depth and draw.random() < 0.6:
        left, right = sql(draw, depth - 1), sql(draw, depth - 1)
        return draw.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    hour, micros = draw.randrange(HOURS), draw.randrange(5)
    column, values = draw.choice(
        (
            ("row", [str(draw.randrange(-22, 22)) for _ in range(3)]),
            ("row", [f"{draw.randrange(-22, 22)}{draw.choice(('.5', 'e0', '.0'))}"] * 3),
            ("row", [draw.choice(("1e300", "-1e300", "'3'", "9223372036854775808"))] * 3),
            ("name", [f"'{draw.choice(NAMES[1:])}'" for _ in range(3)]),
            ("price", [draw.choice(("0", "0.5", "-3.25", "1e300", "0.1")) for _ in range(3)]),
            ("at", [f"timestamp '1970-01-01 0{hour}:00:00.00000{micros}'"] * 2),
        )
    )
    compare = draw.choice(("=", "!=", "<", "<=", ">", ">="))
    return draw.choice(
        (
            f"{column} {compare} {values[0]}",
            f"{column} {compare} {values[0]}",
            f"{column} IN ({', '.join(values)})",
            f"{column} IS NULL",
            f"{column} IS NOT NULL",
            f"{column} <=> {values[0]}",
            draw.choice(COMPUTED),
        )
    )


def expression(draw: Random) -> pc.Expression:
    """Return an Arrow expression."""
    one = draw.choice(
        (
            pc.field("row") > draw.randrange(-22, 22),
            pc.field("row").isin([draw.randrange(-22, 22), None]),
            pc.field("name") <= draw.choice(NAMES[1:]),
            pc.field("price") < draw.choice(PRICES[2:]),
            pc.field("price").is_nan(),
            pc.field("row").is_null(),
        )
    )
    how = draw.randrange(4)
    if how > 1:
        return one
    return ~one if how else one & (pc.field("name") != "a")


def naive(every: pa.Table, where: Any) -> pa.Table:
    """Return the rows that match, of all rows."""
    if isinstance(where, str):
        return every.filter(holds(parsed(where, "", ""), every))
    return every.filter(where)


def plain(rows: pa.Table) -> list[str]:
    """Return rows as texts, in which NaN equals NaN."""
    return [str(row) for row in rows.to_pylist()]


def test_a_scan_is_the_filtered_whole() -> None:
    """Any columns, condition, interval and version give the rows of the oracle, in its order."""
    some = 0
    for seed in range(TABLES):
        draw = Random(seed)
        table = drawn_table(draw)
        newest = table.state().n
        for _ in range(READS):
            where = sql(draw) if draw.random() < 0.7 else expression(draw)
            start = draw.randrange(HOURS) * HOUR_US + draw.randrange(3)
            interval = draw.choice((None, Interval(start, start + draw.randrange(1, 3 * HOUR_US))))
            version = draw.randrange(1, newest + 1)
            columns = draw.sample(SCHEMA.names, draw.randrange(1, 5))
            every = table.snapshot(version=version).to_arrow(interval=interval)
            scan = table.scan(columns=columns, where=where, interval=interval, version=version)
            wanted = naive(every, where).select(columns)
            found = scan.to_arrow()
            case = f"seed {seed}: {where}, {interval}, version {version}"
            assert plain(found) == plain(wanted), case
            assert scan.count() == wanted.num_rows, case
            some += 0 < wanted.num_rows < every.num_rows
    assert some > TABLES * READS // 4


def test_what_a_condition_shows_is_what_it_deletes() -> None:
    """A delete finds the rows of a scan by the same condition, and leaves the others."""
    for seed in range(TABLES):
        draw = Random(1000 + seed)
        table = drawn_table(draw)
        for _ in range(3):
            where = sql(draw) if draw.random() < 0.7 else expression(draw)
            before, gone = table.snapshot().count(), table.scan(where=where).count()
            assert table.delete(where, dry_run=True).deleted == gone, f"seed {seed}: {where}"
            assert table.delete(where).deleted == gone, f"seed {seed}: {where}"
            assert table.scan(where=where).count() == 0
            assert table.snapshot().count() == before - gone
