"""Read requests: which version of a table, and which of its rows and columns, as one value.

1. ``Table.scan`` and ``Table.snapshot``, Spark's scan and the command line share it. At most one of
   version, time and tag is given; without them the newest version is read.
2. With a start (``since_version``, ``since`` or ``consumer``) it reads a *window*: only the
   commits after the start, which is exclusive, up to the version read, which is inclusive. Either
   the rows that were added and are visible at the end (``core.reads.effects``), or with ``changes``
   every change of a row (``core.reads.effects``).
3. A request is checked when it is made; ``columns_read`` compares it with a table's columns. ``*``
   among the columns stands for all of the table's, so that hidden ones (``core.reads.effects``) can
   be named after them.
4. ``read_request`` also takes times and intervals as users give them (``core.time``), and
   ``a,b`` columns, as options have them.
"""

from collections.abc import Mapping, Sequence

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.schema import no_column, split_names
from airflow_provider_segtable.core.time import (
    Instant,
    Interval,
    Time,
    TimeRange,
    as_instant,
    as_interval,
)

INSTANT = "_segtable_instant"
"""The column with the time at which the write of the row began, UTC."""
COMPLETION_TIME = "_segtable_completion_time"
"""The column with the time of the event, UTC."""
ORIGIN_COLUMNS = (INSTANT, COMPLETION_TIME)
ALL_COLUMNS = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The rows to read.

    Attributes:
        version: an event number.
        as_of: the newest version at this time, inclusive.
        tag: the version with this tag.
        columns: only these, in this order; all by default, which ``*`` among them stands for.
        where: only rows that match a condition.
        interval: only rows with event times in it.
        since_version: only the commits after this event.
        since: only the commits after this time.
        consumer: only the commits after the position of this consumer.
        changes: of a window, each change of a row instead of the rows added.
        rolled_up: of a rollup table, one row for each group; ``where`` filters these.
        base_only: of a primary-key table, only base files, without merging: older rows.
        checked: compare data files with their checksums.
        include_log: with the live tail of the log stores, which is not committed yet.
        limit: at most so many rows; which ones is not promised.
    """

    version: int | None = None
    as_of: Instant | None = None
    tag: str | None = None
    columns: tuple[str, ...] | None = None
    where: Where | None = None
    interval: Interval | None = None
    since_version: int | None = None
    since: Instant | None = None
    consumer: str | None = None
    changes: bool = False
    rolled_up: bool = False
    base_only: bool = False
    checked: bool = True
    include_log: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Require one version at most, columns once each, and a condition that says something."""
        _one_of({"version": self.version, "as_of": self.as_of, "tag": self.tag}, "a version")
        starts = {
            "since_version": self.since_version,
            "since": self.since,
            "consumer": self.consumer,
        }
        _one_of(starts, "a start")
        if self.changes and not self.windowed:
            raise InvalidInput(
                f"changes are those since a start: give one of {', '.join(starts)}; "
                "since_version=0 means from the creation on"
            )
        if self.rolled_up and self.windowed:
            raise InvalidInput("rolled_up reads a whole version: leave it out to read a window")
        if self.base_only and self.windowed:
            raise InvalidInput(
                "base_only leaves out the newest records, a window asks for them: leave out one"
            )
        if self.include_log:
            self._check_log()
        if self.limit is not None and self.limit < 0:
            raise InvalidInput(f"limit={self.limit} is negative: give a number of rows, from 0")
        if self.columns is not None and len({*self.columns}) < len(self.columns):
            raise InvalidInput(f"columns {', '.join(self.columns)}: name each once")
        if isinstance(self.where, str) and not self.where.strip():
            raise InvalidInput(f"where={self.where!r} is empty: leave it out to read all rows")

    def _check_log(self) -> None:
        """Refuse arguments that do not go with the live tail."""
        others = {
            "version": self.version is not None,
            "as_of": self.as_of is not None,
            "tag": self.tag is not None,
            "a start": self.windowed,
            "rolled_up": self.rolled_up,
            "base_only": self.base_only,
        }
        named = [name for name, given in others.items() if given]
        if named:
            raise InvalidInput(
                f"include_log reads the newest version with uncommitted records: leave out "
                f"{' and '.join(named)}, or include_log"
            )

    @property
    def windowed(self) -> bool:
        """Return whether only the commits after a start are read."""
        return any(each is not None for each in (self.since_version, self.since, self.consumer))


def _one_of(given: Mapping[str, object], noun: str) -> None:
    some = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if len(some) > 1:
        raise InvalidInput(f"{' and '.join(some)} name {noun} each: give one of them")


def read_request(  # noqa: PLR0913 - each selects data to read
    *,
    version: int | None = None,
    as_of: Time | None = None,
    tag: str | None = None,
    columns: Sequence[str] | str | None = None,
    where: Where | None = None,
    interval: TimeRange | None = None,
    since_version: int | None = None,
    since: Time | None = None,
    consumer: str | None = None,
    changes: bool = False,
    rolled_up: bool = False,
    base_only: bool = False,
    checked: bool = True,
    include_log: bool = False,
    limit: int | None = None,
) -> ReadRequest:
    """Return a read request from a user's arguments; naive times are UTC.

    Raises:
        InvalidInput: a text is no time or interval, or the arguments contradict each other.
    """
    if isinstance(columns, str):
        columns = split_names(columns)
    return ReadRequest(
        version=version,
        as_of=_time(as_of, "version"),
        tag=tag,
        columns=None if columns is None else tuple(columns),
        where=where,
        interval=None if interval is None else as_interval(interval),
        since_version=since_version,
        since=_time(since, "since_version"),
        consumer=consumer,
        changes=changes,
        rolled_up=rolled_up,
        base_only=base_only,
        checked=checked,
        include_log=include_log,
        limit=limit,
    )


def _time(given: Time | None, by_number: str) -> Instant | None:
    """Return a time; the error for an event's number names the argument for these."""
    try:
        return None if given is None else as_instant(given)
    except InvalidInput as error:
        if not (isinstance(given, str) and given.strip().isdecimal()):
            raise
        option = by_number.replace("_", "-")
        way_out = f"if it is the number of an event, give {by_number} (--{option} {given.strip()})"
        raise InvalidInput(f"{error}; {way_out}") from None


def columns_read(
    request: ReadRequest, known: Sequence[str], hidden: Sequence[str] = ORIGIN_COLUMNS
) -> tuple[str, ...]:
    """Return the columns to read, in order.

    Args:
        request: the request.
        known: the columns that are read by default.
        hidden: further ones, which are read if they are named; a change feed has none.

    Raises:
        SchemaMismatch: the table has no such column.
        InvalidInput: a column that ``*`` stands for is named, too.
    """
    named = (ALL_COLUMNS,) if request.columns is None else request.columns
    there = {*known, ALL_COLUMNS, *(() if request.changes else hidden)}
    for name in named:
        if name not in there:
            raise no_column(name, known)
    found = [each for name in named for each in (known if name == ALL_COLUMNS else (name,))]
    if len({*found}) < len(found):
        raise InvalidInput(f"columns {', '.join(named)}: * stands for all, name no other twice")
    return tuple(found)
