"""One process of the soak: a writer, a service, a reader or a tender.

    python -m tests.stress.log_store.worker MODE NAME URI ADDRESS FOLDER

1. A *writer* (``embedded`` or ``external``, of the bucket that its name ends with) sends rows with
   numbers of their own: each time it opens, a new block of ``BLOCK`` numbers. It notes where its
   block begins, and how many of its rows it was told are committed. Of several writers of a bucket
   one writes. The others stand by, and take the bucket when its commits have stopped for a while.
   So one that was asleep wakes up replaced.
2. A *service* serves the table, as ``segtable logstore serve`` does.
3. A *reader* follows all buckets, and keeps a copy of each with its position. It begins again with
   what it saved. Records must follow each other without gap or duplicate; a reset takes some away.
4. A *member* shares the buckets with the others of its group. It notes the numbers that it was
   given before it stores its positions.
5. A *tender* compacts.
6. Each ends when ``stop-MODE`` is in the folder, readers and members not before they have all that
   is committed. What must not happen is noted in ``NAME.wrong``.
"""

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import Fenced, LockLost, SegtableError
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Position
from airflow_provider_segtable.library.log_reader import (
    BucketExpired,
    BucketReset,
    LogItem,
    TableLogReader,
)
from airflow_provider_segtable.library.log_server import LogServer
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log_store.tail import LogRecords
from tests.stress.log_store.slow_storage import Slow

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int64(), nullable=False),
        ("text", pa.string()),
    ]
)
BUCKETS = 2
BLOCK = 10_000_000
ROWS = 20
PAUSE_S = 0.02
QUIET_S = 5.0
"""How long no commit comes before a writer that stands by takes the bucket."""
SAVE_S = 3.0
CHECKPOINT_S = 1.0
TEXT = "x" * 80
GROUP = "soak"
LOG = logging.getLogger("soak")


class Work:
    """What all modes share."""

    def __init__(self, mode: str, name: str, uri: str, address: str, folder: Path) -> None:
        self.mode, self.name, self.folder = mode, name, folder
        sign = folder / "slow"
        ports = open_context(uri, zookeeper=address, author=name)
        self.ports: TableContext = replace(
            ports,
            storage=Slow(ports.storage, sign),  # type: ignore[arg-type]
            files=Slow(ports.files, sign),  # type: ignore[arg-type]
        )

    @property
    def stopped(self) -> bool:
        """Return whether this mode is to end."""
        return (self.folder / f"stop-{self.mode}").exists()

    def note(self, kind: str, **what: object) -> None:
        """Add a line to a file of this worker."""
        with (self.folder / f"{self.name}.{kind}").open("a") as notes:
            notes.write(json.dumps({"at": time.time(), **what}) + "\n")

    def wrong(self, what: str) -> None:
        """Note what must not happen."""
        self.note("wrong", what=what)


def main(argv: list[str]) -> int:
    """Work until told to stop; begin again after what faults explain."""
    mode, name, uri, address, folder = argv
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    while not (Path(folder) / f"stop-{mode}").exists():
        try:
            work = Work(mode, name, uri, address, Path(folder))
            MODES[mode](work)
        except SegtableError as error:
            LOG.info("%s: %s", type(error).__name__, error)
            time.sleep(0.5)
        except Exception:
            LOG.exception("unexpected")
            (Path(folder) / f"{name}.wrong").open("a").write(
                json.dumps({"at": time.time(), "what": traceback.format_exc()[-2000:]}) + "\n"
            )
            time.sleep(1)
    return 0


def write(work: Work) -> None:
    """Write a bucket, whenever nobody else does."""
    bucket = int(work.name[-1])
    while not work.stopped:
        if _is_quiet(work, bucket):
            with Table(work.ports).log_writer(
                buckets=[bucket],
                embedded=work.mode == "embedded",
                checkpoint_seconds=CHECKPOINT_S if work.mode == "embedded" else None,
            ) as writer:
                _send_all(work, bucket, writer)


def _is_quiet(work: Work, bucket: int) -> bool:
    """Return whether a bucket's commits have stopped, or never began."""
    log = work.ports.log
    state = log.load()
    end, epoch = bucket_of(state, bucket).end, bucket_of(state, bucket).epoch
    until = time.monotonic() + (QUIET_S if epoch else 0)
    while time.monotonic() < until and not work.stopped:
        time.sleep(0.3)
        state = log.refresh(state)
        if (bucket_of(state, bucket).end, bucket_of(state, bucket).epoch) != (end, epoch):
            return False
    return not work.stopped


def _send_all(work: Work, bucket: int, writer: TableLogWriter) -> None:
    """Send rows until told to stop, or fenced."""
    block, start = _next_block(work), writer.end[bucket]
    work.note("blocks", block=block, start=start, bucket=bucket, epoch=writer.epoch)
    sent, told = 0, 0
    try:
        while not work.stopped:
            rows = _rows(block + sent)
            first = writer.append(rows) if sent % (5 * ROWS) == 0 else writer.send(rows)
            if first[bucket] != start + sent:
                work.wrong(f"rows {sent} of block {block} have offset {first}, not from {start}")
            sent += ROWS
            if (known := writer.committed[bucket] - start) - told > 500:
                told = known
                work.note("committed", block=block, rows=told, at_offset=start)
            time.sleep(PAUSE_S)
        writer.checkpoint() if work.mode == "embedded" else writer.flush()
        work.note("committed", block=block, rows=writer.committed[bucket] - start, at_offset=start)
    except Fenced as error:
        LOG.info("replaced: %s", error)
        work.note("fenced", block=block)


def _next_block(work: Work) -> int:
    """Return the first number of a block that nobody has."""
    taken = work.folder / "blocks"
    taken.mkdir(exist_ok=True)
    for n in range(1, 100_000):
        try:
            os.close(os.open(taken / str(n), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return n * BLOCK
    raise AssertionError("too many blocks")


def _rows(first: int) -> pa.Table:
    numbers = np.arange(first, first + ROWS)
    at = pa.array(numbers % 3_600_000_000, SCHEMA.field("at").type)
    return pa.table([at, numbers, pa.array([TEXT] * ROWS)], SCHEMA)


def serve(work: Work) -> None:
    """Serve the table until told to stop."""
    provider = FlightLogStoreProvider(deploy_mode=DeployMode.EXTERNAL)
    server = LogServer([work.ports], provider, checkpoint_s=CHECKPOINT_S)
    server.start()
    try:
        while not (work.stopped or server.over):
            time.sleep(0.2)
    finally:
        server.close()


class Copy:
    """The numbers of a bucket's records, from the first on, and the position after them."""

    def __init__(self, work: Work, bucket: int) -> None:
        self._work, self._bucket = work, bucket
        self._path = work.folder / f"{work.name}-{bucket}.npz"
        self.rows, self.position = np.empty(1 << 16, np.int64), BEGINNING
        self.resets = 0
        if self._path.exists():
            saved = np.load(self._path)
            self.position = Position(epoch=int(saved["epoch"]), offset=len(saved["rows"]))
            self.rows, self.resets = saved["rows"], int(saved["resets"])

    def take(self, found: LogItem) -> None:
        """Add records, or take some away."""
        match found:
            case LogRecords(first=first, after=after, rows=rows):
                if first != self.position.offset:
                    self._work.wrong(f"bucket {self._bucket}: {first} follows {self.position}")
                self._add(first, rows.column("row").to_numpy())
                self.position = after
            case BucketReset():
                if found.offset > self.position.offset:
                    self._work.wrong(f"bucket {self._bucket}: {found} at {self.position}")
                self.resets += found.offset < self.position.offset
                self.position = found.position
            case BucketExpired():
                self._work.wrong(f"bucket {self._bucket}: {found}, but nothing is ever cleaned")
                self.position = found.position

    def save(self) -> None:
        """Keep the copy and its position for the next process."""
        made = self._path.with_suffix(".new.npz")
        epoch, rows = self.position.epoch, self.rows[: self.position.offset]
        np.savez(made, rows=rows, epoch=epoch, resets=self.resets)
        made.replace(self._path)

    def _add(self, first: int, numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        end = first + len(numbers)
        if end > len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty(end, np.int64)])
        self.rows[first:end] = numbers


def read(work: Work) -> None:
    """Follow all buckets until told to stop, and then to the end."""
    copies = {bucket: Copy(work, bucket) for bucket in range(BUCKETS)}
    start = {bucket: copy.position for bucket, copy in copies.items()}
    saved = time.monotonic()
    with Table(work.ports).log_reader(start=start) as reader:
        while True:
            if (found := reader.read(0.2)) is not None:
                copies[found.bucket].take(found)
            if time.monotonic() > saved + SAVE_S:
                _save(work, copies)
                saved = time.monotonic()
                if work.stopped and _has_all(work, copies):
                    return


def share(work: Work) -> None:
    """Read as a member of a group until told to stop, and then until the group has all."""
    table = Table(work.ports)
    stored = time.monotonic()
    with (
        table.log_reader(start="earliest", group=GROUP) as reader,
        (work.folder / f"{work.name}.given").open("ab") as given,
    ):
        while True:
            if isinstance(found := reader.read(0.2), LogRecords):
                given.write(found.rows.column("row").to_numpy().tobytes())
            if time.monotonic() > stored + SAVE_S:
                given.flush()
                _stored(reader)
                stored = time.monotonic()
                if work.stopped and table.log_lag(GROUP).records == 0:
                    return


def _stored(reader: TableLogReader) -> None:
    """Store the positions; another member may have the bucket by now."""
    try:
        reader.store()
    except (Fenced, LockLost) as error:
        LOG.info("not stored: %s", error)


def _save(work: Work, copies: dict[int, Copy]) -> None:
    for copy in copies.values():
        copy.save()
    sources = {bucket: copy.position.offset for bucket, copy in copies.items()}
    work.note("progress", offsets=sources, resets=sum(c.resets for c in copies.values()))


def _has_all(work: Work, copies: dict[int, Copy]) -> bool:
    state = work.ports.log.load()
    known = {bucket: bucket_of(state, bucket) for bucket in copies}
    return all(
        copy.position.offset >= known[bucket].end
        and known[bucket].lineage.left_at(copy.position) is None
        for bucket, copy in copies.items()
    )


def tend(work: Work) -> None:
    """Compact every few seconds."""
    while not work.stopped:
        Table(work.ports).compact()
        for _ in range(25):
            if not work.stopped:
                time.sleep(0.2)


MODES: dict[str, Callable[[Work], None]] = {
    "embedded": write,
    "external": write,
    "service": serve,
    "reader": read,
    "member": share,
    "tender": tend,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
