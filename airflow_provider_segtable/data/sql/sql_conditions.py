"""Conditions and new column values in SQL: as predicates where possible, else computed row by row.

Conditions of users (``data.where`` also takes an Arrow expression):

1. A predicate (``data.sql.sql_predicates``) bounds the event time, and skips files and row groups.
2. Any other condition is computed with Arrow (``data.sql.sql_values``). The parts of its ``AND``
   that are predicates bound and skip all the same.

New values of columns: read once, then computed for the rows that change.

3. A literal takes the column's type, as in a condition: ``'2026-01-01'`` is a time for a column of
   times. All else is computed (``data.sql.sql_values``) and must be a value of the column's type.
4. Columns are the old row's, also as ``target.column``. In a merge ``source.column`` is a
   column of the source; a bare name that both sides have is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from sqlglot import exp

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.core.predicate import AllOf, Predicate, reach
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.data.arrow_schema import is_text
from airflow_provider_segtable.data.conditions import Condition, by_predicate, scalar
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.arrow_numbers import SIGNED, TEXT, widened
from airflow_provider_segtable.data.sql.sql_predicates import and_parts, check_tree, predicate_of
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    OnlySpark,
    Tree,
    column_path,
    fitted,
    literal,
    parsed,
)
from airflow_provider_segtable.data.sql.sql_values import WAY_OUT, computed, folded, holds


# Conditions of users
def sql_condition(
    text: str, schema: pa.Schema, time_column: str, now: datetime | None = None
) -> Condition:
    """Return a condition over the columns of a table.

    Args:
        text: the condition, as after ``WHERE`` in Spark's SQL.
        schema: the table's columns; names are case-sensitive.
        time_column: the event time.
        now: the value of ``current_timestamp()``; by default the time of this call.

    Raises:
        SchemaMismatch: a column is missing.
        NeedsSpark: this process cannot evaluate it.
        InvalidInput: no engine can.
    """
    try:
        tree = parsed(text, "a condition", "carrier = 'AA'", names=schema.names, now=now)
        check_tree(tree, schema.names)
        tree = folded(tree)
        try:
            return by_predicate(predicate_of(tree, schema), time_column)
        except NeedsSpark:
            return _computed(text, tree, schema, time_column)
    except RecursionError:
        raise NeedsSpark(
            f"the condition is nested too deeply to be read here: {text[:60]}...; "
            "give it to Spark (--engine spark)"
        ) from None


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a condition in SQL into a predicate.

    Args:
        text: the condition, as after ``WHERE`` in Spark's SQL.
        schema: the columns it may name; names are case-sensitive.

    Raises:
        SchemaMismatch: naming a column that is missing.
        NeedsSpark: naming the part that is no predicate, but may be a condition for Spark.
        InvalidInput: naming the part that is not SQL, or not a value of its column.
    """
    try:
        tree = parsed(text, "a condition", "carrier = 'AA'", names=schema.names)
        return predicate_of(folded(tree), schema)
    except RecursionError:
        raise InvalidInput(
            "the condition is nested too deeply to be read: give it to Spark (--engine spark), "
            "which reads any expression"
        ) from None


def _computed(text: str, tree: Tree, schema: pa.Schema, time_column: str) -> Condition:
    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return batch.filter(holds(tree, pa.Table.from_batches([batch])))
        except (ArithmeticError, ValueError, pa.ArrowException) as error:
            raise InvalidInput(
                f"{text!r} is neither true nor false for some row: {error}"
            ) from None

    keep(pa.RecordBatch.from_pylist([], schema))  # refuses uncomputable conditions
    test = AllOf(tuple(_predicates(tree, schema)))
    named = {column_path(node)[0] for node in tree.find_all(exp.Column)}
    columns = tuple(name for name in schema.names if name in named) or (time_column,)
    return Condition(columns=columns, keep=keep, when=reach(test, time_column), test=test)


def _predicates(tree: Tree, schema: pa.Schema) -> list[Predicate]:
    """Return the parts of a conjunction that are predicates: all matching rows satisfy them."""
    found = []
    for part in and_parts(tree.unnest()):
        try:
            found.append(predicate_of(part, schema))
        except NeedsSpark:
            continue
    return found


# New values of columns
@dataclass(frozen=True, slots=True)
class AssignedSql:
    """An SQL expression as the new value of a column."""

    text: str
    field: pa.Field
    tree: Tree

    @staticmethod
    def read(
        field: pa.Field, text: str, names: Sequence[str], source: Mapping[str, str] | None = None
    ) -> "AssignedSql":
        """Read an expression.

        Args:
            field: the column to set.
            text: the expression, in Spark's SQL.
            names: the table's columns.
            source: of a merge, the names of its source's columns in the rows.

        Raises:
            InvalidInput: it is no SQL, or names a column of both sides.
        """
        try:
            known = [*names, *(source or ())]
            tree = parsed(text, "a value", "amount * 2", names=known)
            check_tree(tree, known)
            tree = _resolved(tree, names, source or {})
        except RecursionError:
            raise NeedsSpark(f"the new value is nested too deeply; {WAY_OUT}") from None
        return AssignedSql(text, field, tree)

    def over(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the new values of rows.

        Raises:
            SchemaMismatch: a value is not one of the column's type.
            NeedsSpark: only Spark computes it.
        """
        try:
            one = _constant(self.tree, self.field)
            if one is not None:
                return pa.chunked_array([pa.repeat(one, len(rows))])
            return pa.chunked_array([_stored(computed(self.tree, rows), self.field.type)])
        except (RecursionError, OnlySpark) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise NeedsSpark(f"{self.text!r} cannot be computed here: {why}; {WAY_OUT}") from None
        except (ArithmeticError, TypeError, ValueError, pa.ArrowException) as error:
            raise SchemaMismatch(
                f"column {self.field.name!r} is {self.field.type} and cannot be set to "
                f"{self.text}: {error}"
            ) from None


def _constant(tree: Tree, field: pa.Field) -> pa.Scalar | None:
    """Return a literal as a value of a column; None if it is no literal."""
    found = literal(tree)
    if found is None or (isinstance(tree.unnest(), exp.Cast) and found.kind is Kind.NUMBER):
        return None
    if found.kind is Kind.NULL:
        return pa.scalar(None, field.type)
    value = fitted(found, field.type)
    if value is None:
        raise TypeError(f"it is {found.kind}")
    try:
        return scalar(value, field.type, field.name)
    except InvalidInput as error:
        raise SchemaMismatch(str(error)) from None


def _resolved(tree: Tree, names: Sequence[str], source: Mapping[str, str]) -> Tree:
    """Return a tree whose columns are named as in the rows, without a side."""

    def resolve(node: Tree) -> Tree:
        if not isinstance(node, exp.Column):
            return node
        name, side = node.name, node.table
        if not side and name in source:
            if name in names:
                raise InvalidInput(
                    f"{name!r} is a column of both sides: write target.{name} or source.{name}"
                )
            side = "source"
        if side == "source" and source and side not in names and not _known(name, source):
            raise no_column(name, source, of="the source")
        if side == "source" and name in source:
            return exp.column(source[name], quoted=True)
        return exp.column(name, quoted=True) if side == "target" else node

    return tree.transform(resolve)


def _known(name: str, names: Iterable[str]) -> bool:
    """Return whether a name is a column, of which Spark ignores the case."""
    return name.lower() in {each.lower() for each in names}


def _stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return computed values in a column's type.

    Raises:
        TypeError, ValueError: a value is not one of the type's.
        OnlySpark: Spark may know how to convert it.
    """
    found = values.type
    if found == kind or pa.types.is_null(found):
        return values.cast(kind)
    if numbers.is_number(found) and numbers.is_number(SIGNED.get(kind, kind)):
        return _stored_number(values, kind)
    if found == TEXT and is_text(kind):
        return values.cast(kind)
    if pa.types.is_temporal(found) and pa.types.is_timestamp(kind):
        return values.cast(kind)
    if all(is_text(each) or pa.types.is_temporal(each) for each in (found, kind)):
        raise OnlySpark(f"it is {found}, and the column is {kind}")
    raise TypeError(f"it is {found}: cast it")


def _stored_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return numbers.cast(values, kind, safe=False)
    if not (pa.types.is_decimal(kind) and pa.types.is_floating(values.type)):
        return widened(values, kind) if pa.types.is_decimal(kind) else values.cast(kind)
    near = values.cast(kind)
    if not near.cast(values.type).equals(values):
        raise ValueError("a value has more digits than the column")
    return near
