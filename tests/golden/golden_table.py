"""The table that the golden files are written from: fixed clock, ids, schema and rows."""

import shutil
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.table import create_table
from tests.support.in_memory import context_in_memory

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("carrier", pa.string())])
APPEND = Append()
FIRST_US = 1_356_998_400_000_000
CARRIERS = ("UA", "AA", "B6", "DL", "EV", None)


def batch(turn: int) -> pa.Table:
    """Return two rows of the first hours of 2013."""
    first = FIRST_US + turn * 1_000_000
    times = pa.array([first, first + 3_600_000_000], SCHEMA.field("at").type)
    return pa.table({"at": times, "carrier": [CARRIERS[turn], "WN"]}, SCHEMA)


def golden_table(number: int, schema: pa.Schema = SCHEMA, kind: TableKind = APPEND) -> TableContext:
    """Create the empty table in memory, and return the context to write through."""
    context = context_in_memory(uri="golden", author="golden", rooted=True)
    definition = TableDefinition(
        table_id=f"00000000-0000-0000-0000-{number:012}",
        name="golden",
        schema=from_arrow(schema),
        time_column="at",
        granularity=Granularity.HOUR,
        properties={"compaction.min_segments": "2"},
    )
    create_table(context, of_kind(definition, kind))
    return context


def write_files(storage: Storage, place: Path, published: tuple[str, ...] = ()) -> None:
    """Replace a folder by the table's files, and those of published versions in some folders."""
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("_segtable", "data", "deletes", *published):
        for entry in storage.list(folder):
            path = place / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(storage.read(entry.path))
