"""Conditions on rows, as predicates or as Arrow expressions, ready to filter batches.

1. ``data.where`` makes them from a user's SQL or expression. Spark's tasks import this module, and
   no parser.
2. A condition knows the columns that it reads, and the range of event times outside which no row
   matches. ``data.parquet.segment_scan`` skips row groups by it.
3. A condition is a pure function of a row. A read applies it as often as it likes, also to records
   of a primary-key table that no reader sees, such as tombstones.
4. Predicates are evaluated on Arrow tables and batches in three-valued logic. Floating columns are
   compared as doubles, minus zero as zero and NaN as the largest number, so that the result equals
   Spark's for the same predicate in SQL (``data.sql.sql_predicates.to_sql``).
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    Value,
    columns_of,
    may_hold,
    reach,
)
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval

# Evaluation of predicates
_FUNCTIONS = {
    Compares.EQUAL: pc.equal,
    Compares.UNEQUAL: pc.not_equal,
    Compares.LESS: pc.less,
    Compares.AT_MOST: pc.less_equal,
    Compares.MORE: pc.greater,
    Compares.AT_LEAST: pc.greater_equal,
}


def matches(rows: pa.Table | pa.RecordBatch, predicate: Predicate) -> Any:
    """Return for each row whether it matches the predicate; null if unknown.

    Raises:
        InvalidInput: a value does not fit its column.
    """
    match predicate:
        case Compare(column=name, how=how, value=value):
            return _compared(_plain(rows.column(name)), how, value, name)
        case Among(column=name):
            return _among(_plain(rows.column(name)), predicate)
        case IsNull(column=name):
            return pc.is_null(rows.column(name))
        case Not(of=one):
            return pc.invert(matches(rows, one))
        case AllOf(of=some):
            return reduce(pc.and_kleene, (matches(rows, one) for one in some), _all(rows, True))
        case AnyOf(of=some):
            return reduce(pc.or_kleene, (matches(rows, one) for one in some), _all(rows, False))


def _all(rows: pa.Table | pa.RecordBatch, value: bool) -> pa.Array:  # noqa: FBT001
    return pa.repeat(pa.scalar(value), rows.num_rows)


def _compared(column: Any, how: Compares, value: Value, name: str) -> Any:
    if value is None:
        return _unknown(column)
    found = _FUNCTIONS[how](column, scalar(value, column.type, name))
    if pa.types.is_floating(column.type) and how in {Compares.MORE, Compares.AT_LEAST}:
        return pc.or_kleene(found, pc.is_nan(column))
    return found


def _among(column: Any, among: Among) -> Any:
    kind = column.type
    if kind not in among.derived:
        given = [value for value in among.values if value is not None]
        among.derived[kind] = _plain(value_array(given, kind, among.column))
    known = pc.is_in(column, value_set=among.derived[kind])
    if not among.values:
        return known
    if len(among.derived[kind]) < len(among.values):
        known = pc.if_else(known, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(column), known, pa.scalar(None, pa.bool_()))


def value_array(values: Sequence[Value], kind: pa.DataType, name: str) -> pa.Array:
    """Return values in their column's type: at once if they are of one plain type."""
    known: dict[type, bool] = {
        int: pa.types.is_integer(kind),
        str: pa.types.is_string(kind),
        float: pa.types.is_float64(kind),
        Decimal: pa.types.is_decimal128(kind),
        Moment: pa.types.is_timestamp(kind),
        Day: pa.types.is_date(kind),
    }
    (only, *more) = set(map(type, values)) or {type(None)}
    if not more and known.get(only, False):
        try:
            return _at_once(values, only, kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise InvalidInput(f"a value does not fit column {name!r}, {kind}: {error}") from None
    return pa.array([scalar(value, kind, name).as_py() for value in values], kind)


def _at_once(values: Any, of: type, kind: pa.DataType) -> pa.Array:
    """Return values of one type as ``scalar`` converts each."""
    if of is Moment:
        micros = pa.array([value.us for value in values], pa.int64())
        return micros.cast(pa.timestamp("us", kind.tz)).cast(kind)
    if of is Day:
        return pa.array([value.days for value in values], pa.int32()).cast(pa.date32()).cast(kind)
    return pa.array(values, kind)


def _unknown(column: Any) -> pa.Array:
    return pa.nulls(len(column), pa.bool_())


def _plain(column: Any) -> Any:
    """Convert a column so that Arrow compares equal values as equal."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        return pc.add(column.cast(pa.float64()), 0.0)  # minus zero becomes zero
    return column


def scalar(value: Value, kind: pa.DataType, name: str) -> pa.Scalar:
    """Return a predicate's value in its column's type.

    Raises:
        InvalidInput: the value does not fit the type.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        match value:
            case Moment(us=us):
                return pa.scalar(us, pa.timestamp("us", getattr(kind, "tz", None))).cast(kind)
            case Day(days=days):
                return pa.scalar(days, pa.int32()).cast(pa.date32()).cast(kind)
            case int() if pa.types.is_integer(kind) and not isinstance(value, bool):
                return pa.scalar(value, kind)
            case int() if pa.types.is_decimal(kind) and not isinstance(value, bool):
                return pa.scalar(Decimal(value)).cast(kind)
            case _:
                return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidInput(
            f"{value!r} is not a value of column {name!r}, {kind}: {error}"
        ) from None


# Conditions, of either form
@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A row condition.

    Attributes:
        columns: the columns it reads.
        keep: returns the matching rows of a batch, and does nothing else (rule 3).
        when: the first and last event time of matching rows.
        test: a necessary condition, to skip files and row groups; None if not known.
        exact: whether the test holds for matching rows alone.
    """

    columns: tuple[str, ...]
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]
    when: tuple[Instant, Instant] = (ALL_TIME.start, ALL_TIME.end - 1)
    test: Predicate | pc.Expression | None = None
    exact: bool = False

    @property
    def interval(self) -> Interval | None:
        """Return the interval of matching event times; None if empty."""
        first, last = max(self.when[0], ALL_TIME.start), min(self.when[1], ALL_TIME.end - 1)
        return Interval(first, last + 1) if first <= last else None

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """Return the necessary condition, if it is known as a predicate."""
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
    return Condition(columns=columns, keep=keep, when=when, test=predicate, exact=True)


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
    known = {*like.names}
    columns = [
        column.view(like.field(name).type)
        if pa.types.is_timestamp(column.type) and name in known
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
    return tuple(_needed(where, row, schema.names))


def _needed(where: pc.Expression, row: pa.Table, some: Sequence[str]) -> Iterator[str]:
    """Yield the columns among some that an expression needs; halves without any are left out."""
    if not some or _stands(where, row.drop_columns([*some])):
        return
    if len(some) == 1:
        yield some[0]
        return
    middle = len(some) // 2
    yield from _needed(where, row, some[:middle])
    yield from _needed(where, row, some[middle:])


def _one_row(schema: pa.Schema) -> pa.Table:
    """Return a row of nulls: Arrow compares time zones only where there is a row."""
    return pa.table([pa.nulls(1, kind) for kind in schema.types], names=schema.names)


def _stands(where: pc.Expression, row: pa.Table) -> bool:
    try:
        row.filter(where)
    except (pa.ArrowException, TypeError):
        return False
    return True
