"""Conditions on rows, as predicates or as Arrow expressions, ready to filter batches.

1. ``data.arrow.where`` makes them of what a user gives. Spark's tasks import this module, and no
   parser.
2. A condition knows the columns that it reads, and the range of event times outside which no row
   matches. ``data.parquet.row_groups`` skips row groups by it.
3. A condition is a pure function of a row. A read applies it as often as it likes, also to records
   of a primary-key table that no reader sees, such as tombstones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Predicate, columns_of, may_hold, reach
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval
from airflow_provider_segtable.data.arrow.arrow_predicates import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A row condition.

    Attributes:
        columns: the columns it reads.
        keep: returns the matching rows of a batch, and does nothing else (rule 3).
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

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """Return what matching rows satisfy, as far as it is known as a predicate."""
        test = self.test
        return () if test is None or isinstance(test, pc.Expression) else (test,)

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

    Arrow compares no time with a zone to one without. As a time without zone is UTC here, an
    expression that does not fit the columns for this reason sees all of them with, or all without,
    a zone; it skips no row groups.

    Raises:
        InvalidInput: it is no condition over the columns.
    """
    views = (schema, _in_zone(schema, None), _in_zone(schema, "UTC"))
    view = next((each for each in views if _stands(expression, _one_row(each))), schema)

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        if view is schema:
            return batch.filter(expression)
        return _viewed(_viewed(batch, view).filter(expression), batch.schema)

    test = expression if view is schema else None
    return Condition(columns=_bound(expression, view), keep=keep, test=test)


def _in_zone(schema: pa.Schema, zone: str | None) -> pa.Schema:
    """Return the schema with all timestamps in a zone, or without one; instants are the same."""
    kinds = [
        pa.timestamp(kind.unit, zone) if pa.types.is_timestamp(kind) else kind
        for kind in schema.types
    ]
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)])


def _viewed(batch: pa.RecordBatch, like: pa.Schema) -> pa.RecordBatch:
    """Return the batch with its timestamps in the zones of another schema."""
    columns = [
        column.view(like.field(name).type)
        if pa.types.is_timestamp(column.type) and name in like.names
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    fields = [f.with_type(c.type) for f, c in zip(batch.schema, columns, strict=True)]
    return pa.record_batch(columns, schema=pa.schema(fields, batch.schema.metadata))


def _bound(where: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an expression needs: it fails without any one of them."""
    row = _one_row(schema)
    try:
        row.filter(where)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(
            f"{where} is not a condition over {', '.join(schema.names)}: {error}"
        ) from (None)
    return tuple(name for name in schema.names if not _stands(where, row.drop_columns([name])))


def _one_row(schema: pa.Schema) -> pa.Table:
    """Return a row of nulls: Arrow compares time zones only where there is a row."""
    return pa.table([pa.nulls(1, kind) for kind in schema.types], names=schema.names)


def _stands(where: pc.Expression, row: pa.Table) -> bool:
    try:
        row.filter(where)
    except (pa.ArrowException, TypeError):
        return False
    return True
