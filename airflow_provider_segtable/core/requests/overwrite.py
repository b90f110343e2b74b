"""Overwrite requests: replace the rows of an interval, or the rows that match a condition.

1. The rows to write are not a part of the request: an engine holds them
   (``table.changes.run_change``).
2. All of them must lie in the interval, or match the condition. So the same overwrite, run again
   under another commit id, replaces exactly the rows that it wrote before.
3. An overwrite without rows deletes.
"""

from enum import StrEnum
from typing import ClassVar, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
)
from airflow_provider_segtable.core.requests.change_request import ChangeKind, Where
from airflow_provider_segtable.core.time import DAY_US, Interval, TimeRange, as_interval


class Touched(StrEnum):
    """Extents that follow from the rows themselves."""

    CHUNKS = "chunks"
    """The time chunks that have at least one of the rows."""


Extent: TypeAlias = Interval | Touched
"""The event times to overwrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Replace rows by others, in one event.

    Attributes:
        extent: the event times whose rows are replaced.
        where: instead, a condition on the rows that are replaced.
        commit_id: equal ids overwrite once; random by default.
        dry_run: only count.
    """

    kind: ClassVar = ChangeKind.OVERWRITE
    extent: Extent | None = None
    where: Where | None = None
    commit_id: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Require an extent or a condition."""
        given = sum(each is not None for each in (self.extent, self.where))
        if given != 1:
            raise InvalidInput(
                f"{given} of interval and where are given: say which rows to overwrite by one of "
                "them; where='true' overwrites all"
            )
        if isinstance(self.where, str) and not self.where.strip():
            raise InvalidInput(f"where={self.where!r} is empty: where='true' overwrites all rows")

    def __str__(self) -> str:
        """Return the request as the log records it."""
        if self.extent is None:
            return f"where {self.where}"
        touched = isinstance(self.extent, Touched)
        return "the chunks of the rows" if touched else str(self.extent)


def extent_of(given: Extent | TimeRange | None) -> Extent | None:
    """Return the extent in a user's argument: an interval or ``chunks``.

    Raises:
        InvalidInput: a text is neither.
    """
    if given is None or isinstance(given, Touched):
        return given
    if not isinstance(given, str):
        return as_interval(given)
    if given in tuple(Touched):
        return Touched(given)
    if "/" not in given:
        raise InvalidInput(
            f"{given!r} does not say what to overwrite: write START/END, e.g. "
            f"2013-01-01/2013-02-01, or {Touched.CHUNKS.value!r} for the chunks that the rows touch"
        )
    return Interval.parse(given)


def within(intervals: tuple[Interval, ...], time_column: str, *, days: bool) -> Predicate:
    """Return the predicate that an event time lies in one of the intervals.

    Args:
        intervals: the intervals.
        time_column: the event time.
        days: whether the column has dates; a date is its midnight.
    """

    def value(at: int) -> Moment | Day:
        return Day(-(-at // DAY_US)) if days else Moment(at)

    each = tuple(
        AllOf(
            (
                Compare(time_column, Compares.AT_LEAST, value(interval.start)),
                Compare(time_column, Compares.LESS, value(interval.end)),
            )
        )
        for interval in intervals
    )
    return each[0] if len(each) == 1 else AnyOf(each)
