"""One process of the publishing stress run. All go on until ``FOLDER/stop``, and may be killed.

1. ``append`` appends numbered rows, ``delete`` deletes every second row of an acknowledged append.
   A commit's id says what it does (``rows_of``, ``deleted_by``), so the log alone is the model.
2. ``compact`` plans and asks, and carries out whatever is pending; ``clean`` cleans with a
   retention of seconds; ``publish`` publishes in all formats, again and again.
3. ``delta`` and ``iceberg`` open the newest published version with the libraries of that format,
   and note its event, the number of its rows and their sum, or the error.
4. An error of a worker is noted and does not end it: kills of others cause some.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE, open_context
from airflow_provider_segtable.table.table import Table
from tests.stress.keyed.notes import amount_of, note, notes_in

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
HOUR_US = 3_600_000_000
ROWS = 6
CHUNKS = 2
SESSION_S = 3
FORMATS = ("delta", "iceberg")
RETENTION = "retention"
"""The file with the retention of the cleaner, in seconds."""
PAUSE_S = 0.3


def rows_of(commit_id: str) -> range:
    """Return the rows that an append appends."""
    name, _, turn = commit_id.partition("-")
    first = (int(name[-1]) * 100_000 + int(turn)) * ROWS
    return range(first, first + ROWS)


def deleted_by(commit_id: str) -> range:
    """Return the rows that a delete deletes."""
    return rows_of(commit_id.split("-", 1)[1])[::2]


def append(table: Table, name: str, folder: Path, random: Random) -> None:
    """Append the next rows; after a kill, maybe once more."""
    commit_id = f"{name}-{amount_of(folder / f'{name}.acks')}"
    numbers = rows_of(commit_id)
    at = pa.array([n % CHUNKS * HOUR_US + n for n in numbers], SCHEMA.field("at").type)
    table.append(pa.table({"at": at, "row": [*numbers]}, SCHEMA), commit_id=commit_id)
    note(folder / f"{name}.acks", {"commit": commit_id})
    time.sleep(random.random() * PAUSE_S)


def delete(table: Table, name: str, folder: Path, random: Random) -> None:
    """Delete half of the rows of an append that was acknowledged."""
    acks = [each["commit"] for some in notes_in(folder, "acks").values() for each in some]
    if acks:
        commit_id = f"{name}-{random.choice(acks)}"
        wanted = ", ".join(map(str, deleted_by(commit_id)))
        table.delete(f"row IN ({wanted})", commit_id=commit_id)
    time.sleep(random.random() * PAUSE_S)


def tidy(table: Table, name: str, folder: Path, random: Random) -> None:
    """Plan, or ask for a sorted chunk, and carry out whatever is pending."""
    del name, folder
    plan_table(table.ports)
    if random.random() < 0.5:
        request(table.ports, SemiMajorPlan.kind)
    pending = [known.plan.id for known in table.ports.log.load().pending_plans()]
    compact(table.ports, pending, in_process(table.ports.files), wait_s=1.0)
    time.sleep(random.random() * PAUSE_S)


def sweep(table: Table, name: str, folder: Path, random: Random) -> None:
    """Clean with a short retention; note what went."""
    hours = float((folder / RETENTION).read_text()) / 3600
    kept = Retention(hours=hours, versions=1, orphan_hours=10 * hours)
    run = clean(table.ports, retention=kept)
    swept = sum(map(len, run.targets.values()))
    note(folder / f"{name}.runs", {"files": len(run.files), "swept": swept})
    time.sleep(random.random() * PAUSE_S)


def publish(table: Table, name: str, folder: Path, random: Random) -> None:
    """Publish in all formats; note how long each took."""
    for each in random.sample(FORMATS, len(FORMATS)):
        start = time.time()
        (outcome,) = table.publish(formats=each)
        took_s = time.time() - start
        said = {"format": each, "outcome": type(outcome).__name__, "took_s": took_s}
        note(folder / f"{name}.published", {**said, "start": start})
    time.sleep(random.random() * PAUSE_S)


def read(opened: Callable[[str, Random], Mapping[str, Any] | None]) -> Callable[..., None]:
    """Return what reads the newest published version with a library, and notes what it saw."""

    def look(table: Table, name: str, folder: Path, random: Random) -> None:
        start = time.time()
        try:
            seen = opened(table.ports.uri, random)
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            seen = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        if seen is not None:
            took_s = time.time() - start
            note(folder / f"{name}.looks", {**seen, "start": start, "took_s": took_s})
        time.sleep(random.random() * PAUSE_S / 3)

    return look


def read_delta(uri: str, random: Random) -> Mapping[str, Any] | None:
    """Open the newest version by deltalake; read it by deltalake or Polars."""
    import polars as pl
    from deltalake import DeltaTable, QueryBuilder

    if not (Path(uri) / "_delta_log").exists():
        return None
    table = DeltaTable(uri)
    event, number = table.transaction_version("segtable"), table.version()
    if random.random() < 0.5:
        found = pl.scan_delta(table).select("row").collect()["row"].to_list()
        by = "polars"
    else:
        rows = QueryBuilder().register("t", table).execute("SELECT row FROM t").read_all()
        found, by = pa.table(rows).column("row").to_pylist(), "deltalake"
    return {"by": by, "event": event, "number": number, "rows": len(found), "sum": sum(found)}


def read_iceberg(uri: str, random: Random) -> Mapping[str, Any] | None:
    """Open and read the newest version by pyiceberg, or by Polars."""
    import polars as pl
    from pyiceberg.table import StaticTable

    hint = Path(uri) / "_iceberg" / "metadata" / "version-hint.text"
    if not hint.exists():
        return None
    number = int(hint.read_text())
    metadata = hint.parent / f"v{number}.metadata.json"
    table = StaticTable.from_metadata(str(metadata))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    event = int(snapshot.summary["segtable.event"] or -1)
    if random.random() < 0.5:
        found = pl.scan_iceberg(str(metadata)).select("row").collect()["row"].to_list()
        by = "polars"
    else:
        found = table.scan(selected_fields=("row",)).to_arrow().column("row").to_pylist()
        by = "pyiceberg"
    return {"by": by, "event": event, "number": number, "rows": len(found), "sum": sum(found)}


MODES: Mapping[str, Callable[[Table, str, Path, Random], None]] = {
    "append": append,
    "delete": delete,
    "compact": tidy,
    "clean": sweep,
    "publish": publish,
    "delta": read(read_delta),
    "iceberg": read(read_iceberg),
}


def going(folder: Path) -> Iterator[None]:
    """Yield until all are to stop, or the process that started this one has ended."""
    parent = os.getppid()
    while os.getppid() == parent and not (folder / "stop").exists():
        yield


def work(mode: str, name: str, uri: str, folder: Path) -> None:
    """Be a worker."""
    os.environ[SESSION_TIMEOUT_VARIABLE] = str(SESSION_S)
    table = Table(open_context(uri, author=name, zookeeper=(folder / "zookeeper").read_text()))
    random = Random(f"{name} {amount_of(folder / f'{name}.starts')}")
    note(folder / f"{name}.starts", {"at": time.time()})
    for _ in going(folder):
        try:
            MODES[mode](table, name, folder, random)
        except SegtableError as error:
            note(folder / f"{name}.errors", {"error": f"{type(error).__name__}: {error}"})
            time.sleep(PAUSE_S)
