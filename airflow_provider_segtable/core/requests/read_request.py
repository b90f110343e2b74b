"""Read requests: which version of a table, and which of its rows and columns, as one value.

1. ``Table.scan`` and ``Table.snapshot``, Spark's scan and the command line share it. At most one of
   version, time and tag is given; without them the newest version is read.
2. A request is checked when it is made; ``columns_read`` compares it with a table's columns.
3. ``read_request`` also takes times and intervals as users give them (``core.time.times``), and
   ``a,b`` columns, as options have them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.time.interval import Instant, Interval
from airflow_provider_segtable.core.time.times import Time, TimeRange, as_instant, as_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The rows to read.

    Attributes:
        version: an event number.
        as_of: the newest version at this time, inclusive.
        tag: the version with this tag.
        columns: only these, in this order; all by default.
        where: only rows that match a condition.
        interval: only rows with event times in it.
        rolled_up: of a rollup table, one row for each group; ``where`` filters these.
        checked: compare data files with their checksums.
    """

    version: int | None = None
    as_of: Instant | None = None
    tag: str | None = None
    columns: tuple[str, ...] | None = None
    where: Where | None = None
    interval: Interval | None = None
    rolled_up: bool = False
    checked: bool = True

    def __post_init__(self) -> None:
        """Require one version at most, columns once each, and a condition that says something."""
        given = {"version": self.version, "as_of": self.as_of, "tag": self.tag}
        some = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if len(some) > 1:
            raise InvalidInput(f"{' and '.join(some)} name a version each: give one of them")
        if self.columns is not None and len({*self.columns}) < len(self.columns):
            raise InvalidInput(f"columns {', '.join(self.columns)}: name each once")
        if isinstance(self.where, str) and not self.where.strip():
            raise InvalidInput(f"where={self.where!r} is empty: leave it out to read all rows")


def read_request(
    *,
    version: int | None = None,
    as_of: Time | None = None,
    tag: str | None = None,
    columns: Sequence[str] | str | None = None,
    where: Where | None = None,
    interval: TimeRange | None = None,
    rolled_up: bool = False,
    checked: bool = True,
) -> ReadRequest:
    """Return a read request from a user's arguments; naive times are UTC.

    Raises:
        InvalidInput: a text is no time or interval, or the arguments contradict each other.
    """
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    return ReadRequest(
        version=version,
        as_of=None if as_of is None else as_instant(as_of),
        tag=tag,
        columns=None if columns is None else tuple(columns),
        where=where,
        interval=None if interval is None else as_interval(interval),
        rolled_up=rolled_up,
        checked=checked,
    )


def columns_read(request: ReadRequest, known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to read, in order.

    Raises:
        SchemaMismatch: the table has no such column.
    """
    for name in request.columns or ():
        if name not in known:
            raise SchemaMismatch(f"there is no column {name!r}: the table has {', '.join(known)}")
    return tuple(known) if request.columns is None else request.columns
