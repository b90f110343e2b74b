"""A table that is loaded day by day beside a rival writer, and an oracle of its rows.

1. A backfill of the example DAG loads the days of a month; a second one loads them again, from
   other files. The month is one chunk, so that every day cuts it.
2. A rival process appends to these days and to others, and compacts (``rival_writer``).
3. The oracle: of a day, the rows of its last load. Of the rival's rows in a loaded day, those of
   appends after the last load stay, and those from before the second backfill go. An append in
   between stays or goes as a whole: the loader's snapshot decides.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.table.table import Table
from tests.support.airflow_stack import AirflowStack
from tests.support.processes import importable

from . import rival_writer

DAG_ID = "segtable_load_daily"
DAG_FILE = Path(__file__).parents[2] / "dags" / f"{DAG_ID}.py"
ROWS_A_DAY = 20
RIVAL_DAYS = 31
Row = tuple[str, str, int]


@dataclass(frozen=True)
class DailyLoad:
    """A table of one month, the landing folder of its first days, and the rival's appends."""

    root: Path
    zookeeper: str
    first: datetime
    days: int
    appended: list[tuple[int, list[Row]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the table's name below the root."""
        return f"trips_{self.first:%Y%m}"

    @property
    def landing(self) -> Path:
        """Return the folder of the days' folders."""
        return self.root.parent / f"landing-{self.name}"

    def create(self) -> Table:
        """Create the table: small segments are joined, and then sorted."""
        return Table.create(
            str(self.root / self.name),
            schema=rival_writer.SCHEMA,
            time_column="at",
            granularity="month",
            properties={"compaction.min_segments": "3", "compaction.clustering": "n"},
            zookeeper=self.zookeeper,
        )

    def day(self, at: int) -> str:
        """Return the date of a day, counted from 0."""
        return f"{self.first + timedelta(days=at):%Y-%m-%d}"

    def run_ids(self) -> list[str]:
        """Return the runs of the days; Airflow names a run by its end."""
        ends = (self.first + timedelta(days=at + 1) for at in range(self.days))
        return [f"backfill__{end.isoformat()}" for end in ends]

    def file(self, at: int) -> Path:
        """Return the file of a day."""
        return self.landing / self.day(at) / "rows.csv"

    def rows(self, at: int, load: int) -> list[Row]:
        """Return the rows of a day's file: a load has fewer than the one before."""
        begin = self.first + timedelta(days=at)
        times = (begin + timedelta(minutes=n * 7) for n in range(ROWS_A_DAY - load))
        return [(str(time), f"load {load}", n) for n, time in enumerate(times)]

    def land(self, load: int, days: Sequence[int] | None = None) -> None:
        """Write the files of days, by default of all."""
        for at in range(self.days) if days is None else days:
            self.file(at).parent.mkdir(parents=True, exist_ok=True)
            self.file(at).unlink(missing_ok=True)
            lines = [f"{time},{source},{n}" for time, source, n in self.rows(at, load)]
            self.file(at).write_text("\n".join(["at,source,n", *lines]))

    def backfill(self, stack: AirflowStack, *, again: bool = False) -> int:
        """Let Airflow make a run of each day, or clear those that are there; return its id."""
        last = self.first + timedelta(days=self.days - 1)
        conf = {"table": self.name, "landing": str(self.landing)}
        with stack.others_suspended():
            return stack.backfill(
                DAG_ID, self.first, last, conf=conf, again=again, max_active_runs=3
            )

    @contextmanager
    def rival(self) -> Iterator[None]:
        """Run the rival beside the block, and note its appends."""
        script = [sys.executable, rival_writer.__file__, str(self.root / self.name)]
        given = [self.zookeeper, self.day(0), str(RIVAL_DAYS)]
        env = {**os.environ, "PYTHONPATH": importable()}
        told = self.landing.with_suffix(".told")
        with (
            told.open("w") as output,
            subprocess.Popen(
                [*script, *given], stdin=subprocess.PIPE, stdout=output, env=env
            ) as process,
        ):
            try:
                yield
                process.communicate(timeout=240)
            finally:
                process.kill()
        assert process.returncode == 0
        for line in told.read_text().splitlines():
            n, rows = json.loads(line)
            self.appended.append((n, [tuple(row) for row in rows]))

    def loads(self, table: Table) -> dict[str, list[tuple[int, int]]]:
        """Return of each day the events that loaded it, each with the newest event it had read."""
        found: dict[str, list[tuple[int, int]]] = {}
        for event in table.ports.log.events(1):
            if isinstance(event.action, RowsChanged):
                (interval,) = event.action.overwritten
                found.setdefault(str(interval)[:10], []).append((event.n, event.action.seen))
        return found

    def check(self, table: Table, second: int) -> None:
        """Compare the table with the oracle, row for row.

        Args:
            table: at rest.
            second: the newest event when the second backfill was made.
        """
        columns = table.snapshot().to_arrow().select(["at", "source", "n"]).to_pydict().values()
        there = Counter((str(at), source, n) for at, source, n in zip(*columns, strict=True))
        loads = self.loads(table)
        wanted = Counter(row for at in range(self.days) for row in self.rows(at, load=2))
        for n, rows in self.appended:
            for row in rows:
                last, seen = max(loads.get(row[0][:10], [(0, 0)]))
                in_between = second < n <= seen
                if n > last or n > seen or (in_between and there[row]):
                    wanted[row] += 1
        assert there == wanted
