"""Values in SQL, computed with Arrow as Spark's SQL (ANSI) computes them.

1. Read are: columns, literals, ``+ - * / % div``, ``||`` and ``concat``, ``upper``, ``lower``,
   ``trim``, ``length``, ``like``, ``abs``, ``round``, casts between numbers, times and intervals,
   conditions, ``case``, ``if``, ``coalesce``, ``nullif``. All others are refused by name; Spark
   computes any.
2. A part of ``case``, ``if`` and ``coalesce`` is computed for the rows that need it alone, so
   ``case when n = 0 then 0 else 1 / n end`` divides by no zero.
3. A value is stored in a column's type if it is one of its values: a fraction in an integer column
   is an error. Floating columns take the nearest number.
4. Times without zone are UTC.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.data.arrow.arrow_predicates import matches
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.arrow_numbers import OnlySpark, common, widened
from airflow_provider_segtable.data.sql.computed_types import TEXT, TIME, constant, normal
from airflow_provider_segtable.data.sql.decimal_results import Values, rounded
from airflow_provider_segtable.data.sql.sql_checks import unknown_part
from airflow_provider_segtable.data.sql.sql_predicates import COMPARISONS, predicate_of
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    Tree,
    literal,
    written,
)
from airflow_provider_segtable.data.sql.value_order import compared

WAY_OUT = (
    "Spark computes any expression (--engine spark of delete, update and merge, or its DataFrames)"
)
_ARITHMETIC: dict[type[Any], Callable[[Values, Values], Values]] = {
    exp.Add: numbers.added,
    exp.Sub: numbers.subtracted,
    exp.Mul: numbers.multiplied,
    exp.Div: numbers.divided,
    exp.IntDiv: numbers.whole_quotient,
    exp.Mod: numbers.remainder,
}
_CASTS = {
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}


def computed(tree: Tree, rows: pa.Table) -> pa.Array:
    """Return the value of an expression for each row, in the type that Spark gives it.

    Raises:
        SchemaMismatch: there is no such column.
        NeedsSpark: only Spark computes it.
        ArithmeticError, pyarrow.ArrowException: it has no value for some row (overflow).
    """
    _check(tree)
    return _Computer(rows).filled(tree)


def holds(tree: Tree, rows: pa.Table) -> pa.Array:
    """Return for each row whether a condition holds; null if unknown. Errors as ``computed``."""
    _check(tree)
    truth = _Computer(rows).truth(tree)
    return pa.repeat(truth, len(rows)) if isinstance(truth, pa.Scalar) else truth


def _check(tree: Tree) -> None:
    found = unknown_part(tree)
    if found is not None:
        raise _refused(found[0], f"its {found[1]!r} is not known here")


@dataclass(frozen=True, slots=True)
class _Computer:
    """Computes expressions over some rows."""

    rows: pa.Table

    def filled(self, tree: Tree) -> pa.Array:
        values = self.value(tree)
        return pa.repeat(values, len(self.rows)) if isinstance(values, pa.Scalar) else values

    def value(self, tree: Tree) -> Values:
        tree = tree.unnest()
        if type(tree) in _ARITHMETIC:
            return self.arithmetic(tree)
        found = None if isinstance(tree, exp.Cast) else literal(tree)
        if found is not None:
            return constant(found)
        match tree:
            case exp.Column():
                return self.column(tree)
            case exp.Neg() | exp.Abs() | exp.Round():
                return self.of_number(tree)
            case exp.Cast():
                return self.cast(tree)
            case exp.Case() | exp.If() | exp.Coalesce() | exp.Nullif():
                return self.chosen(list(_branches(tree)))
            case (
                exp.And() | exp.Or() | exp.Not() | exp.Is() | exp.In() | exp.Between() | exp.Like()
            ):
                return self.truth(tree)
            case _ if type(tree) in COMPARISONS:
                return self.truth(tree)
        return self.text(tree)

    def column(self, tree: exp.Column) -> pa.Array:
        name = tree.name
        if tree.args.get("table") or not isinstance(tree.this, exp.Identifier):
            raise _refused(tree, "it is a part of a column, or a column of some table")
        if name not in self.rows.column_names:
            known = ", ".join(self.rows.column_names)
            raise SchemaMismatch(f"there is no column {name!r}: the table has {known}")
        found = self.rows.column(name).combine_chunks()
        values = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return normal(values)

    def arithmetic(self, tree: Tree) -> Values:
        parts = (tree.this, tree.expression)
        if any(isinstance(each.unnest(), exp.Interval) for each in parts):
            return self.moved(tree)
        left, right = map(self.value, parts)
        try:
            return _ARITHMETIC[type(tree)](left, right)
        except OnlySpark as why:
            raise _refused(tree, str(why)) from None

    def of_number(self, tree: exp.Neg | exp.Abs | exp.Round) -> Values:
        """Return a number without or with another sign, or rounded."""
        values = self.value(tree.this)
        if pa.types.is_null(values.type):
            return values
        if not numbers.is_number(values.type):
            raise _refused(tree, f"it computes with {values.type}")
        if not isinstance(tree, exp.Round):
            return (pc.negate_checked if isinstance(tree, exp.Neg) else pc.abs_checked)(values)
        digits = literal(tree.args.get("decimals") or exp.Literal.number(0))
        if digits is None or not digits.text.lstrip("+-").isdigit():
            raise _refused(tree, "the digits to round to are a whole number")
        return rounded(values, int(digits.text))

    def moved(self, tree: Tree) -> Values:
        """Return a time plus or minus an interval of fixed length."""
        time, by = tree.this, tree.expression.unnest()
        if isinstance(tree, exp.Add) and isinstance(time.unnest(), exp.Interval):
            time, by = by, time.unnest()
        values = self.value(time)
        found = literal(by.this) if isinstance(by, exp.Interval) and by.this else None
        unit = str(by.args.get("unit") or "").upper().removesuffix("S")
        if not (
            pa.types.is_timestamp(values.type)
            and isinstance(tree, exp.Add | exp.Sub)
            and found is not None
            and found.text.lstrip("+-").isdigit()
            and unit in _SECONDS
        ):
            raise _refused(tree, "intervals are whole weeks, days, hours, minutes or seconds")
        length = pa.scalar(int(found.text) * _SECONDS[unit] * 1_000_000, pa.duration("us"))
        compute = pc.add_checked if isinstance(tree, exp.Add) else pc.subtract_checked
        return compute(pc.cast(values, TIME), length)

    def cast(self, tree: exp.Cast) -> Values:
        values, kind = self.value(tree.this), _CASTS.get(tree.to.this)
        found = literal(tree)
        if found is not None and found.kind in (Kind.DATE, Kind.TIME):
            return constant(found)
        if kind is None or not (numbers.is_number(values.type) or pa.types.is_null(values.type)):
            raise _refused(tree, f"{values.type} is cast to {tree.to.sql('spark').lower()}")
        if pa.types.is_floating(kind):
            return widened(values, kind)
        if pa.types.is_decimal(values.type):
            raise _refused(tree, "a decimal is cut to an integer")
        return (pc.trunc(values) if pa.types.is_floating(values.type) else values).cast(kind)

    def text(self, tree: Tree) -> Values:
        match tree:
            case exp.Upper():
                return _mapped(self.texts(tree.this, tree), str.upper, pc.ascii_upper)
            case exp.Lower():
                return _mapped(self.texts(tree.this, tree), str.lower, pc.ascii_lower)
            case exp.Trim() if not (tree.expression or tree.args.get("position")):
                return pc.utf8_trim(self.texts(tree.this, tree), characters=" ")
            case exp.Length():
                return pc.utf8_length(self.texts(tree.this, tree)).cast(pa.int32())
            case exp.DPipe():
                return self.joined(tree, (tree.this, tree.expression))
            case exp.Concat():
                return self.joined(tree, tree.expressions)
        raise _refused(tree, "it is not one of the functions that this process knows")

    def joined(self, tree: Tree, parts: Sequence[Tree]) -> Values:
        texts = [self.texts(each, tree) for each in parts]
        return pc.binary_join_element_wise(*texts, pa.scalar("", TEXT))

    def texts(self, tree: Tree, around: Tree) -> Values:
        values = self.value(tree)
        if values.type == TEXT or pa.types.is_null(values.type):
            return values.cast(TEXT)
        raise _refused(around, f"{written(tree)} is {values.type} and not text")

    def truth(self, tree: Tree) -> Values:
        """Return whether a condition holds, in three-valued logic."""
        tree = tree.unnest()
        match tree:
            case exp.And():
                return pc.and_kleene(self.truth(tree.this), self.truth(tree.expression))
            case exp.Or():
                return pc.or_kleene(self.truth(tree.this), self.truth(tree.expression))
            case exp.Not():
                return pc.invert(self.truth(tree.this))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return pc.is_null(self.filled(tree.this))
            case exp.In() | exp.Between():
                return self.test(tree)
            case exp.Like():
                return self.like(tree)
            case _ if type(tree) in COMPARISONS:
                return self.comparison(tree)
        values = self.value(tree)
        if not (pa.types.is_boolean(values.type) or pa.types.is_null(values.type)):
            raise _refused(tree, f"it is {values.type}, which is neither true nor false")
        return values.cast(pa.bool_())

    def comparison(self, tree: Tree) -> Values:
        sides = (tree.this.unnest(), tree.expression.unnest())
        columns = sum(isinstance(each, exp.Column) for each in sides)
        if columns == 1 and any(literal(each) is not None for each in sides):
            return self.test(tree)  # the literal takes the column's type
        left, right = map(self.filled, sides)
        try:
            kind = common(left.type, right.type)
        except OnlySpark as why:
            raise _refused(tree, str(why)) from None
        return compared(widened(left, kind), COMPARISONS[type(tree)], widened(right, kind))

    def like(self, tree: exp.Like) -> Values:
        pattern = literal(tree.expression)
        if pattern is None or pattern.kind is not Kind.TEXT or "\\" in pattern.text:
            raise _refused(tree, "a pattern is a text without backslashes")
        found = pc.match_like(self.texts(tree.this, tree), pattern.text)
        return pc.invert(found) if tree.args.get("negate") else found

    def test(self, tree: Tree) -> Values:
        """Return whether a predicate holds: one column beside literals."""
        found = matches(self.rows, predicate_of(tree, self.rows.schema))
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def chosen(self, branches: Sequence[tuple[Tree | None, Tree]]) -> Values:
        """Return for each row the value of the first branch whose condition holds."""
        left = np.arange(len(self.rows))
        places, found = [], []
        for condition, value in branches:
            here = _Computer(self.rows.take(pa.array(left)))
            taken = np.ones(len(left), np.bool_)
            if condition is not None:
                truth = here.truth(condition)
                full = pa.repeat(truth, len(left)) if isinstance(truth, pa.Scalar) else truth
                taken = np.asarray(pc.fill_null(full, False)).astype(np.bool_)
            found.append(_Computer(self.rows.take(pa.array(left[taken]))).filled(value))
            places.append(left[taken])
            left = left[~taken]
        try:
            kind = reduce(common, (each.type for each in found))
        except OnlySpark as why:
            raise _refused(branches[0][1].parent, str(why)) from None
        values = pa.concat_arrays([widened(each, kind) for each in found])
        return values.take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def _branches(tree: Tree) -> Iterator[tuple[Tree | None, Tree]]:
    """Yield conditions with their values; the last one, without condition, is for all others."""
    match tree:
        case exp.If():
            yield tree.this, tree.args["true"]
            yield None, tree.args.get("false") or exp.null()
        case exp.Nullif():
            yield exp.EQ(this=tree.this.copy(), expression=tree.expression.copy()), exp.null()
            yield None, tree.this
        case exp.Coalesce():
            for each in (tree.this, *tree.expressions):
                yield exp.Not(this=exp.Is(this=each.copy(), expression=exp.null())), each
            yield None, exp.null()
        case exp.Case():
            subject = tree.this
            for each in tree.args["ifs"]:
                same = each.this
                if subject is not None:
                    same = exp.EQ(this=subject.copy(), expression=same.copy())
                yield same, each.args["true"]
            yield None, tree.args.get("default") or exp.null()


def _mapped(
    values: Values, each: Callable[[str], str], of_ascii: Callable[[Values], Values]
) -> Values:
    """Map letters; beyond ASCII one by one, as one letter may become two."""
    array = pa.array([values.as_py()], TEXT) if isinstance(values, pa.Scalar) else values
    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return of_ascii(values)
    mapped = [None if text is None else each(text) for text in array.to_pylist()]
    return pa.scalar(mapped[0], TEXT) if isinstance(values, pa.Scalar) else pa.array(mapped, TEXT)


def _refused(tree: Tree, why: str) -> InvalidInput:
    return NeedsSpark(f"{written(tree)!r} cannot be computed here: {why}; {WAY_OUT}")
