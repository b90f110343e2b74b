"""The soak of the log store: ``python -m tests.stress.log_store.run --minutes 10 --seed 1``.

1. Two tables of two buckets each: one with stores beside their writers, one with two services of
   their own. Of bucket 0 each has two writers, one of which stands by. Readers follow all buckets,
   two members of a group share them, and a tender compacts. All are processes; ZooKeeper is real
   (``worker`` says what each does).
2. Every few seconds somebody is killed, or put to sleep for longer than its session lasts;
   ZooKeeper is killed and comes back after up to twice a session; or the storage becomes slow.
3. During the run no reader may stand still for ``STUCK_S`` while there is more to read, and no
   process may grow beyond ``--memory`` MB or ``MOST_FILES`` open files.
4. In the end the faults stop. Writers, then services, then readers end by themselves. Then
   everything must hold (``verdict``), and no process, claim or listening port is left.
5. It prints a summary as JSON, and returns 1 if something was wrong.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.services.log_directory import BUCKETS as CLAIMS
from airflow_provider_segtable.services.log_directory import SERVICES
from airflow_provider_segtable.table.context import (
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.table import Table
from tests.stress.crew import Crew, Running, launcher
from tests.stress.log_store.verdict import Names, notes, verdict
from tests.stress.log_store.worker import BUCKETS, SCHEMA

WORKER = "tests.stress.log_store.worker"
SESSION_S = 4
LOOK_S = 2.0
STUCK_S = 60.0
MOST_FILES = 300
END_S = 120.0
ORDER = ("tender", "embedded", "external", "service", "reader", "member")
CREW = {
    "embedded": {
        "embedded": ("a0", "b0", "a1"),
        "reader": ("r",),
        "member": ("m", "n"),
        "tender": ("t",),
    },
    "external": {
        "external": ("c0", "d0", "c1"),
        "service": ("s", "u"),
        "reader": ("q",),
        "member": ("o", "p"),
    },
}
NAMES = {"embedded": Names("[ab]?", "r", "[mn]"), "external": Names("[cd]?", "q", "[op]")}


@dataclass(slots=True)
class Watch:
    """What is seen during the run: how much readers have, and what processes hold."""

    tables: dict[str, TableContext]
    folder: Path
    memory_mb: int
    most: dict[str, Counter[str]] = field(default_factory=dict)
    waits: dict[str, tuple[int, float]] = field(default_factory=dict)
    longest_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def look(self, crew: Crew) -> None:
        """Look at all processes and readers once."""
        for name, process in crew.running.items():
            self._measure(name, crew.jobs[name][0], process)
        for title, names in NAMES.items():
            self._progress(title, names.reader, asleep=names.reader in crew.asleep)

    def _measure(self, name: str, mode: str, process: Running) -> None:
        most = self.most.setdefault(mode, Counter())
        try:
            seen = psutil.Process(process.pid)
            rss, files = seen.memory_info().rss >> 20, seen.num_fds()
        except psutil.Error:
            return
        if rss > self.memory_mb >= most["rss_mb"] or files > MOST_FILES >= most["files"]:
            self.wrong.append(f"{name} has {rss} MB and {files} open files")
        most["rss_mb"], most["files"] = max(most["rss_mb"], rss), max(most["files"], files)

    def _progress(self, title: str, name: str, *, asleep: bool) -> None:
        """Note how long a reader has been where it is while there was more to read."""
        told = notes(self.folder, "progress", name)
        here = told[-1]["offsets"] if told else {}
        state = self.tables[title].log.load()
        for bucket in range(BUCKETS):
            key, at = f"{name} of bucket {bucket}", here.get(str(bucket), 0)
            before, since = self.waits.get(key, (-1, 0.0))
            if asleep or at != before or at >= bucket_of(state, bucket).end:
                self.waits[key] = (at, time.monotonic())
                continue
            stands_s = time.monotonic() - since
            if self.longest_s <= STUCK_S < stands_s:
                self.wrong.append(f"{key} stands at {at} for {stands_s:.0f} s")
            self.longest_s = max(self.longest_s, stands_s)


@dataclass(slots=True)
class Faults:
    """What happens to others than workers: ZooKeeper, and the storage."""

    server: EmbeddedZooKeeper
    sign: Path
    randomness: random.Random
    away_until: float = 0.0
    slow_until: float = 0.0

    def strike(self, crew: Crew) -> None:
        """Let something bad happen."""
        what = self.randomness.choice(("crew",) * 6 + ("zookeeper", "disk"))
        if what == "zookeeper" and not self.away_until:
            self.server.kill()
            away_s = self.randomness.uniform(0.0, 2.0) * SESSION_S
            self.away_until = time.monotonic() + away_s
            crew.done["zookeeper killed"] += 1
        elif what == "disk" and not self.slow_until:
            self.sign.touch()
            self.slow_until = time.monotonic() + self.randomness.uniform(3.0, 12.0)
            crew.done["storage slow"] += 1
        elif crew.running.keys() - crew.asleep.keys():
            crew.strike(self.randomness, ("kill", "kill", "sleep"))

    def tend(self, *, end: bool = False) -> None:
        """End what has lasted long enough, or all."""
        if self.away_until and (end or time.monotonic() >= self.away_until):
            self.server.start()
            self.away_until = 0.0
        if self.slow_until and (end or time.monotonic() >= self.slow_until):
            self.sign.unlink()
            self.slow_until = 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the soak; return 0 if everything held."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=_Verbatim)
    made.add_argument("--minutes", type=float, default=10.0, help="of faults (default 10)")
    made.add_argument("--seed", type=int, default=1, help="of the faults (default 1)")
    made.add_argument("--every", type=float, default=4.0, help="seconds between faults (4)")
    made.add_argument("--memory", type=int, default=600, help="MB for each process (600)")
    made.add_argument("--keep", action="store_true", help="keep the folder, with all logs")
    given = made.parse_args(argv)
    place = Path(tempfile.mkdtemp(prefix="segtable-soak-"))
    try:
        summary = soak(place, given)
    finally:
        if not given.keep:
            shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    return 1 if summary["wrong"] else 0


def soak(place: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run everything below a folder; return the summary."""
    folder = place / "crew"
    folder.mkdir(parents=True)
    summary: dict[str, Any] = {"minutes": given.minutes, "seed": given.seed, "folder": str(place)}
    with EmbeddedZooKeeper(place / "zookeeper") as server:
        tables = {title: _table(place / title, server.address) for title in CREW}
        watch = Watch(tables, folder, given.memory)
        crew = Crew(launcher(WORKER, server.address, folder, SESSION_S), folder, SESSION_S)
        faults = Faults(server, folder / "slow", random.Random(given.seed))
        try:
            _run(crew, tables, watch, faults, given)
            faults.tend(end=True)
            wrong = [*watch.wrong, *_ended(crew, folder), *_left(tables)]
        finally:
            _kill(crew)
        summary |= {"strikes": dict(crew.done), "most": watch.most}
        summary["longest_stand_s"] = round(watch.longest_s, 1)
        for title, ports in tables.items():
            figures = summary.setdefault(title, {})
            wrong += verdict(ports, folder, NAMES[title], figures)
            told = notes(folder, "progress", NAMES[title].reader)
            figures["resets"] = told[-1]["resets"] if told else 0
            figures["epochs"] = [bucket_of(ports.log.load(), b).epoch for b in range(BUCKETS)]
        for ports in tables.values():
            ports.coordinator.close()
    wrong += [f"{note['name']}: {note['what']}" for note in notes(folder, "wrong")]
    summary["replaced"] = len(notes(folder, "fenced"))
    summary["wrong"] = wrong
    return summary


def _table(place: Path, address: str) -> TableContext:
    ports = open_context(str(place), zookeeper=address, author="soak")
    Table.create(
        ports.uri,
        schema=SCHEMA,
        time_column="at",
        granularity="hour",
        properties={
            "log_store.buckets": str(BUCKETS),
            "log_store.bucket_mb": "1",
            "log_store.checkpoint_seconds": "1",
            "compaction.max_attempts": "1000",
        },
    )
    return ports


def _run(
    crew: Crew,
    tables: dict[str, TableContext],
    watch: Watch,
    faults: Faults,
    given: argparse.Namespace,
) -> None:
    for title, modes in CREW.items():
        for mode, names in modes.items():
            for name in names:
                crew.start(mode, name, tables[title].uri)
    start = time.monotonic()
    strike_at, look_at = start + 3 * given.every, start
    while time.monotonic() < start + given.minutes * 60:
        time.sleep(0.2)
        crew.tend()
        faults.tend()
        if time.monotonic() >= look_at:
            watch.look(crew)
            look_at = time.monotonic() + LOOK_S
        if time.monotonic() >= strike_at:
            faults.strike(crew)
            strike_at = time.monotonic() + faults.randomness.uniform(0.5, 1.5) * given.every


def _ended(crew: Crew, folder: Path) -> Iterator[str]:
    """End all workers, one mode after another; yield who did not."""
    for name in tuple(crew.asleep):
        os.killpg(crew.running[name].pid, signal.SIGCONT)
    for mode in ORDER:
        (folder / f"stop-{mode}").touch()
        deadline = time.monotonic() + END_S
        for name, process in crew.running.items():
            if crew.jobs[name][0] != mode:
                continue
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                yield f"{name} ({mode}) had not ended after {END_S:.0f} s"


def _left(tables: dict[str, TableContext]) -> Iterator[str]:
    """Yield claims and processes that are left."""
    deadline = time.monotonic() + 3 * SESSION_S
    for title, ports in tables.items():
        table = ports.log.load().table.table_id
        for group in (CLAIMS, SERVICES):
            while (left := _claims(ports, table, group)) and time.monotonic() < deadline:
                time.sleep(0.2)
            if left:
                yield f"{title}: claims of {group} are left: {left}"
    children = psutil.Process().children(recursive=True)
    yield from (f"process {each.pid} is left" for each in children if WORKER in _command(each))


def _claims(ports: TableContext, table: str, group: str) -> list[str]:
    try:
        return sorted(ports.coordinator.claims(table, group))
    except SegtableError as error:
        return [str(error)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill(crew: Crew) -> None:
    for process in crew.running.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class _Verbatim(argparse.RawDescriptionHelpFormatter):
    """Keeps the module's own words as they stand."""


if __name__ == "__main__":
    sys.exit(main())
