"""Many writers of the same keys of one table, at once with all else: ``make stress-keyed``.

1. *Crew*: eight writers without locks, of which four upsert, two delete and update by condition and
   two write micro-batches that are replayed after kills, with clocks up to five minutes apart;
   with ``--spark``, Spark streams as well. Beside them log compaction, base compaction and a rival
   of both, a cleaner with a retention of seconds, a reader of old versions, an indexer, and a
   follower that chains windows. Every second somebody is killed (SIGKILL) or put to sleep beyond
   the end of its session, and started again.
2. The run lasts as long as asked, and on until it has done *enough* (``ENOUGH``): a run that killed
   or compacted too little proves nothing, and fails at its deadline.
3. *Verdict*: pending plans are finished, the follower reads to the newest version, and then
   everything must be as ``verdict`` says.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean as clean_once
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.table import Table
from tests.simulation.keyed.records import BUCKETS, SCHEMA
from tests.stress import indexing
from tests.stress.crew import Crew
from tests.stress.forks import Forks
from tests.stress.keyed import follower
from tests.stress.keyed.notes import noted, notes_in
from tests.stress.keyed.observer import Observer
from tests.stress.keyed.verdict import Verdict, orphans
from tests.stress.keyed.worker import SESSION_S, WRITERS, work

CREW = {
    **{f"upserter{n}": "upsert" for n in range(4)},
    **{f"changer{n}": "change" for n in (4, 5)},
    **{f"stream{n}": "stream" for n in (6, 7)},
    **{mode: mode for mode in ("minor", "base", "compact", "clean", "travel", "follow", "index")},
}
SPARK_WRITERS = ("spark3", "spark6")
ENOUGH: Mapping[str, int] = {
    "minor": 4,
    "semi-major": 3,
    "cleaning": 2,
    "index": 2,
    "kill of a writer": 3,
    "kill of a service": 2,
    "commit": 80,
    "commit of the slowest writer": 3,
    "replayed batch": 1,
    "window": 4,
    "look": 6,
}
"""What a short run must have done, and a longer one as many times as much as it is longer."""
LEAST = 0.25
"""The share of it that the shortest run must have done; but each of these once."""
SPARK_ENOUGH: Mapping[str, int] = {"batch of a Spark stream": 4}
SHORT_S, DEADLINE_S, FINISH_S = 20.0, 120.0, 60.0
SWEPT = 40
"""Versions that are kept for the verdict, of the shortest run."""
PRELOADED = ("pandas", "pyarrow.dataset", "pyarrow.pandas_compat")
"""Modules that pyarrow imports when they are first needed, for a second of processor time."""
STRIKES_S = (0.5, 2.0)
DEEDS = ("kill", "kill", "kill", "sleep")
PROPERTIES = {
    "compaction.min_segments": "4",
    "compaction.tier_ratio": "1e9",
    "compaction.max_attempts": "1000",
    "compaction.semi_major": "off",  # its workers ask for them
}


@dataclass(slots=True, kw_only=True)
class Run:
    """A run, and what came of it."""

    folder: Path
    ports: TableContext
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    orphans: int = 0
    began: float = field(default_factory=time.monotonic)
    laps: dict[str, float] = field(default_factory=dict)

    def carry_out(self, jobs: Mapping[str, str], seconds: float) -> None:
        """Run the crew until it has done enough, and judge what is left."""
        times = max(LEAST, seconds / SHORT_S)
        wanted = {**ENOUGH, **(SPARK_ENOUGH if "spark" in jobs.values() else {})}
        enough = {what: max(1, round(n * times)) for what, n in wanted.items()}
        seen = Observer(self.ports, self.folder / "kept")
        launch = Forks(work, self.folder, (work.__module__, *PRELOADED))
        crew = Crew(launch, self.folder, SESSION_S)
        try:
            for name, mode in jobs.items():
                crew.start(mode, name, self.ports.uri)
            self._strike(crew, seen, enough, seconds)
        finally:
            crew.end()
        seen.look()
        self._count(crew, seen)
        self.lap("crew")
        self.problems += [
            f"too little was done: {self.done[what]} of {n}: {what}"
            for what, n in enough.items()
            if self.done[what] < n
        ]
        self.problems += [f"{n} x {what}" for what, n in crew.done.items() if "ended" in what]
        self.problems += [*self._finish(), *indexing.finish_indexes(self.ports)]
        seen.look()  # the events of the end may be more than the versions that are kept
        clean_once(self.ports, retention=Retention(hours=0, versions=round(SWEPT * times)))
        self.lap("finish")
        seen.look()
        self.orphans = orphans(self.ports)
        self.problems += Verdict(self.ports, self.folder, seen.events).problems()
        self.lap("verdict")

    def lap(self, what: str) -> None:
        """Note how long a part took."""
        self.laps[what] = time.monotonic() - self.began - sum(self.laps.values())

    def _strike(
        self, crew: Crew, seen: Observer, enough: Mapping[str, int], seconds: float
    ) -> None:
        random, start = Random(self.seed), time.monotonic()
        following = start + STRIKES_S[1]
        while (now := time.monotonic()) < start + seconds + DEADLINE_S:
            time.sleep(0.1)
            crew.tend()
            seen.look()
            if now >= following:
                crew.strike(random, DEEDS)
                following = now + random.uniform(*STRIKES_S)
                self._count(crew, seen)
            if now >= start + seconds and all(self.done[w] >= n for w, n in enough.items()):
                return

    def _count(self, crew: Crew, seen: Observer) -> None:
        acks = notes_in(self.folder, "acks")
        commits = {name: {ack["commit"] for ack in notes} for name, notes in acks.items()}
        kills = {what: n for what, n in crew.done.items() if what.startswith("kill")}
        of_writers = sum(n for what, n in kills.items() if what.split()[1] in WRITERS)
        self.done = Counter(seen.progress)
        self.done |= Counter(
            {
                "kill of a writer": of_writers,
                "kill of a service": sum(kills.values()) - of_writers,
                "sleep": sum(n for what, n in crew.done.items() if what.startswith("sleep")),
                "commit": sum(map(len, commits.values())),
                "commit of the slowest writer": min(map(len, commits.values()), default=0),
                "replayed batch": sum(len(acks[name]) - len(commits[name]) for name in acks),
                "batch of a Spark stream": seen.batches_of("spark"),
                "orphan cleaned": sum(
                    each["orphans"] for each in noted(self.folder / "clean.runs")
                ),
                "window": _amount(notes_in(self.folder, "windows")),
                "look": _amount(notes_in(self.folder, "looks")),
            }
        )

    def _finish(self) -> Iterator[str]:
        """Finish what is pending, in this process, and follow to the end."""
        deadline = time.monotonic() + FINISH_S
        while (pending := self._pending()) and time.monotonic() < deadline:
            compact(self.ports, pending, in_process(self.ports.files), wait_s=SESSION_S * 2.0)
        yield from (f"plan {plan_id} is still pending" for plan_id in self._pending())
        newest = self.ports.log.load().n
        while follower.step(self.ports, "follow", self.folder) < newest:
            pass

    def _pending(self) -> list[str]:
        plan_table(self.ports)
        return [known.plan.id for known in self.ports.log.load().pending_plans()]

    def report(self) -> Iterator[str]:
        """Yield what happened, as lines to print."""
        yield ", ".join(f"{n} {what}" for what, n in sorted(self.done.items()))
        yield f"{self.ports.log.load().n} events, {self.orphans} orphans of the dead"
        yield ", ".join(f"{what} {seconds:.0f} s" for what, seconds in self.laps.items())
        for name, notes in notes_in(self.folder, "acks").items():
            took = [each["took_s"] for each in notes]
            p50, p99 = np.percentile(took, [50, 99])
            yield f"  {name}: {len(took)} commits, median {p50:.3f} s, 99 % {p99:.2f} s"
        for name, notes in notes_in(self.folder, "runs").items():
            ended = Counter(each.get("ended", "run") for each in notes)
            yield f"  {name}: {', '.join(f'{n} {how}' for how, n in sorted(ended.items()))}"


def _amount(notes: Mapping[str, Sequence[object]]) -> int:
    return sum(map(len, notes.values()))


def begin(folder: Path, address: str, *, seed: int = 1, merge: str = "latest") -> Run:
    """Return a run over a new table."""
    (folder / "zookeeper").write_text(address)
    ports = open_context(str(folder / "table"), zookeeper=address, author="stress")
    create(ports, merge=merge)
    return Run(folder=folder, ports=ports, seed=seed)


def create(ports: TableContext, *, merge: str = "latest") -> None:
    """Create the table and its follower."""
    table = Table.create(
        ports.uri,
        schema=SCHEMA,
        time_column="at",
        granularity="hour",
        primary_key="row",
        buckets=BUCKETS,
        ordering="count",
        merge=merge,
        properties=PROPERTIES,
    )
    indexing.request_indexes(ports, "row")
    table.advance_consumer(follower.NAME, 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it all; return 0 if everything held."""
    made = argparse.ArgumentParser(
        prog="make stress-keyed",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    made.add_argument("--minutes", type=float, default=5.0, help="at least (default 5)")
    made.add_argument("--spark", type=int, default=1, help="Spark streams beside (default 1)")
    made.add_argument("--merge", default="latest", help="latest or partial_update")
    made.add_argument("--seed", type=int, default=1, help="of the strikes (default 1)")
    given = made.parse_args(argv)
    jobs = {**CREW, **dict.fromkeys(SPARK_WRITERS[: given.spark], "spark")}
    with tempfile.TemporaryDirectory(prefix="segtable-stress-") as place:
        folder = Path(place)
        with EmbeddedZooKeeper(folder / "server") as server:
            run = begin(folder, server.address, seed=given.seed, merge=given.merge)
            run.carry_out(jobs, given.minutes * 60)
            run.ports.coordinator.close()
        for line in (*run.report(), *(f"WRONG: {problem}" for problem in run.problems)):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{0 if run.problems else 1} passed, {1 if run.problems else 0} failed\n")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
