"""Measure a compaction beside a writer: two processes of one system, and one table.

1. The writer fills the table with small files, then writes ``Size.alone`` commands alone.
2. The compaction begins, and the writer goes on, one command after another, until the compaction
   has ended. A compaction that lost a race as a whole or in part begins again, ``ATTEMPTS`` times
   at most; then it runs once more when the writer has stopped.
3. Counted are the commands that overlap the compaction. A command that lost races is one command,
   as long as all its attempts. The compaction's bytes are all that its process wrote.
4. Each part of a scan is the median of ``Size.scans``. At the end, the rows are compared with those
   of the acknowledged commands.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from peer_systems.session import Failed, Session
from peer_systems.workload import Command, Size, Workload

ATTEMPTS = 3
MIB = 1 << 20
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Write:
    """One command of the writer."""

    began: float
    ended: float
    seconds: float
    conflicts: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One compaction, from its begin to its end; ``lost`` is the share of its work in vain."""

    began: float
    ended: float
    bytes: int
    lost: float
    error: str = ""

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.ended - self.began


@dataclass(slots=True)
class Measured:
    """The numbers of one system and one kind of table."""

    system: str
    kind: str
    fill_s: float = 0.0
    files: list[int] = field(default_factory=list)
    count_s: list[float] = field(default_factory=list)
    column_s: list[float] = field(default_factory=list)
    alone: list[Write] = field(default_factory=list)
    beside: list[Write] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    after: Attempt | None = None
    rows: int = 0
    differences: dict[str, int] = field(default_factory=dict)

    @property
    def overlapping(self) -> list[Write]:
        """Return the commands during the compaction."""
        began, ended = self.attempts[0].began, self.attempts[-1].ended
        return [each for each in self.beside if each.began < ended and each.ended > began]


@dataclass(slots=True)
class Run:
    """One table of one system while it is measured."""

    measured: Measured
    workload: Workload
    writer: Session
    service: Session
    staged: Path
    say: Say

    def measure(self) -> Measured:
        """Carry out all phases."""
        self.service.ask("create", kind=self.measured.kind)
        began = time.monotonic()
        for command in self.workload.fill():
            self._required(self._write(command))
        self.measured.fill_s = time.monotonic() - began
        self._look("filled")
        for _ in range(self.workload.size.alone):
            self.measured.alone.append(self._required(self._write(self.workload.next())))
        self.say(f"alone: {_median(self.measured.alone):.2f} s a command")
        self._beside()
        if self.measured.attempts[-1].lost or self.measured.attempts[-1].error:
            self.measured.after = self._compaction()
        self._look("compacted")
        self._check()
        return self.measured

    def _beside(self) -> None:
        with ThreadPoolExecutor(1) as beside:
            compaction = beside.submit(self._compactions)
            while not compaction.done():
                self.measured.beside.append(self._write(self.workload.next()))
            compaction.result()
        self.say(f"beside: {_median(self.measured.overlapping):.2f} s a command")

    def _compactions(self) -> None:
        for _ in range(ATTEMPTS):
            made = self._compaction()
            self.measured.attempts.append(made)
            if not made.lost and not made.error:
                return

    def _compaction(self) -> Attempt:
        before, began = self.service.bytes_written(), time.monotonic()
        answer = self.service.attempt("compact", kind=self.measured.kind)
        ended, written = time.monotonic(), self.service.bytes_written() - before
        self.say(f"compaction: {ended - began:.1f} s {_brief(answer)}")
        return Attempt(began, ended, written, _lost(answer), answer.get("error", ""))

    def _write(self, command: Command) -> Write:
        if command.rows is not None:
            pq.write_table(command.rows, self.staged, compression="zstd")
        began = time.monotonic()
        answer = self.writer.attempt(
            "write",
            verb=command.verb,
            kind=self.measured.kind,
            path=str(self.staged),
            where=command.where,
        )
        ended, error = time.monotonic(), answer.get("error", "")
        if error:
            self.say(f"{command.verb} was given up: {error[:300]}")
        else:
            self.workload.acknowledge(command)
        return Write(began, ended, answer["seconds"], answer["conflicts"], error)

    def _required(self, write: Write) -> Write:
        if write.error:
            raise Failed(write.error)
        return write

    def _look(self, when: str) -> None:
        kind, found = self.measured.kind, self.measured
        found.files.append(self.service.ask("files", kind=kind))
        found.count_s.append(self._scan("count"))
        found.column_s.append(self._scan("column"))
        self.say(f"{when}: {found.files[-1]} files, a column in {found.column_s[-1]:.2f} s")

    def _scan(self, what: str) -> float:
        kind = self.measured.kind
        return statistics.median(
            self.service.seconds(what, kind=kind) for _ in range(self.workload.size.scans)
        )

    def _check(self) -> None:
        into = self.staged.with_suffix(".found")
        self.service.ask("export", kind=self.measured.kind, into=str(into))
        found: pa.Table = ds.dataset(into, format="parquet").to_table()
        self.measured.rows = found.num_rows
        self.measured.differences = self.workload.differences(found)
        self.say(f"{found.num_rows} rows, {self.measured.differences or 'as expected'}")


def measure(
    system: str, kind: str, size: Size, sessions: tuple[Session, Session], place: Path, say: Say
) -> Measured:
    """Measure one table of a system."""
    writer, service = sessions
    staged = place / f"staged-{kind}.parquet"
    run = Run(Measured(system, kind), Workload(kind, size), writer, service, staged, say)
    return run.measure()


def _lost(answer: dict[str, Any]) -> float:
    if "error" in answer:
        return 1.0
    done, lost = (answer["result"].get(name, 0) for name in ("done", "lost"))
    return lost / (done + lost) if lost else 0.0


def _brief(answer: dict[str, Any]) -> str:
    return answer["error"][:300] if "error" in answer else str(answer["result"] or "")


def _median(writes: list[Write]) -> float:
    return statistics.median([each.seconds for each in writes] or [float("nan")])
