"""The lake of a fleet run: its tables, what is written to them, and the fleet's file.

1. A table's name says what it is: ``busy/keyed-02`` is written to all the time, ``quiet/000`` has
   a history, ``cold/0`` is to be sorted by Spark, and ``broken/garbled`` is broken in that way.
2. A commit is a function of its table's form and its turn, so the rows that a table must have are a
   function of the turns that landed. No commit is made twice.
3. The hour's bytes of quiet tables grow with their number, and are too few for all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, column_ids
from airflow_provider_segtable.core.time import DAY_US, SECOND_US
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.table import Table

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("row", pa.int64()),
        ("count", pa.int64()),
    ]
)
START = 20_454 * DAY_US
ROWS, KEYS = 40, 500
COLD_TABLES, COLD_APPENDS, COLD_TIMES = 2, 4, 50
BROKEN_APPENDS = 6
DELETE_EVERY = 5
FORMS = ("append", "keyed", "changed", "indexed", "sorted", "append", "append")
FILES_READ, OVERLAP = 60, 50
QUIET_BYTES, QUIET_PLANS = 2_500, 6
FLEET_BYTES, FLEET_PLANS, TABLE_PLANS = 256 << 20, 30, 2
SORTED = f"""\
properties = {{compaction.clustering = "key", compaction.semi_major_interval_minutes = 3}}
objective = {{overlap = {OVERLAP}}}
"""
UNFIT: Mapping[str, str] = {
    "broken/clustering": 'properties = {compaction.clustering = "nowhere"}\n',
    "broken/properties": "properties = {compaction.major_buckets = 4}\n",
}
NOWHERE = "s3://segtable-nowhere/orders"
NO_STORE: Mapping[str, str] = {
    "endpoint": "http://127.0.0.1:9",
    "allow_http": "true",
    "region": "us-east-1",
    "access_key_id": "nobody",
    "secret_access_key": "nothing",
}
"""Options of a store that does not answer."""

Rows = npt.NDArray[np.int64]


# Names
@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The names of a lake's tables; broken ones are in the order of ``BREAK``, and one is no table.

    Args:
        root: the folder of all tables.
        tables: how many there are.
        busy: how many of them are written to.
        broken: how many of them are broken.
    """

    root: Path
    tables: int
    busy: int
    broken: int

    @property
    def busy_names(self) -> tuple[str, ...]:
        """Return the names of tables that are written to."""
        return tuple(f"busy/{FORMS[n % len(FORMS)]}-{n:02d}" for n in range(self.busy))

    @property
    def still_names(self) -> tuple[str, ...]:
        """Return the names of sound tables that are not written to."""
        quiet = self.tables - self.busy - self.broken - COLD_TABLES
        return (
            *(f"cold/{n}" for n in range(COLD_TABLES)),
            *(f"quiet/{n:03d}" for n in range(quiet)),
        )

    @property
    def broken_names(self) -> tuple[str, ...]:
        """Return the names of broken tables, as the planner names them."""
        return tuple(each if "://" in each else f"broken/{each}" for each in BREAK)[: self.broken]

    def uri(self, name: str) -> str:
        """Return where a table is."""
        return str(self.root / name)


def form_of(name: str) -> str:
    """Return what is written to a table."""
    form = name.partition("/")[2].rpartition("-")[0]
    return form if form in FORMS else "append"


def history_of(name: str) -> int:
    """Return how many commits a table has before the run."""
    group, _, number = name.partition("/")
    if group == "quiet":
        return 13 if int(number) % 6 == 0 else 2
    return {"cold": COLD_APPENDS, "broken": BROKEN_APPENDS}.get(group, 0)


# Commits
def rows_of(turn: int) -> range:
    """Return the numbers of the rows of an append."""
    return range(turn * ROWS, (turn + 1) * ROWS)


def batch(form: str, turn: int, times: int = 1) -> pa.Table:
    """Return the rows of a commit; ``times`` as many for a large table."""
    if form == "keyed":
        numbers = [(turn * 7 + each) % KEYS for each in range(ROWS)]
        seconds, counts = numbers, [turn] * ROWS
    else:
        numbers = [*range(turn * ROWS * times, (turn + 1) * ROWS * times)]
        spread = 7_919 if form == "sorted" else 1
        seconds, counts = [n * spread % 86_400 for n in numbers], [0] * len(numbers)
    at = pa.array([START + each * SECOND_US for each in seconds], SCHEMA.field("at").type)
    return pa.table([at, [f"key-{n * 7_919 % 97:02d}" for n in numbers], numbers, counts], SCHEMA)


def deletes(form: str, turn: int) -> bool:
    """Return whether a turn deletes rows of the turn before instead of adding some."""
    return form == "changed" and turn % DELETE_EVERY == DELETE_EVERY - 1


def carry_out(table: Table, form: str, turn: int, commit_id: str) -> None:
    """Make the commit of a turn; made again, it changes nothing."""
    if form == "keyed":
        table.upsert(batch(form, turn), commit_id=commit_id)
    elif deletes(form, turn):
        gone = pa.array(rows_of(turn - 1)[::4], pa.int64())
        table.delete(pc.field("row").isin(gone), commit_id=commit_id)
    else:
        table.append(batch(form, turn), commit_id=commit_id)


def expected(form: str, turns: Iterable[int], times: int = 1) -> Rows:
    """Return the rows of a table after some turns: pairs of row and count, ascending."""
    rows: dict[int, int] = {}
    for turn in sorted(turns):
        if deletes(form, turn):
            for row in rows_of(turn - 1)[::4]:
                rows.pop(row, None)
        else:
            made = batch(form, turn, times)
            rows |= dict(zip(made["row"].to_pylist(), made["count"].to_pylist(), strict=True))
    return np.array(sorted(rows.items()), np.int64).reshape(-1, 2)


def found(table: Table) -> Rows:
    """Return the rows that a table has, in the same form."""
    read = table.snapshot().to_arrow(columns=["row", "count"]).sort_by("row")
    return np.stack([read["row"].to_numpy(), read["count"].to_numpy()], axis=1)


def times_of(name: str) -> int:
    """Return how many times as many rows a table's commits have."""
    return COLD_TIMES if name.startswith("cold/") else 1


# Making tables
def make_table(ports: TableContext, name: str) -> None:
    """Create a table with its history."""
    form = form_of(name)
    Table.create(
        ports.uri,
        schema=SCHEMA,
        time_column="at",
        granularity="day",
        primary_key="row" if form == "keyed" else None,
        buckets=1,
    )
    table = Table(ports)
    if form == "indexed":
        kind = BloomFilter(columns=column_ids(["row"], table.state().table))
        request_index(ports, "by_row", kind)
    for turn in range(history_of(name)):
        table.append(batch(form, turn, times_of(name)), commit_id=f"before-{turn}")


def _garble(table: Path) -> None:
    """Damage the newest event, as a failing disk does."""
    newest = max((table / "_segtable" / "timeline").iterdir())
    newest.write_bytes(newest.read_bytes()[:-40])


def _hide(table: Path) -> None:
    """Put a link that leads to itself in place of the log: reading it fails, for root as well."""
    log = table / "_segtable" / "timeline"
    log.rename(table / "_segtable" / "away")
    log.symlink_to(log.name)


def _nothing(table: Path) -> None:
    """Leave a table as it is: the fleet's file does not fit it."""


BREAK: Mapping[str, Callable[[Path], None]] = {
    "garbled": _garble,
    "unreadable": _hide,
    "properties": _nothing,
    "clustering": _nothing,
    NOWHERE: _nothing,
}
"""Ways to break a table, by the name of the table; the last one has no storage."""


def break_table(lake: Lake, name: str) -> None:
    """Break a table in the way that its name says."""
    BREAK[name.removeprefix("broken/")](lake.root / name)


def fleet_file(lake: Lake) -> str:
    """Return the text of the fleet's file."""
    alone = "\n".join(
        [
            *(f'[tables."{name}"]\n{SORTED}' for name in lake.busy_names if "sorted" in name),
            *(f'[tables."{name}"]\n{UNFIT.get(name, "")}' for name in lake.broken_names),
        ]
    )
    return f"""\
[fleet]
name = "lake"

[budget]
bytes_per_hour = "{FLEET_BYTES} B"
plans = {FLEET_PLANS}
plans_per_table = {TABLE_PLANS}

[properties]
compaction.min_segments = 24
compaction.target_size = {4 << 20}

[groups.busy]
tables = ["busy/*"]
priority = 4
objective = {{files_read = {FILES_READ}, deleted = 0.5, stale_index = "5m"}}

[groups.cold]
tables = ["cold/*"]
properties = {{compaction.clustering = "key", compaction.major_after_minutes = 0}}

[groups.rest]
tables = ["quiet/*", "broken/*"]
properties = {{compaction.min_segments = 12}}
quota = {{bytes_per_hour = "{QUIET_BYTES * lake.tables} B", plans = {QUIET_PLANS}}}

{alone}"""
