"""Conditions of users, given as SQL or as Arrow expressions, ready to filter batches.

1. SQL is parsed by ``data.arrow.sql``; a ``pyarrow.compute.Expression`` is taken as it is.
2. A condition knows the columns that it reads, and the range of event times outside which no row
   matches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.deletes.predicate import Predicate, columns_of, reach
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.time.interval import ALL_TIME, Instant, Interval
from airflow_provider_segtable.data.arrow.arrow_predicates import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A row condition: the columns it reads, its filter, and its first and last event time."""

    columns: tuple[str, ...]
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]
    when: tuple[Instant, Instant] = (ALL_TIME.start, ALL_TIME.end - 1)

    @property
    def interval(self) -> Interval | None:
        """Return the interval of matching event times; None if empty."""
        first, last = max(self.when[0], ALL_TIME.start), min(self.when[1], ALL_TIME.end - 1)
        return Interval(first, last + 1) if first <= last else None


def condition(where: Where | Predicate, schema: pa.Schema, time_column: str) -> Condition:
    """Return a condition over the columns of a table.

    Raises:
        InvalidInput: the text is not parsable, or names a missing column.
    """
    if isinstance(where, str):
        from airflow_provider_segtable.data.arrow.sql import parse_predicate  # slow to import

        return by_predicate(parse_predicate(where, schema), time_column)
    if isinstance(where, Predicate):
        return by_predicate(where, time_column)
    if not isinstance(where, pc.Expression):
        raise InvalidInput(
            f"{where!r} is not a condition: give SQL text, or a pyarrow.compute.Expression"
        )
    return Condition(columns=_bound(where, schema), keep=lambda batch: batch.filter(where))


def by_predicate(predicate: Predicate, time_column: str) -> Condition:
    """Return the condition that a predicate holds."""

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(matches(batch, predicate))

    columns = tuple(dict.fromkeys(columns_of(predicate)))
    return Condition(columns=columns, keep=keep, when=reach(predicate, time_column))


def _bound(where: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an expression needs: it fails without any one of them."""
    empty = schema.empty_table()
    try:
        empty.filter(where)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(
            f"{where} is not a condition over {', '.join(schema.names)}: {error}"
        ) from (None)
    return tuple(name for name in schema.names if not _stands(where, empty.drop_columns([name])))


def _stands(where: pc.Expression, empty: pa.Table) -> bool:
    try:
        empty.filter(where)
    except pa.ArrowException:
        return False
    return True
