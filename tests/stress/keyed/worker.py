"""One process of the keyed stress run. All go on until ``FOLDER/stop``, and may be killed any time.

1. ``upsert`` and ``change`` write one numbered commit after another, whose contents the number says
   (``workload``). ``stream`` writes micro-batches as Spark does: it notes a batch before it writes
   it, and as done afterwards, and after a restart runs the last one again, even if it is done.
2. A writer's clock is off by what its number says, five minutes at most. Every second one has no
   coordinator. Each acknowledged commit is noted in ``FOLDER/NAME.acks``, with the number of files
   that its process created for it: more than the event names would mean that it began again.
3. ``minor``, ``base`` and ``compact`` want log and base compactions and carry them out, beside and
   against each other (``services``); ``clean``, ``travel`` and ``follow`` do what they are called.
4. An error of a writer ends its work and is noted in ``FOLDER/NAME.errors``: none is excused.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import INDEXES
from airflow_provider_segtable.ports.files import DataFiles, Sink
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import (
    SESSION_TIMEOUT_VARIABLE,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.table import Table
from tests.simulation.keyed.records import CHUNKS, GONE, batch
from tests.stress.keyed import follower, services, workload
from tests.stress.keyed.notes import amount_of, note
from tests.stress.keyed.services import Going

APART_S = 300.0
"""How far the slowest writer's clock is behind the fastest, which is right."""
WRITERS = ("upsert", "change", "stream", "spark")
PAUSE_S, PAUSES, LONGEST_PAUSE_S = 0.2, 6.0, 2.0
"""Longest pauses between commits, in seconds and in times of the last commit: a busy machine must
not leave all of its time to the writers."""
SESSION_S = 3


class Skewed(SystemClock):
    """A wall clock that is behind."""

    def __init__(self, behind_s: float) -> None:
        """Begin."""
        self._behind_us = round(behind_s * 1e6)

    def now(self) -> int:
        """Return the wall clock in microseconds since the epoch, UTC, as this host believes."""
        return super().now() - self._behind_us


@dataclass
class Counted:
    """Data files that count how many are created, but for those of indexes."""

    inner: DataFiles
    created: int = 0

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Start a new file."""
        self.created += not path.startswith(INDEXES)
        return self.inner.create(path)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner one's."""
        return getattr(self.inner, name)


def with_clock(ports: TableContext, mode: str, name: str) -> TableContext:
    """Return ports with the clock of a worker: that of writer 0, and of services, is right."""
    if mode not in WRITERS:
        return ports
    behind_s = int(name[-1]) / 7 * APART_S
    return replace(ports, clock=Skewed(behind_s), most_skew_s=APART_S + 30)


def going(folder: Path) -> Iterator[None]:
    """Yield until all are to stop, or whoever started this process has ended."""
    parent = os.getppid()
    while os.getppid() == parent and not (folder / "stop").exists():
        yield


def write(
    ports: TableContext, name: str, folder: Path, going: Going, once: Callable[..., int | None]
) -> None:
    """Make one numbered commit after another; one that was not acknowledged is made again."""
    acks, random = folder / f"{name}.acks", Random(name)
    turn = amount_of(acks)
    for _ in going:
        _commit(
            ports, acks, f"{name}-{turn}", lambda ports, made: once(ports, folder, made), random
        )
        turn += 1


def _commit(
    ports: TableContext,
    acks: Path,
    commit_id: str,
    once: Callable[[TableContext, str], int | None],
    random: Random,
) -> None:
    """Make a commit, and note it; then pause."""
    files, start = Counted(ports.files), time.time()
    n = once(replace(ports, files=files), commit_id)
    took_s = time.time() - start
    note(acks, {"commit": commit_id, "n": n, "took_s": took_s, "files": files.created})
    time.sleep(random.random() * min(LONGEST_PAUSE_S, max(PAUSE_S, PAUSES * took_s)))


def upsert(ports: TableContext, folder: Path, commit_id: str) -> int | None:
    """Upsert the records of a commit."""
    del folder
    rows = batch(workload.records_of(*workload.writer_and_turn(commit_id, {})), CHUNKS)
    return Table(ports).upsert(rows, deleted=GONE, commit_id=commit_id).n


def change(ports: TableContext, folder: Path, commit_id: str) -> int | None:
    """Delete or update the rows of some keys; note before from which version on it looked."""
    name, turn = workload.writer_and_turn(commit_id, {})
    note(folder / f"{name}.begun", {"commit": commit_id, "begun": ports.log.load().n})
    where = workload.condition(workload.changed_keys(name, turn))
    text = workload.changed_text(name, turn)
    if text is None:
        return Table(ports).delete(where, commit_id=commit_id).n
    new = {"text": pc.scalar(pa.scalar(text, pa.int64()))}
    return Table(ports).update(new, where, commit_id=commit_id).n


def stream(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Write micro-batches, once each, whatever is run again."""
    checkpoint = folder / f"{name}.checkpoint"
    checkpoint.mkdir(exist_ok=True)
    if not (checkpoint / "metadata").exists():
        (checkpoint / "metadata.new").write_text(json.dumps({"id": str(uuid.uuid4())}))
        (checkpoint / "metadata.new").rename(checkpoint / "metadata")
    query = next(q for q, owner in workload.streams_in(folder).items() if owner == name)
    offsets, random = checkpoint / "offsets", Random(name)
    turn = max(0, amount_of(offsets) - 1)  # the last one again

    def once(ports: TableContext, commit_id: str) -> int | None:
        rows = batch(workload.records_of(name, turn), CHUNKS)
        return Table(ports).upsert(rows, deleted=GONE, commit_id=commit_id).n

    for _ in going:
        if amount_of(offsets) == turn:
            note(offsets, {"batch": turn})
        _commit(ports, folder / f"{name}.acks", f"{query}-{turn}", once, random)
        turn += 1


def serve(mode: str, ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Do what a mode says as long as it goes on."""
    match mode:
        case "upsert":
            write(ports, name, folder, going, upsert)
        case "change":
            write(ports, name, folder, going, change)
        case "stream":
            stream(ports, name, folder, going)
        case "spark":
            from tests.stress.keyed.spark_stream import run_stream

            run_stream(ports, name, folder, going)
        case "follow":
            follower.follow(ports, name, folder, going)
        case _:
            services.SERVICES[mode](ports, name, folder, going)


def work(mode: str, name: str, uri: str, folder: Path) -> None:
    """Be a worker."""
    os.environ[SESSION_TIMEOUT_VARIABLE] = str(SESSION_S)
    address = (folder / "zookeeper").read_text()
    alone = mode in WRITERS and not int(name[-1]) % 2
    try:
        ports = open_context(uri, author=name, zookeeper=None if alone else address)
        serve(mode, with_clock(ports, mode, name), name, folder, going(folder))
    except SegtableError as error:
        note(folder / f"{name}.errors", {"error": f"{type(error).__name__}: {error}"})
        for _ in going(folder):
            time.sleep(PAUSE_S)
