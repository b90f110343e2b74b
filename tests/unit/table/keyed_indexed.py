"""A primary-key table by the day with an index of records, and what is read of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.library.table import Table
from tests.support.clock import START, FakeRandomness

SCHEMA = pa.schema(
    [("key", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("seq", pa.int64()), ("v", pa.int64())]
)
DELETED = "gone"
KEYS = "keys"


def new_table(place: Path | str, *, ordering: str = "seq", index: bool = True) -> Table:
    """Return an empty table with the index unless it is left out."""
    made = Table.create(
        str(place),
        schema=SCHEMA,
        time_column="at",
        granularity="day",
        primary_key="key",
        buckets=2,
        ordering=ordering,
    )
    if index:
        made.create_index(KEYS, "record_index")
    return made


def writer(table: Table, seed: int) -> Table:
    """Return the same table in another process."""
    return Table(replace(table.ports, author=f"writer {seed}", randomness=FakeRandomness(seed)))


def rows(*given: Mapping[str, Any]) -> pa.Table:
    """Return rows: ``key``, ``day``, ``seq``, ``v``, and whether each deletes its key."""
    found = [
        {
            "key": row["key"],
            "at": START + row.get("day", 0) * DAY_US,
            "seq": row.get("seq", 0),
            "v": row.get("v", row.get("seq", 0)),
            DELETED: row.get(DELETED, False),
        }
        for row in given
    ]
    return pa.Table.from_pylist(found, SCHEMA.append(pa.field(DELETED, pa.bool_())))


def upsert(table: Table, *given: Mapping[str, Any]) -> int:
    """Upsert rows as one event; return its number."""
    return table.upsert(rows(*given), deleted=DELETED).n


def read(table: Table) -> list[tuple[int, int, int]]:
    """Return the rows of the newest version: key, day and ``v``, sorted."""
    found = table.scan().to_arrow()
    days = ((at - START) // DAY_US for at in found["at"].cast(pa.int64()).to_pylist())
    columns = (found[name].to_pylist() for name in ("key", "v"))
    keys, values = columns
    return sorted(zip(keys, days, values, strict=True))


def facts(table: Table) -> list[tuple[int, int]]:
    """Return the facts of the index: key and day, sorted."""
    found = table.index_entries(KEYS)
    days = ((at - START) // DAY_US for at in found["start"].cast(pa.int64()).to_pylist())
    return sorted(zip(found["key_1"].to_pylist(), days, strict=True))


def unique(found: Iterable[tuple[int, ...]]) -> bool:
    """Return whether no two rows have one key."""
    keys = [row[0] for row in found]
    return len(keys) == len(set(keys))
