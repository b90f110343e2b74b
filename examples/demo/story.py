"""The story: what happens, in order, and what must be true at the end.

1. ZooKeeper starts; Airflow starts meanwhile in the background, as it takes longest.
2. A table is made, and the flights land as files that each touch every month.
3. One Spark application with several writers appends most of them: hundreds of small segments.
4. The planner's findings, with reasons.
5. The planner DAG emits minor runs, which run spark-submit, while the other files are appended.
6. The same rows as appended and now: equal counts and checksums, or the demo fails.
7. Where to look next.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.cli.display.output import out
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.errors import ExecutionFailed, SegtableError
from airflow_provider_segtable.core.log.events import Event, line
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanInflight
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from examples.demo import comparison, flights
from examples.demo.airflow_runs import Airflow
from examples.demo.demo_processes import Interrupted
from examples.demo.minor_runs import Here, MinorRuns
from examples.demo.narration import Teller

COLUMN = "dep_delay"
FILES = 40
POLL_S = 0.2
MINOR_RUNS_TIMEOUT_S = 180.0
LOUD = (Appended, PlanInflight, PlanCompleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the demo does, and where."""

    folder: Path
    rows: int | None = None
    late_files: int = 6
    writers: int = 3
    airflow: bool = True
    keep: bool = False

    @property
    def files(self) -> int:
        """Return how many files the flights land in: enough early ones for minor compactions."""
        return FILES if self.rows is None else min(FILES, max(20, self.rows // 8_000))


class Unequal(SegtableError):
    """The table does not hold what was sent."""


def tell(settings: Settings) -> None:
    """Tell the story.

    Raises:
        SegtableError: whatever went wrong, and ``Unequal`` if rows or checksums differ.
    """
    teller = Teller()
    out.print("[bold]segtable demo[/]: a year of flights, appended and compacted at once")
    teller.say(f"[dim]everything is kept in {settings.folder}[/]")
    with ExitStack() as open_things:
        _Story(settings, teller, open_things).run()


class _Story:
    def __init__(self, settings: Settings, teller: Teller, open_things: ExitStack) -> None:
        self.settings = settings
        self.teller = teller
        self.open_things = open_things
        self.uri = str(settings.folder / "flights")

    def run(self) -> None:
        """Go through the steps."""
        self.start_services()
        self.make_table()
        self.write_concurrently()
        self.show_findings()
        self.compact_while_appending()
        self.compare()
        self.point_onwards()

    def start_services(self) -> None:
        with self.teller.step("A ZooKeeper of our own"):
            server = EmbeddedZooKeeper(self.settings.folder / "zookeeper")
            self.zookeeper = self.open_things.enter_context(server).address
            self.teller.done(f"{self.zookeeper}, from the jars that PySpark ships")
            where = (self.settings.folder, self.uri, self.zookeeper)
            runs = Airflow(*where) if self.settings.airflow else Here(*where)
            self.open_things.enter_context(runs)
            self.runs: MinorRuns = runs
            self.teller.say(f"[dim]{self.runs.starting}[/]")

    def make_table(self) -> None:
        with self.teller.step("A table, and the flights of 2013"):
            rows = flights.load(self.settings.rows)
            self.table = Table.create(
                self.uri,
                schema=rows.schema,
                time_column=flights.TIME_COLUMN,
                granularity=flights.GRANULARITY,
                zookeeper=self.zookeeper,
            )
            landing = self.settings.folder / "landing"
            self.files = flights.deal(rows, landing, self.settings.files)
            self.sent = checksum_of(rows.to_batches())
            self.teller.done(
                f"{rows.num_rows:,} rows of {rows.num_columns} columns in {len(self.files)} files; "
                "each touches every month"
            )

    def write_concurrently(self) -> None:
        early = self.files[: -self.settings.late_files]
        with self.teller.step(f"Spark appends {len(early)} files, {self.settings.writers} at once"):
            started = time.monotonic()
            with _bar("appends", len(early)) as advance:
                for _ in _written(self.settings, self.uri, self.zookeeper, early):
                    advance()
            segments = self.table.snapshot().segments()
            size = describe_size(sum(s.size for s in segments) / len(segments))
            self.teller.done(
                f"{len(early)} atomic appends made {len(segments)} segments of {size} on average, "
                f"in {time.monotonic() - started:.0f} s with Spark's start"
            )

    def show_findings(self) -> None:
        with self.teller.step("What the planner finds (nothing is written)"):
            found = plan_table(self.table.ports, dry_run=True)
            self.teller.say(drawing.plan({"table": self.uri, **found.facts()}))

    def compact_while_appending(self) -> None:
        late = self.files[-self.settings.late_files :]
        with self.teller.step(self.runs.title):
            for line in self.runs.ready():
                self.teller.done(line)
            log = EventLog(self.table.ports.storage)
            told = self.table.state().n
            self.runs.begin()
            appender = _Appender(self.uri, self.zookeeper, late, self.table)
            appender.start()
            deadline = time.monotonic() + MINOR_RUNS_TIMEOUT_S
            while not self.runs.finished():
                told = self._tell_events(log, told)
                if time.monotonic() > deadline:
                    raise ExecutionFailed(f"no end after {MINOR_RUNS_TIMEOUT_S:.0f} s")
                time.sleep(POLL_S)
            appender.finish()
            self._tell_events(log, told)
            for line in self.runs.outcome():
                self.teller.done(line)

    def _tell_events(self, log: EventLog, told: int) -> int:
        for event in log.events(told + 1):
            told = event.n
            if isinstance(event.action, LOUD):
                self.teller.say(_event_line(event))
        return told

    def compare(self) -> None:
        with self.teller.step("The same rows, as they were appended and now"):
            now = self.table.snapshot()
            before = comparison.measure(comparison.as_appended(now), COLUMN)
            after = comparison.measure(now, COLUMN)
            self.teller.say(comparison.draw(self.sent, before, after, COLUMN))
            _check(self.sent, before.found, after.found)
            left = plan_table(self.table.ports, dry_run=True)
            facts = {"table": self.uri, **left.facts()}
            if facts["skipped"]:
                self.teller.say(drawing.skipped(facts["skipped"]))
            self.teller.done("no row was lost, doubled or changed")

    def point_onwards(self) -> None:
        with self.teller.step("Where to look next"):
            for what, where in self._places():
                self.teller.say(f"[cyan]{what:<22}[/] {where}")
            for line in self.runs.places(kept=self.settings.keep):
                self.teller.say(line)
        if self.settings.keep:
            out.print("\nEverything keeps running; Ctrl-C ends it.")
            with suppress(Interrupted):
                threading.Event().wait()

    def _places(self) -> Iterator[tuple[str, str]]:
        table = _relative(Path(self.uri))
        yield "how well it is", f"segtable table describe {table}"
        yield "what happened", f"segtable table timeline {table}"
        yield "what a scan reads", f"segtable table segments {table} --all"
        yield "rows, also of the past", f"segtable table scan {table} --version 20 --limit 5"
        yield "the log itself", f"ls {table}/_segtable/timeline"
        yield "how it works", "docs/ARCHITECTURE.md, docs/FORMAT.md, docs/cli.md"


class _Appender(threading.Thread):
    """Appends files one by one with ``Table.append``, as any Python program could."""

    def __init__(self, uri: str, zookeeper: str, files: list[Path], table: Table) -> None:
        super().__init__(name="appender", daemon=True)
        self.error: SegtableError | None = None
        self._files = files
        self._hurry = threading.Event()
        self._log = EventLog(table.ports.storage)
        self._uri, self._zookeeper = uri, zookeeper

    def finish(self) -> None:
        """Wait for nothing any more but the end; raise what went wrong."""
        self._hurry.set()
        self.join()
        if self.error:
            raise self.error

    def run(self) -> None:
        """Append a file whenever a compaction is under way."""
        table = Table(open_context(self._uri, zookeeper=self._zookeeper, author="appender"))
        seen = table.state().n
        try:
            for path in self._files:
                seen = self._next_inflight(seen)
                table.append(pq.read_table(path), commit_id=str(path))
        except SegtableError as error:
            self.error = error
        finally:
            table.ports.coordinator.close()

    def _next_inflight(self, seen: int) -> int:
        """Wait until another plan goes in flight, or nobody works any more."""
        while not self._hurry.wait(POLL_S):
            for event in self._log.events(seen + 1):
                seen = event.n
                if isinstance(event.action, PlanInflight):
                    return seen
        return seen


def _written(
    settings: Settings, uri: str, zookeeper: str, files: list[Path]
) -> Iterator[dict[str, Any]]:
    """Run the writers' Spark application; yield each append as it is told."""
    log = settings.folder / "spark-writers.log"
    command = [sys.executable, "-m", "examples.demo.writers"]
    command += ["--table", uri, "--zookeeper", zookeeper, "--writers", str(settings.writers)]
    command += [str(path) for path in files]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as application,
    ):
        assert application.stdout  # noqa: S101 - asked for above
        yield from map(json.loads, application.stdout)
    if application.returncode:
        last = " ".join(log.read_text(errors="replace").splitlines()[-1:])
        raise ExecutionFailed(f"the Spark writers ended ({application.returncode}): {last}; {log}")


@contextmanager
def _bar(what: str, total: int) -> Iterator[Any]:
    columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=out, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _event_line(event: Event) -> str:
    colour = {"Appended": "blue", "PlanInflight": "yellow", "PlanCompleted": "green"}[event.kind]
    text = line(event.action).replace("[", r"\[")
    return f"[dim]event {event.n:>3}[/]  [{colour}]{event.kind:<14}[/] {text}"


def _check(sent: Checksum, before: Checksum, after: Checksum) -> None:
    for what, found in (("as appended", before), ("after compaction", after)):
        if found != sent:
            raise Unequal(
                f"{what} the table holds {found.rows:,} rows (checksum {found.hex}), but "
                f"{sent.rows:,} ({sent.hex}) were sent: please report it with the table's folder"
            )


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
