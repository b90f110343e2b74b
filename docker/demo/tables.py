"""The tables of the containers' demo, and how they are made."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import TableExists

ROOT = os.environ.get("DEMO_ROOT", "/lake")
AT = pa.field("at", pa.timestamp("us", "UTC"), nullable=False)
EVENTS, ACCOUNTS, CLICKS = f"{ROOT}/events", f"{ROOT}/accounts", f"{ROOT}/clicks"
SCHEMAS: Mapping[str, pa.Schema] = {
    EVENTS: pa.schema([AT, ("user", pa.int64()), ("kind", pa.string()), ("amount", pa.float64())]),
    ACCOUNTS: pa.schema(
        [
            AT,
            pa.field("id", pa.int64(), nullable=False),
            ("changed", pa.int64()),
            ("balance", pa.int64()),
        ]
    ),
    CLICKS: pa.schema([AT, pa.field("number", pa.int64(), nullable=False), ("page", pa.string())]),
}


def storage_options() -> dict[str, str]:
    """Return the keys of the object store, from the secret that holds them; a volume needs none."""
    path = os.environ.get("SEGTABLE_STORAGE_OPTIONS_FILE")
    return json.loads(Path(path).read_text()) if path else {}


def opened(uri: str) -> Table:
    """Open a table where it is."""
    return Table.open(uri, storage_options=storage_options())


def make() -> None:
    """Make the tables that are not there yet."""
    few = {"compaction.min_segments": "4"}
    _make(
        EVENTS,
        granularity="day",
        properties=few
        | {
            "compaction.clustering": "user",
            "publish.delta": "on",
        },
    )
    # Before its first file, so that whoever waits for the index finds it.
    opened(EVENTS).create_index("by_user", "bloom_filter", "user", commit_id="demo-by-user")
    _make(
        ACCOUNTS,
        granularity="all",
        primary_key="id",
        ordering="changed",
        buckets=2,
        properties={"publish.iceberg": "on"},
    )
    logged = {"log_store.checkpoint_seconds": "5", "log_store.buckets": "2"}
    _make(CLICKS, granularity="day", properties=few | logged)


def _make(uri: str, **settings: object) -> None:
    try:
        Table.create(
            uri,
            schema=SCHEMAS[uri],
            time_column="at",
            storage_options=storage_options(),
            **settings,
        )
        print(f"made {uri}", flush=True)
    except TableExists:
        print(f"{uri} is there", flush=True)
