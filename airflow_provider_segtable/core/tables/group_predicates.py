"""Predicates over groups: deletes from a table of aggregates, over dimensions and time only.

1. A stored row aggregates many input rows and is merged with others at each compaction. So a
   predicate must have the same value for all rows of a group (equal dimensions and truncated
   time). Metrics change with every merge.
2. The time of an input row within its step is not stored. So a predicate may name only the start
   of a step; any other time would split groups that are stored as one row.
"""

from collections.abc import Iterator, Sequence

from airflow_provider_segtable.core.deletes.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Not,
    Predicate,
    columns_of,
    instant_of,
)
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.query_granularity import QueryGranularity
from airflow_provider_segtable.core.time.interval import ALL_TIME, Instant, iso


def check_group_predicate(
    predicate: Predicate, dimensions: Sequence[str], steps: QueryGranularity, time_column: str
) -> None:
    """Refuse a predicate whose effect would depend on compactions.

    Raises:
        InvalidInput: it names a metric or a time within a step; the message gives the neighbouring
            step starts.
    """
    for name in columns_of(predicate):
        if name not in (time_column, *dimensions):
            known = ", ".join((time_column, *dimensions))
            raise InvalidInput(
                f"{name!r} is a metric: its value changes whenever rows of a group are rolled up "
                "together, so a delete by it would depend on what was compacted so far; delete by "
                f"time and dimensions ({known})"
            )
    for at in _times(predicate, time_column):
        _check_step(at, steps, time_column)


def _times(predicate: Predicate, time_column: str) -> Iterator[Instant]:
    match predicate:
        case Compare(column=name, value=value) if name == time_column:
            given = [value]
        case Among(column=name, values=values) if name == time_column:
            given = list(values)
        case Not(of=one):
            yield from _times(one, time_column)
            return
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from _times(one, time_column)
            return
        case _:
            return
    yield from (at for value in given if (at := instant_of(value)) is not None)


def _check_step(at: Instant, steps: QueryGranularity, time_column: str) -> None:
    if not ALL_TIME.holds(at):
        return  # no row has such a time
    start = steps.truncate(at)
    if start == at:
        return
    width = steps.width_us
    calendar = steps.calendar
    end = calendar.chunk(at).end if calendar else start + (width or 1)
    raise InvalidInput(
        f"{iso(at)} lies within a step of the query granularity {steps.value!r}: rows are "
        f"stored with {time_column!r} at the start of their step, so it cannot split a step; "
        f"write {iso(start)} or {iso(end)}"
    )
