"""Rows looked up by key are those of a scan: at every version, whatever was written and compacted.

Tables have keys of one and of several columns, of numbers, text and dates; records that come late,
tombstones, partial updates, keys in several time chunks, other buckets, restores and new columns.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.data.parquet import page_reader

TABLES = 16
STEPS = 10
DAY0 = datetime(2026, 1, 1, tzinfo=UTC)

KEYS: dict[str, tuple[list[str], Callable[[int], tuple[Any, ...]]]] = {
    "number": (["id"], lambda n: (n,)),
    "text": (["name"], lambda n: (f"k{n % 7}é{n}",)),
    "two": (["id", "name"], lambda n: (n % 9, f"k{n}")),
    "day": (["on", "id"], lambda n: (date(2026, 1, 1 + n % 5), n)),
}
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("on", pa.date32()),
        ("seq", pa.int64()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups and pages of a few rows, and read pages for a value."""
    monkeypatch.setattr(page_reader, "_ROWS_A_VALUE", 1)
    monkeypatch.setattr(page_reader, "LEAST_ROWS", 0)
    for name, rows in (
        ("jobs.segment_writer.GROUP_ROWS", 13),
        ("keyed.merge_job.SORTED_ROWS", 11),
        ("keyed.merge_job.PAGE_ROWS", 3),
        ("keyed.log_files.PAGE_ROWS", 2),
    ):
        monkeypatch.setattr(f"airflow_provider_segtable.data.{name}", rows)


def record(draw: Random, key: str, n: int) -> dict[str, Any]:
    columns, of = KEYS[key]
    values: dict[str, Any] = {"id": n, "name": str(n), "on": date(2026, 1, 2)}
    values.update(zip(columns, of(n), strict=True))
    return {
        **values,
        "at": DAY0 + timedelta(hours=draw.randrange(72)),
        "seq": draw.randrange(6),
        "price": draw.choice((None, 0.0, 1.5, float(n))),
        "tags": draw.choice((None, [], [str(n), None])),
    }


def step(draw: Random, table: Table, key: str) -> None:
    """Write, compact, alter or restore."""
    match draw.randrange(9):
        case 0:
            with suppress(InvalidInput):  # nothing to compact
                table.compact(draw.choice(("minor", "semi-major")))
        case 1:
            with suppress(InvalidInput):
                table.compact("major", buckets=draw.choice((1, 2, 3, 5)))
        case 2 if "extra" not in table.schema.names:
            table.alter(columns=[AddColumn(name="extra", type="int32", default="7")])
        case 3 if "price" in table.schema.names:
            table.alter(columns=[RenameColumn(name="price", new="cost")])
        case 4 if table.state().n > 2:
            table.restore(version=table.state().n - draw.randrange(1, 3))
        case _:
            rows = [record(draw, key, draw.randrange(40)) for _ in range(draw.randrange(1, 30))]
            schema = table.schema
            for row in rows:
                row["cost"] = row["price"]
            given = pa.Table.from_pylist(rows, schema)
            gone = pa.array([draw.random() < 0.2 for _ in rows])
            table.upsert(given.append_column("gone", gone), deleted="gone")


def expected(rows: pa.Table, columns: list[str], wanted: list[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of keys in the order of the keys, those of one key by time chunk."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows.to_pylist():
        found.setdefault(tuple(row[name] for name in columns), []).append(row)
    return [
        row
        for key in dict.fromkeys(wanted)
        for row in sorted(found.get(key, ()), key=lambda each: each["at"].date())
    ]


@pytest.mark.parametrize("seed", range(TABLES))
def test_rows_of_keys_are_those_of_a_scan(seed: int, tmp_path: Any) -> None:
    """``get`` agrees with a scan of the same version, and so does a condition on the key."""
    draw = Random(seed)
    key = [*KEYS][seed % len(KEYS)]
    columns, of = KEYS[key]
    table = Table.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        time_column="at",
        primary_key=columns,
        buckets=draw.choice((1, 2, 4)),
        ordering=draw.choice(("", "seq")),
        merge=draw.choice(("latest", "latest", "partial_update")),
        zookeeper="memory://lookups",
    )
    for _ in range(STEPS):
        step(draw, table, key)
        version = draw.randrange(table.state().n + 1)
        scanned = table.scan(version=version).to_arrow()
        wanted = [of(draw.randrange(45)) for _ in range(draw.choice((1, 3, 12)))]
        single = [each[0] for each in wanted] if len(columns) == 1 else wanted
        found = table.get(single, version=version)
        assert found.schema == scanned.schema
        assert found.to_pylist() == expected(scanned, columns, wanted)
        some = table.get(single, version=version, columns=["at", "tags"])
        assert some.equals(found.select(["at", "tags"]))
        named = table.scan(version=version, where=equality(columns, wanted[0])).to_arrow()
        assert by_time(named) == by_time(
            pa.Table.from_pylist(expected(scanned, columns, wanted[:1]), scanned.schema)
        )


def by_time(rows: pa.Table) -> list[Any]:
    return sorted(rows.to_pylist(), key=lambda row: row["at"])


def equality(columns: list[str], key: tuple[Any, ...]) -> str:
    """Return the condition on a key as SQL."""
    parts = []
    for name, value in zip(columns, key, strict=True):
        text = str(value) if isinstance(value, int) else f"'{value}'"
        parts.append(f"`{name}` = {f'date {text}' if isinstance(value, date) else text}")
    return " AND ".join(parts)
