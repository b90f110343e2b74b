"""What is seen of a fleet run while it goes on: objectives of busy tables, DAGs, and the load.

Measures are counted here from the tables' logs, without the planner's own code.
"""

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US
from airflow_provider_segtable.table.context import TableContext
from tests.stress.fleet.lake import FILES_READ, OVERLAP

STALE_US = 5 * MINUTE_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A look at a busy table: when, its files of a day, and the aims that it misses."""

    at: float
    table: str
    files: int
    missed: tuple[str, ...]


def files_read(state: State) -> int:
    """Return the largest number of visible files of any day."""
    visible = (each for each in state.timeline.visible_segments() if each.rows)
    return max(Counter(each.time_min // DAY_US for each in visible).values(), default=0)


def overlap(state: State) -> float:
    """Return how many files hold one instant, on average."""
    spans = [(each.time_min, each.time_max) for each in state.timeline.visible_segments()]
    if not spans:
        return 0.0
    whole = max(end for _, end in spans) - min(start for start, _ in spans) + 1
    return sum(end - start + 1 for start, end in spans) / whole


def misses(name: str, state: State, now_us: int) -> tuple[str, ...]:
    """Return the aims of its objective that a table misses now."""
    lacking = [index.lacking_since for index in state.indexes.values()]
    stale = any(since is not None and now_us - since > STALE_US for since in lacking)
    found = {
        "files_read": files_read(state) > FILES_READ,
        "overlap": "sorted" in name and overlap(state) > OVERLAP,
        "stale_index": stale,
    }
    return tuple(aim for aim, missed in found.items() if missed)


@dataclass(slots=True)
class Observer:
    """Looks at tables and at Airflow's database now and then."""

    tables: Mapping[str, TableContext]
    airflow_db: Path
    samples: list[Sample] = field(default_factory=list)
    dags: list[int] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Sample all."""
        self.samples += [*self._looks()]
        self.load.append(os.getloadavg()[0])
        found = self.ask("select count(*) from dag where is_stale = 0")
        self.dags += [int(str(n)) for (n,) in found]

    def _looks(self) -> Iterable[Sample]:
        for name, ports in self.tables.items():
            state, now = ports.log.load(), time.time()
            missed = misses(name, state, int(now * 1_000_000))
            yield Sample(at=now, table=name, files=files_read(state), missed=missed)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """Return rows of Airflow's database; none if it is busy."""
        place = f"file:{self.airflow_db}?mode=ro"
        try:
            with closing(sqlite3.connect(place, uri=True, timeout=5)) as connection:
                return list(connection.execute(query))
        except sqlite3.OperationalError:
            return []
