"""Wide tables: the calls of an operation grow with the number of columns, and no faster.

Of loops in C these counts know nothing: ``tests/architecture/test_width.py`` finds those.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.formats.iceberg.metadata import refusals
from airflow_provider_segtable.library.table import Table

NARROW, WIDE = 40, 160
GROWTH = 1.25 * WIDE / NARROW
DAY_US = 86_400_000_000


def rows(width: int, first: int = 0) -> pa.Table:
    """Return three rows of an event time, a key, and numbers and texts in turns."""
    at = pa.array([20_000 * DAY_US + n for n in range(3)], pa.timestamp("us", "UTC"))
    values = ([1, 2, None], ["a", None, "b"])
    more = {f"c{n}": values[n % 2] for n in range(width - 2)}
    return pa.table({"at": at, "id": range(first, first + 3), **more})


def calls(run: Callable[[], object]) -> int:
    """Return the number of calls in this thread, of functions in Python and in C."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def appended(place: Path, width: int) -> list[int]:
    """Return the calls of an append, a scan, a sorting compaction and an alteration."""
    some = rows(width)
    table = Table.create(
        str(place), schema=some.schema, time_column="at", zookeeper=f"memory://{place}"
    )
    table.append(some)
    column = AddColumn(name="later", type="int64")
    return [
        calls(lambda: table.append(some)),
        calls(lambda: table.scan().to_arrow()),
        calls(lambda: table.compact("semi-major")),
        calls(lambda: table.alter(columns=[column])),
        calls(lambda: table.append(some)),
        calls(lambda: list(refusals(table.state().table, {0, 1}))),
    ]


def upserted(place: Path, width: int) -> list[int]:
    """Return the calls of an upsert, a scan, a delete and a compaction by a primary key."""
    some = rows(width)
    table = Table.create(
        str(place),
        schema=some.schema,
        time_column="at",
        primary_key="id",
        buckets=1,
        zookeeper=f"memory://{place}",
    )
    table.upsert(some)
    return [
        calls(lambda: table.upsert(rows(width, first=1))),
        calls(lambda: table.scan().to_arrow()),
        calls(lambda: table.delete("c0 = 2")),
        calls(lambda: table.compact("semi-major")),
    ]


@pytest.mark.parametrize("kind", [appended, upserted])
def test_calls_grow_with_the_columns(
    kind: Callable[[Path, int], list[int]], tmp_path: Path
) -> None:
    """Four times the columns are at most five times the calls."""
    kind(tmp_path / "warm", NARROW)  # what is imported at first use
    narrow, wide = kind(tmp_path / "narrow", NARROW), kind(tmp_path / "wide", WIDE)
    growth = [many / few for few, many in zip(narrow, wide, strict=True)]
    assert max(growth) < GROWTH, growth
