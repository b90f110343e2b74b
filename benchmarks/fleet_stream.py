"""What is written to the tables of ``fleet_beside_homemade.py``, the same for each way.

1. *busy* tables get three appends a minute, of rows of that minute; *late* tables get two, with a
   quarter of the rows up to three days old; *quiet* tables get one every ten minutes.
2. Every ten minutes the rows of one user are deleted from each busy and each late table.
3. The tables begin with four days, each of one append, so that late rows meet large files.
4. A seed of table and minute gives the rows. So each process makes them again, and ``expected``
   knows what a table has in the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

START_US = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * 1_000_000
"""When the simulated time begins: a Monday, at noon."""
MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US
TODAY_US = START_US // DAY_US * DAY_US
DAYS = 4
USERS = 200
FILLING = -1
"""The minute of the appends that fill the tables."""
BUSY, LATE, QUIET = "busy", "late", "quiet"
APPENDS = {BUSY: 3, LATE: 2, QUIET: 1}
LATE_SHARE = 0.25
PAUSE = 10
"""Minutes between the appends of a quiet table, and between deletes."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("day", pa.date32()),
        ("user", pa.int64()),
        ("kind", pa.string()),
        ("amount", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many tables of each sort, for how many minutes, and rows of an append and of a fill."""

    busy: int = 3
    late: int = 5
    quiet: int = 4
    minutes: int = 60
    rows: int = 2_000
    fill: int = 50_000

    def names(self) -> tuple[str, ...]:
        """Return the tables; the first part of a name is the sort."""
        sorts = {BUSY: self.busy, LATE: self.late, QUIET: self.quiet}
        return tuple(f"{sort}/{n}" for sort, many in sorts.items() for n in range(many))


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Rows for a table."""

    table: str
    rows: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A user whose rows a table loses."""

    table: str
    user: int


def writes(size: Size, minute: int) -> Iterator[Append | Delete]:
    """Yield what is written in a minute, or to fill the tables."""
    for number, table in enumerate(size.names()):
        if minute == FILLING:
            yield from (_filling(table, number, day, size) for day in range(DAYS))
            continue
        sort, turn = table.partition("/")[0], (minute + number) % PAUSE == 0
        for nth in range(APPENDS[sort]) if sort != QUIET or turn else ():
            yield _append(table, number, minute, nth, size)
        if turn and sort != QUIET:
            random = np.random.default_rng([number, minute, USERS])
            yield Delete(table=table, user=int(random.integers(USERS)))


def expected(size: Size) -> dict[str, tuple[int, int]]:
    """Return how many rows each table has in the end, and the sum of their ids."""
    ids = {name: np.empty(0, np.int64) for name in size.names()}
    users = dict(ids)
    for minute in range(FILLING, size.minutes):
        for write in writes(size, minute):
            name = write.table
            match write:
                case Append(rows=rows):
                    ids[name] = np.append(ids[name], rows["id"].to_numpy())
                    users[name] = np.append(users[name], rows["user"].to_numpy())
                case Delete(user=user):
                    kept = users[name] != user
                    ids[name], users[name] = ids[name][kept], users[name][kept]
    return {name: (len(left), int(left.sum())) for name, left in ids.items()}


def _filling(table: str, number: int, day: int, size: Size) -> Append:
    random = np.random.default_rng([number, day])
    begin = TODAY_US - day * DAY_US
    end = START_US if day == 0 else begin + DAY_US
    at = random.integers(begin, end, size.fill)
    return Append(table=table, rows=_rows(_first_id(number, FILLING, day), np.sort(at), random))


def _append(table: str, number: int, minute: int, nth: int, size: Size) -> Append:
    random = np.random.default_rng([number, minute, nth, DAYS])
    at = START_US + minute * MINUTE_US + random.integers(0, MINUTE_US, size.rows)
    if table.startswith(LATE):
        at -= np.where(
            random.random(size.rows) < 0.25, random.integers(0, 3 * DAY_US, size.rows), 0
        )
    return Append(table=table, rows=_rows(_first_id(number, minute, nth), at, random))


def _first_id(number: int, minute: int, nth: int) -> int:
    return ((number * 1_000 + minute + 1) * 10 + nth) * 1_000_000


def _rows(first: int, at: np.ndarray, random: np.random.Generator) -> pa.Table:
    count = len(at)
    columns = [
        pa.array(np.arange(first, first + count)),
        pa.array(at, pa.timestamp("us", "UTC")),
        pa.array((at // DAY_US).astype(np.int32), pa.int32()).cast(pa.date32()),
        pa.array(random.integers(0, USERS, count)),
        pa.array([f"kind-{kind}" for kind in random.integers(0, 8, count)]),
        pa.array(np.round(random.normal(100, 20, count), 2)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
