"""Conditions on rows, as predicates or as Arrow expressions, ready to filter batches.

1. ``data.arrow.where`` makes them of what a user gives. Spark's tasks import this module, and no
   parser.
2. A condition knows the columns that it reads, and the range of event times outside which no row
   matches. ``data.parquet.row_groups`` skips row groups by it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.deletes.predicate import Predicate, columns_of, may_hold, reach
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time.interval import ALL_TIME, Instant, Interval
from airflow_provider_segtable.data.arrow.arrow_predicates import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A row condition.

    Attributes:
        columns: the columns it reads.
        keep: returns the matching rows of a batch.
        when: the first and last event time of matching rows.
        test: what matching rows satisfy, to skip files and row groups; None if not known.
    """

    columns: tuple[str, ...]
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]
    when: tuple[Instant, Instant] = (ALL_TIME.start, ALL_TIME.end - 1)
    test: Predicate | pc.Expression | None = None

    @property
    def interval(self) -> Interval | None:
        """Return the interval of matching event times; None if empty."""
        first, last = max(self.when[0], ALL_TIME.start), min(self.when[1], ALL_TIME.end - 1)
        return Interval(first, last + 1) if first <= last else None

    def may_hold(self, time_column: str, first: Instant, last: Instant) -> bool:
        """Return whether a row with an event time in ``first..last`` may match."""
        if self.test is None or isinstance(self.test, pc.Expression):
            return first <= self.when[1] and self.when[0] <= last
        return may_hold(self.test, time_column, first, last, exact=False)


def by_predicate(predicate: Predicate, time_column: str) -> Condition:
    """Return the condition that a predicate holds."""

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(matches(batch, predicate))

    columns = tuple(dict.fromkeys(columns_of(predicate)))
    when = reach(predicate, time_column)
    return Condition(columns=columns, keep=keep, when=when, test=predicate)


def by_expression(expression: pc.Expression, schema: pa.Schema) -> Condition:
    """Return the condition that an Arrow expression holds.

    Raises:
        InvalidInput: it is no condition over the columns.
    """

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(expression)

    return Condition(columns=_bound(expression, schema), keep=keep, test=expression)


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
