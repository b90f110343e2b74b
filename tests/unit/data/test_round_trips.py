"""Small files of a primary-key table in an object store: few requests, beside each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.library.table import Table
from tests.property.test_keyed_tables import DAY_US, GONE, keyed_table
from tests.support.far_files import FarFiles

FILES = 20
TOGETHER = 8
"""The requests that have to be under way at once, before the first one is answered."""


@dataclass
class Requests:
    """The requests of a store whose first answers wait until several requests are under way.

    If none joins the first one within ten seconds, no further one waits.
    """

    paths: list[str] = field(default_factory=list)
    under_way: int = 0
    most: int = 0
    alone: bool = False
    changed: Condition = field(default_factory=Condition)

    @contextmanager
    def one(self, path: str) -> Iterator[None]:
        """Take part in a request."""
        with self.changed:
            self.paths.append(path)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self.changed.notify_all()
            met = self.changed.wait_for(lambda: self.alone or self.most >= TOGETHER, timeout=10)
            self.alone = self.alone or not met
        yield
        with self.changed:
            self.under_way -= 1


def upserted(table: Table, start: int, end: int, seq: int, day: int = 0) -> None:
    """Write records of some keys, all of one day."""
    at = pa.scalar((15_706 + day) * DAY_US, pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "at": pa.repeat(at, end - start),
            "key": range(start, end),
            "seq": [seq] * (end - start),
            "text": [f"a{seq}"] * (end - start),
            GONE: [False] * (end - start),
        }
    )
    table.upsert(rows, deleted=GONE)


def logs(place: Path) -> Table:
    """Return a table of one bucket that nothing has compacted."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    made = keyed_table(str(place), kind, Granularity.ALL)
    for seq in range(FILES):
        upserted(made, seq, seq + 50, seq)
    return made


def logs_above_a_base(place: Path) -> Table:
    """Return a table of one bucket with most rows in a base."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    made = keyed_table(str(place), kind, Granularity.ALL)
    upserted(made, 0, 5000, 0)
    made.compact("semi-major")
    for seq in range(1, FILES):
        upserted(made, seq, seq + 50, seq)
    return made


def days(place: Path) -> Table:
    """Return a table with a file a day."""
    made = keyed_table(str(place), PrimaryKey(key=("key",), buckets=1, ordering="seq"))
    for day in range(FILES):
        upserted(made, 50 * day, 50 * day + 50, day, day)
    return made


def far(table: Table) -> tuple[Table, Requests]:
    """Return a table as a new process has it, in a store."""
    requests = Requests()
    files = FarFiles(table.ports.files, requests.one)
    return Table(replace(table.ports, files=files)), requests


READS: dict[str, Callable[[Table], Any]] = {
    "rows": lambda table: table.scan().to_arrow().sort_by("key"),
    "condition": lambda table: table.scan(where="text >= 'a1'").to_arrow().sort_by("key"),
    "keys": lambda table: table.scan(where="key < 4900").to_arrow().sort_by("key"),
    "count": lambda table: table.scan().count(),
    "ends": lambda table: table.scan().min_max("seq"),
    "feed": lambda table: table.scan(since_version=1, changes=True).to_arrow().sort_by("key"),
}
WHOLE = {"rows", "count", "feed"}
"""Reads that load each file whole; the others read tails first, which a condition needs."""

WRITES: dict[str, Callable[[Table], Any]] = {
    "settling": lambda table: table.settle(),
    "minor": lambda table: table.compact("minor"),
    "semi-major": lambda table: table.compact("semi-major"),
    "major": lambda table: table.compact("major"),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("made", [logs, logs_above_a_base, days])
def test_small_files_are_read_beside_each_other(
    tmp_path: Path, made: Callable[[Path], Table], read: str
) -> None:
    """No read of many small files waits for one answer after another."""
    near = made(tmp_path)
    table, requests = far(near)
    assert READS[read](table) == READS[read](near)
    assert requests.most >= TOGETHER
    most = FILES if read in WHOLE else 2 * FILES + 1
    assert len(requests.paths) <= most


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", [logs, logs_above_a_base])
def test_inputs_are_read_beside_each_other(
    tmp_path: Path, made: Callable[[Path], Table], write: str
) -> None:
    """No service that reads many small files waits for one answer after another."""
    table, requests = far(made(tmp_path))
    WRITES[write](table)
    assert requests.most >= TOGETHER
    assert len(requests.paths) <= FILES


def test_a_few_rows_cost_a_few_files(tmp_path: Path) -> None:
    """A limit reads no time chunk before it is needed."""
    near = days(tmp_path)
    table, requests = far(near)
    assert table.scan(limit=3).to_arrow().num_rows == 3
    assert len(requests.paths) == 1
