"""Publishing under kills: ``make stress-publishing``.

1. *Crew*: three publishers; appenders and a deleter, whose commits publish, too; compactors; a
   cleaner with a retention of seconds. Beside them two readers open the newest version that is
   published as Delta Lake (deltalake, Polars) and Iceberg (pyiceberg, Polars), again and again.
   All are processes (``worker``). All but the readers are killed, one after another.
2. *Verdict*: no reader missed a file, none saw an older event than before, and each saw the rows
   that the log has at that event, by number and sum. The log says them: a commit's id is its model.
   What was published last is what the log has, and ``verify`` finds nothing.
3. A reader that takes longer than the retention may miss files, and so may readers of a version
   whose publisher did. The first is left out; the second is said, and no missing file is judged
   then: run it on a machine with less to do.
4. A run that did too little proves nothing, and fails.
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
from typing import Any

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table
from tests.stress.crew import Crew
from tests.stress.forks import Forks
from tests.stress.keyed.notes import notes_in
from tests.stress.publishing.worker import (
    FORMATS,
    RETENTION,
    SCHEMA,
    SESSION_S,
    deleted_by,
    rows_of,
    work,
)

CREW = {
    **{f"publisher{n}": "publish" for n in range(3)},
    **{f"appender{n}": "append" for n in range(2)},
    **{f"compactor{n}": "compact" for n in range(2)},
    "deleter0": "delete",
    "cleaner0": "clean",
    "delta": "delta",
    "iceberg": "iceberg",
}
PRELOADED = ("pandas", "pyarrow.dataset", "polars", "deltalake", "pyiceberg.table", "fastavro")
PROPERTIES = {
    "compaction.min_segments": "3",
    "compaction.tier_ratio": "1e9",
    "compaction.max_attempts": "1000",
    **{f"publish.{name}": "on" for name in FORMATS},
}
STRIKES_S = (0.3, 1.0)
ENOUGH: Mapping[str, int] = {
    "delta look": 4,
    "iceberg look": 4,
    "delta version read": 3,
    "iceberg version read": 3,
    "append": 6,
    "delete": 1,
    "cleaning": 1,
    "kill": 2,
}
"""What the shortest run must have done."""
SHORT_S, DEADLINE_S = 2.0, 60.0


@dataclass(slots=True)
class Run:
    """A run over a new table, and what came of it."""

    folder: Path
    table: Table
    seed: int
    retention_s: float
    events: list[Event] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def carry_out(self, seconds: float) -> list[str]:
        """Run the crew until it has done enough; return what is wrong."""
        (self.folder / RETENTION).write_text(str(self.retention_s))
        times = max(1.0, seconds / SHORT_S)
        crew = Crew(Forks(work, self.folder, (work.__module__, *PRELOADED)), self.folder, SESSION_S)
        try:
            for name, mode in CREW.items():
                crew.start(mode, name, self.table.ports.uri)
            self._strike(crew, seconds, times)
        finally:
            crew.end()
        self._look(crew)
        few = [
            f"too little was done: {self.done[w]} {w}" for w in ENOUGH if not self._did(w, times)
        ]
        return [*few, *Verdict(self).problems()]

    def _strike(self, crew: Crew, seconds: float, times: float) -> None:
        random, start = Random(self.seed), time.monotonic()
        following = start + STRIKES_S[1]
        while (now := time.monotonic()) < start + seconds + DEADLINE_S:
            time.sleep(0.1)
            crew.tend()
            self._look(crew)
            if now >= following:
                name = random.choice([each for each in CREW if each not in FORMATS])
                crew.kill(name)
                following = now + random.uniform(*STRIKES_S)
            if now >= start + seconds and all(self._did(what, times) for what in ENOUGH):
                return

    def _did(self, what: str, times: float) -> bool:
        return self.done[what] >= ENOUGH[what] * times**0.5

    def _look(self, crew: Crew) -> None:
        """Read the new events, long before they expire; count what was done."""
        self.events += self.table.ports.log.events(len(self.events))
        looks = {name: [e for e in self.looks(name) if "event" in e] for name in FORMATS}
        commits = [event for event in self.events if event.commit]
        self.done = Counter(
            {
                **{f"{name} look": len(seen) for name, seen in looks.items()},
                **{
                    f"{name} version read": len({each["number"] for each in seen})
                    for name, seen in looks.items()
                },
                "append": sum(isinstance(event.action, Appended) for event in commits),
                "delete": sum(isinstance(event.action, RowsChanged) for event in commits),
                "cleaning": sum(
                    isinstance(event.action, Cleaned) and bool(event.action.ids)
                    for event in commits
                ),
                "kill": sum(n for what, n in crew.done.items() if what.startswith("kill")),
            }
        )

    def looks(self, name: str) -> list[dict[str, Any]]:
        """Return what a reader noted."""
        return notes_in(self.folder, "looks").get(name, [])

    def report(self) -> Iterator[str]:
        """Yield what happened, as lines to print."""
        yield ", ".join(f"{n} {what}" for what, n in sorted(self.done.items()))
        yield f"{len(self.events)} events"
        for kind in ("published", "errors"):
            found = Counter(
                each.get("outcome") or each["error"].split(":")[0]
                for notes in notes_in(self.folder, kind).values()
                for each in notes
            )
            yield f"{kind}: {', '.join(f'{n} {what}' for what, n in found.items())}"
        for name in FORMATS:
            by = Counter(each.get("by", "error") for each in self.looks(name))
            longest = max((each["took_s"] for each in self.looks(name)), default=0.0)
            yield f"{name} looks: {dict(by)}, the longest {longest:.2f} s"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What must hold of a run."""

    run: Run

    def problems(self) -> Iterator[str]:
        """Yield all that is wrong."""
        expected = [*self._expected()]
        for name in FORMATS:
            yield from self._of_reader(name, expected)
        for each in self.run.table.publish(formats=FORMATS):
            published = self.run.table.published()[each.format]
            if published.lag_events or published.error:
                yield f"{each.format}: at last {published}"
        yield from map(str, verify(self.run.table.ports, deep=True).findings)

    def _expected(self) -> Iterator[tuple[int, int]]:
        """Yield the number of rows and their sum, event by event."""
        rows: set[int] = set()
        for event in self.run.events:
            match event.action:
                case Appended():
                    rows |= {*rows_of(event.commit)}
                case RowsChanged():
                    rows -= {*deleted_by(event.commit)}
                case _:
                    pass
            yield len(rows), sum(rows)

    def _of_reader(self, name: str, expected: Sequence[tuple[int, int]]) -> Iterator[str]:
        newest, slow = -1, [*self._slow()]
        for each in self.run.looks(name):
            if "error" in each:
                if each["took_s"] < self.run.retention_s and not slow:
                    yield f"{name}: {each['error']}"
                continue
            event, found = each["event"], (each["rows"], each["sum"])
            if event < newest:
                yield f"{name}: event {event} was read after event {newest}"
            newest = event
            if found != expected[event]:
                yield f"{name}: {each} is not {expected[event]}, the log's"
        if slow:
            sys.stdout.write(f"{len(slow)} publications took longer than the retention\n")

    def _slow(self) -> Iterator[float]:
        for notes in notes_in(self.run.folder, "published").values():
            yield from (e["took_s"] for e in notes if e["took_s"] >= self.run.retention_s)


def begin(folder: Path, address: str, *, seed: int = 1, retention_s: float = 3.0) -> Run:
    """Return a run over a new table."""
    (folder / "zookeeper").write_text(address)
    ports = open_context(str(folder / "table"), zookeeper=address, author="stress")
    table = Table.create(
        ports.uri, schema=SCHEMA, time_column="at", granularity="hour", properties=PROPERTIES
    )
    del table
    return Run(folder=folder, table=Table(ports), seed=seed, retention_s=retention_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; return 0 if everything held."""
    made = argparse.ArgumentParser(
        prog="make stress-publishing",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    made.add_argument("--minutes", type=float, default=5.0, help="at least (default 5)")
    made.add_argument("--seed", type=int, default=1, help="of the kills (default 1)")
    made.add_argument("--retention-s", type=float, default=10.0, help="in seconds (default 10)")
    given = made.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="segtable-stress-") as place:
        folder = Path(place)
        with EmbeddedZooKeeper(folder / "server") as server:
            run = begin(folder, server.address, seed=given.seed, retention_s=given.retention_s)
            problems = run.carry_out(given.minutes * 60)
            run.table.ports.coordinator.close()
        for line in (*run.report(), *(f"WRONG: {problem}" for problem in problems[:20])):
            sys.stdout.write(f"{line}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
