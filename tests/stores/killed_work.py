"""Works on a table that a process may be killed in, and that the next process repeats.

Each work begins at a table that ``prepared`` has made, and can be repeated: by the same commit id,
or because it looks for what is left to do. ``WANTED`` are the rows that it leaves.
"""

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.library.table import Table
from tests.stores.test_table_cycle import rows

PART = 20
BEFORE = 4
WAIT_S = 60.0
PUBLISHED = ("delta",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a table is, how it is reached, and a folder for files."""

    uri: str
    zookeeper: str
    options: Mapping[str, str]
    folder: Path

    def open(self) -> Table:
        """Open the table."""
        return Table.open(self.uri, zookeeper=self.zookeeper, storage_options=dict(self.options))


def part(turn: int) -> pa.Table:
    """Return the rows of an append."""
    return rows(turn * PART, PART)


def prepared(place: Place, work: str) -> None:
    """Make the table that a work begins at: some small segments, some of them deleted."""
    table = Table.create(
        place.uri,
        schema=part(0).schema,
        time_column="at",
        granularity="all" if work == "upsert" else "day",
        primary_key="x" if work == "upsert" else None,
        properties={"compaction.min_segments": "2"},
        zookeeper=place.zookeeper,
        storage_options=dict(place.options),
    )
    for turn in range(BEFORE):
        (table.upsert if work == "upsert" else table.append)(part(turn))
    if work == "index":
        table.create_index("numbers", "bloom_filter", "x")
    if work == "clean":
        table.compact("minor", wait_s=WAIT_S)
        table.compact("major", wait_s=WAIT_S)
    if work == "ingest":
        pq.write_table(part(BEFORE), place.folder / "given.parquet")
    table.ports.coordinator.close()


def _compacted(table: Table, kind: str) -> None:
    try:
        table.compact(kind, wait_s=WAIT_S)
    except InvalidInput:  # an earlier attempt has done it
        if kind != "minor":
            raise
    table.compact(wait_s=WAIT_S)


def _indexed(table: Table) -> None:
    """Build the index; leave none to a process that is dead, whose claim ends with its session."""
    deadline = time.monotonic() + WAIT_S
    while not table.index("numbers").current and time.monotonic() < deadline:
        table.run_index("numbers")


def _logged(table: Table) -> None:
    with table.log_writer(embedded=True, automatic=False, wait_s=WAIT_S) as writer:
        there = set(numbers(table))
        new = part(BEFORE)
        if not there.issuperset(new["x"].to_pylist()):
            writer.append(new)
        writer.checkpoint()


def numbers(table: Table) -> list[int]:
    """Return the numbers of the table's rows."""
    return sorted(table.scan().to_arrow()["x"].to_pylist())


Work = Callable[[Table, Path], object]

WORKS: Mapping[str, Work] = {
    "append": lambda table, _: table.append(part(BEFORE), commit_id="again"),
    "ingest": lambda table, folder: table.ingest(str(folder / "given.parquet"), commit_id="again"),
    "upsert": lambda table, _: table.upsert(part(BEFORE), commit_id="again"),
    "minor": lambda table, _: _compacted(table, "minor"),
    "major": lambda table, _: _compacted(table, "major"),
    "index": lambda table, _: _indexed(table),
    "clean": lambda table, _: table.clean(retention_hours=0, retention_versions=1, orphan_hours=0),
    "publish": lambda table, _: table.publish(formats=PUBLISHED),
    "log": lambda table, _: _logged(table),
}
ADDS = {"append", "ingest", "upsert", "log"}


def wanted(work: str) -> list[int]:
    """Return the numbers of the rows after a work."""
    return list(range((BEFORE + (work in ADDS)) * PART))


def run(place: Place, work: str) -> None:
    """Do a work in a process of its own; an error is written, and is its exit code."""
    os.environ["SEGTABLE_SESSION_TIMEOUT_S"] = "2"
    try:
        table = place.open()
        WORKS[work](table, place.folder)
        table.ports.coordinator.close()
    except BaseException:  # noqa: BLE001  # a process's own end
        (place.folder / "error").write_text(traceback.format_exc())
        sys.exit(1)
