"""One process of the stress run: ``python -m ...stress.worker MODE NAME TABLE ZOOKEEPER FOLDER``.

1. ``append`` appends numbered rows to every chunk, again and again, and notes each acknowledged
   append with how long it took in ``FOLDER/NAME.acks``. A commit id says which rows it has.
2. ``change`` deletes or updates rows of acknowledged appends in the same manner (``changes``), and
   ``tend`` cleans, and looks at old versions.
3. ``minor``, ``semi-major`` and ``major`` want compactions of their kind and carry them out in
   Spark tasks; each run is noted in ``FOLDER/NAME.runs``.
4. ``index`` builds what the table's indexes lack (``indexing``).
5. All go on until ``FOLDER/stop`` appears, and may be killed at any time.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import HOUR_US, Granularity
from airflow_provider_segtable.ports.coordination import Coordinator, Lease
from airflow_provider_segtable.services.attempt import Execute
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.stress import changes, indexing
from tests.stress.changes import rows_of

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("row", pa.int64()),
        ("count", pa.int64()),
    ]
)
CHUNKS = 3
KEYS = 97
LOCK_WAIT_S = 60.0
RECUT_EVERY = 4
CHANGES_PAUSE_S = 5.0
"""A change reads the whole table: without a pause, changes alone would take all cores."""
INDEX_PAUSE_S = 2.0
PAUSES_S = {MinorPlan.kind: 0.2, SemiMajorPlan.kind: 4.0, MajorPlan.kind: 10.0}
"""Larger compactions are rarer, as a planner would have it."""


def batch(commit_id: str) -> pa.Table:
    """Return an append's rows, spread over the chunks."""
    numbers = rows_of(commit_id)
    times = [(n % CHUNKS) * HOUR_US + n % HOUR_US for n in numbers]
    keys = [f"key-{n * 7919 % KEYS:03d}" for n in numbers]
    at = pa.array(times, SCHEMA.field("at").type)
    return pa.table([at, keys, list(numbers), [0] * len(keys)], SCHEMA)


@dataclass
class Timed:
    """A coordinator that knows how long acquiring locks took."""

    inner: Coordinator
    acquiring_s: float = 0.0

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Acquire, with a watch."""
        start = time.monotonic()
        try:
            return self.inner.acquire_for_append(request, wait_s=wait_s)
        finally:
            self.acquiring_s += time.monotonic() - start

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner one's."""
        return getattr(self.inner, name)


def append(ports: TableContext, name: str, folder: Path) -> None:
    """Append one numbered batch after another."""

    def once(ports: TableContext, commit_id: str) -> None:
        Table(ports).append(batch(commit_id), commit_id=commit_id)

    _one_by_one(ports, name, folder, once)


def change(ports: TableContext, name: str, folder: Path) -> None:
    """Delete or update rows of one append after another."""
    _one_by_one(
        ports,
        name,
        folder,
        changes.change_once,
        lambda commit_id: changes.ready(commit_id, folder),
        CHANGES_PAUSE_S,
    )


def _one_by_one(
    ports: TableContext,
    name: str,
    folder: Path,
    once: Callable[[TableContext, str], None],
    ready: Callable[[str], bool] = lambda _: True,
    pause_s: float = 0.1,
) -> None:
    """Commit one numbered thing after another; repeat one until it is acknowledged."""
    acks = folder / f"{name}.acks"
    turn = len(acks.read_text().splitlines()) if acks.exists() else 0
    while not (folder / "stop").exists():
        commit_id, start = f"{name}-{turn}", time.time()
        if not ready(commit_id):
            time.sleep(0.1)
            continue
        timed = Timed(ports.coordinator)
        action = partial(once, replace(ports, optional_coordinator=timed), commit_id)
        while not (folder / "stop").exists():
            if _tolerated(action):
                took_s = time.time() - start
                note = {"commit": commit_id, "start": start, "took_s": took_s}
                _note(acks, {**note, "lock_s": timed.acquiring_s})
                turn += 1
                break
        time.sleep(pause_s)


def maintain(ports: TableContext, kind: str, name: str, folder: Path) -> None:
    """Want compactions of a kind and carry out all that are pending, in Spark tasks."""
    from airflow_provider_segtable.spark.driver.session import session
    from airflow_provider_segtable.spark.writes.distribution import spark_execute

    execute = spark_execute(session(f"stress {name}", master="local[2,4]"))
    randomness = random.Random(f"{name} {time.time_ns()}")
    turn = 0
    while not (folder / "stop").exists():
        turn += 1
        _tolerated(lambda: _want(ports, kind, randomness, turn))  # noqa: B023
        _tolerated(lambda: _carry_out(ports, kind, execute, folder / f"{name}.runs"))
        time.sleep(PAUSES_S[kind] * randomness.uniform(0.5, 1.5))


def index(ports: TableContext, name: str, folder: Path) -> None:
    """Build indexes, and begin them anew now and then."""
    turn = 0
    while not (folder / "stop").exists():
        turn += 1
        _tolerated(partial(_index, ports, folder / f"{name}.runs", turn))
        time.sleep(INDEX_PAUSE_S)


def _index(ports: TableContext, runs: Path, turn: int) -> None:
    start = time.time()
    run = indexing.run_once(ports, turn)
    note = {"kind": indexing.KIND, "exclusive": False, "start": start, "files": run.files}
    _note(runs, {**note, "took_s": time.time() - start, "ended": run.ended, "message": run.message})


def _want(ports: TableContext, kind: str, randomness: random.Random, turn: int) -> None:
    if kind == MinorPlan.kind:
        plan_table(ports)
        return
    state = EventLog(ports.storage).load()
    chunks = [c for c in state.timeline.visible_chunks() if _rows(state, c)]
    if not chunks:
        return
    recut = kind == MajorPlan.kind and turn % RECUT_EVERY == 0
    cut = (Granularity.DAY, Granularity.HOUR)[turn // RECUT_EVERY % 2] if recut else None
    try:
        request(ports, kind, interval=randomness.choice(chunks).interval, granularity=cut)
    except InvalidInput as nothing:
        sys.stderr.write(f"{nothing}\n")


def _rows(state: State, chunk: object) -> int:
    groups = state.timeline.visible_groups(chunk)  # type: ignore[arg-type]
    return sum(segment.rows for group in groups for segment in group.segments)


def _carry_out(ports: TableContext, kind: str, execute: Execute, runs: Path) -> None:
    for known in EventLog(ports.storage).load().pending_plans():
        if known.plan.kind != kind:
            continue
        start = time.time()
        (result,) = compact(ports, [known.plan.id], execute, wait_s=LOCK_WAIT_S)
        exclusive = known.plan.facts()["granularity"] is not None
        note = {
            "kind": kind,
            "exclusive": exclusive,
            "start": start,
            "took_s": time.time() - start,
            "ended": result.ended.value,
            "in": result.segments_in,
            "out": result.segments_out,
            "message": result.message,
        }
        _note(runs, note)


def _note(path: Path, note: Mapping[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(note) + "\n")


def _tolerated(action: Callable[[], object]) -> bool:
    """Tell whether an action succeeded; typed errors are a worker's daily bread."""
    try:
        action()
    except SegtableError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        time.sleep(0.1)
        return False
    return True


def main(mode: str, name: str, uri: str, zookeeper: str, folder: Path) -> None:
    """Run one worker."""
    ports = open_context(uri, zookeeper=zookeeper, author=name)
    if mode == "append":
        append(ports, name, folder)
    elif mode == "change":
        change(ports, name, folder)
    elif mode == "index":
        index(ports, name, folder)
    elif mode == "tend":
        changes.tend(ports, folder, _tolerated)
    else:
        maintain(ports, mode, name, folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
