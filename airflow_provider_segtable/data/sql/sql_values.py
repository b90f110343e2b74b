"""Values in SQL, computed with Arrow as Spark's SQL (ANSI) computes them.

1. Read are: columns and fields of structs, literals, arithmetic, comparisons and conditions,
   ``case``, ``if``, ``coalesce``, ``nullif``, ``greatest``, casts, intervals, and the functions of
   ``_METHODS`` and ``data.sql.sql_calls``. All others are refused by name; Spark computes any.
   ``tests/spark`` compares thousands of expressions with Spark's values.
2. A part of ``case``, ``if`` and ``coalesce`` is computed for the rows that need it alone, so
   ``case when n = 0 then 0 else 1 / n end`` divides by no zero; and so is the right side of
   ``and`` and ``or``.
3. A value is stored in a column's type if it is one of its values: a fraction in an integer column
   is an error. Floating columns take the nearest number.
4. Times without zone are UTC.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.core.predicate import Compares
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql import sql_casts as collections
from airflow_provider_segtable.data.sql import sql_functions as functions
from airflow_provider_segtable.data.sql.arrow_numbers import (
    BINARY,
    TEXT,
    TIME,
    Values,
    constant,
    constants,
    normal,
    rounded,
)
from airflow_provider_segtable.data.sql.sql_calls import CALLS
from airflow_provider_segtable.data.sql.sql_casts import (
    brought,
    cast_to,
    common,
    common_of,
    comparable,
    compared,
    equatable,
    intervals,
    step_of,
    tried,
)
from airflow_provider_segtable.data.sql.sql_predicates import (
    COMPARISONS,
    unclear_part,
    unknown_part,
)
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    Literal,
    OnlySpark,
    Tree,
    column_path,
    listed,
    literal,
    plain_list,
    written,
)

WAY_OUT = (
    "Spark computes any expression: --engine spark of delete, update and merge; to read, "
    'spark.read.format("segtable").load(TABLE).where(CONDITION), after register(spark)'
)
_ARITHMETIC: dict[type[Any], Callable[[Values, Values], Values]] = {
    exp.Add: numbers.added,
    exp.Sub: numbers.subtracted,
    exp.Mul: numbers.multiplied,
    exp.Div: numbers.divided,
    exp.IntDiv: numbers.whole_quotient,
    exp.Mod: numbers.remainder,
}
_CASTS: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.BINARY: BINARY,
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: TIME,
    exp.DataType.Type.TIMESTAMPTZ: TIME,
    exp.DataType.Type.TIMESTAMPLTZ: TIME,
}
TYPE_NAMES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "bigint": pa.int64(),
}
"""Types by which a value is cast as by a function, where the parser does not know it."""
_TRUTHS: tuple[type[Any], ...] = (
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.NullSafeEQ, exp.NullSafeNEQ),
)


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


def folded(tree: Tree) -> Tree:
    """Return a tree whose times that no column has a part in are literals.

    So ``at > timestamp '2026-01-01' - interval 1 day`` compares a column with a value.
    """
    return tree.transform(_folded_node)


_ONE_ROW = pa.table({"\0": [None]})


def _folded_node(node: Tree) -> Tree:
    name = type(node).__name__
    if not (type(node) in _ARITHMETIC or name in _MOVES) or node.find(exp.Column, exp.Lambda):
        return node
    try:
        (value,) = computed(node, _ONE_ROW).to_pylist()
    except (InvalidInput, ArithmeticError, ValueError, pa.ArrowException):
        return node
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMPTZ")
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    return node


_MOVES = frozenset(
    (
        *("TimestampTrunc", "DateTrunc", "TsOrDsAdd", "TimestampAdd", "AddMonths", "LastDay"),
        *("TsOrDsToDate", "StrToTime"),
    )
)
"""Functions that make a time of others."""


def _check(tree: Tree) -> None:
    found = unknown_part(tree)
    if found is not None:
        raise _refused(found[0], f"its {found[1]!r} is not known here")
    unclear = unclear_part(tree)
    if unclear is not None:
        raise _refused(unclear, "Spark may put its parentheses elsewhere")


@dataclass(frozen=True, slots=True)
class _Computer:
    """Computes expressions over some rows."""

    rows: pa.Table

    def filled(self, tree: Tree) -> pa.Array:
        values = self.value(tree)
        return pa.repeat(values, len(self.rows)) if isinstance(values, pa.Scalar) else values

    def value(self, tree: Tree) -> Values:
        """Return the value of an expression; an error names the innermost part it is about."""
        return _named(self.known, tree.unnest())

    def truth(self, tree: Tree) -> Values:
        """Return whether a condition holds, in three-valued logic."""
        return _named(self.known_truth, tree.unnest())

    def known(self, tree: Tree) -> Values:
        if type(tree) in _ARITHMETIC:
            return self.arithmetic(tree)
        if isinstance(tree, exp.Literal | exp.Null | exp.Boolean | exp.HexString):
            return self.literal(tree)
        if type(tree) in _TRUTHS or type(tree) in COMPARISONS:
            return self.known_truth(tree)
        anonymous = isinstance(tree, exp.Anonymous)
        name = tree.name.lower() if anonymous else type(tree).__name__
        if anonymous and name in TYPE_NAMES and len(tree.expressions) == 1:
            return cast_to(self.value(tree.expressions[0]), TYPE_NAMES[name])
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self, tree)
        raise OnlySpark("it is not one of the functions that this process knows")

    def literal(self, tree: Tree) -> pa.Scalar:
        if isinstance(tree, exp.HexString):
            text = tree.name
            return pa.scalar(bytes.fromhex(text.zfill(len(text) + len(text) % 2)), BINARY)
        return constant(literal(tree) or Literal(Kind.NULL, ""))

    def column(self, tree: Tree) -> pa.Array:
        if isinstance(tree, exp.Dot) and not isinstance(tree.this, exp.Column | exp.Dot):
            return collections.field_of(self.filled(tree.this), tree.expression.name)
        path = column_path(tree)
        if path[0] not in self.rows.column_names:
            if len(path) > 1:
                raise OnlySpark("it is a column of some other table")
            raise no_column(path[0], self.rows.column_names)
        found = self.rows.column(path[0]).combine_chunks()
        values = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        for name in path[1:]:
            fields = values.type.names if pa.types.is_struct(values.type) else ()
            if name not in fields:
                problem = f"there is no field {'.'.join(path)!r}: {path[0]!r} is {values.type}"
                raise SchemaMismatch(problem) if fields else OnlySpark(problem)
            values = pc.struct_field(values, name)
        return normal(values)

    def arithmetic(self, tree: Tree) -> Values:
        parts = (tree.this, tree.expression)
        if any(intervals(each) for each in parts):
            return self.moved(tree)
        left, right = self.pair(*parts)
        if pa.date32() in (left.type, right.type):
            return _days_moved(tree, left, right)
        if TEXT in (left.type, right.type):
            if left.type == right.type:
                raise OnlySpark("it computes with texts")
            kind = common(left.type, right.type)
            left, right = (
                brought(each, kind) if each.type == TEXT else each for each in (left, right)
            )
        return _ARITHMETIC[type(tree)](left, right)

    def number(self, tree: Tree) -> Values:
        """Return numbers; a text is a double."""
        values = self.value(tree)
        if values.type == TEXT:
            values = cast_to(values, pa.float64())
        if not (numbers.is_number(values.type) or pa.types.is_null(values.type)):
            raise OnlySpark(f"it computes with {values.type}")
        return values

    def negative(self, tree: exp.Neg) -> Values:
        found = literal(tree) if isinstance(tree.this.unnest(), exp.Literal) else None
        if found is not None and found.kind is Kind.NUMBER:
            return constant(found)
        values = self.number(tree.this)
        return values if pa.types.is_null(values.type) else pc.negate_checked(values)

    def rounded(self, tree: exp.Round) -> Values:
        digits = literal(tree.args.get("decimals") or exp.Literal.number(0))
        if digits is None or not digits.text.lstrip("+-").isdigit():
            raise OnlySpark("the digits to round to are a whole number")
        return rounded(self.number(tree.this), int(digits.text))

    def to_whole(self, tree: exp.Ceil | exp.Floor) -> Values:
        if tree.args.get("decimals"):
            raise OnlySpark("it rounds to digits")
        up = isinstance(tree, exp.Ceil)
        return functions.rounded_to_whole(self.number(tree.this), up=up)

    def moved(self, tree: Tree) -> Values:
        """Return a time or a date plus or minus an interval."""
        time, by = tree.this, tree.expression
        if isinstance(tree, exp.Add) and intervals(time):
            time, by = by, time
        if not isinstance(tree, exp.Add | exp.Sub) or intervals(time):
            raise OnlySpark("an interval is added to a time, or subtracted from one")
        values = self.value(time)
        if values.type not in (TIME, pa.date32()):
            raise OnlySpark(f"an interval is added to {values.type}")
        step = reduce(add, map(step_of, intervals(by)))
        if step.months and (step.days or step.micros is not None) and values.type != TIME:
            raise OnlySpark("months and days are added to a date")
        step = -step if isinstance(tree, exp.Sub) else step
        return functions.moved(values, step.months, step.days, step.micros)

    def cast(self, tree: exp.Cast) -> Values:
        found = literal(tree)
        if found is not None and found.kind is not Kind.NUMBER:
            return constant(found)
        of, kind = literal(tree.this), _cast_type(tree)
        if tree.args.get("safe"):
            return tried(self.value(tree.this), kind)
        if of is not None and of.kind is Kind.LOCAL_TIME and pa.types.is_integer(kind):
            raise OnlySpark("a time without zone is not cast to a number")
        return cast_to(self.value(tree.this), kind)

    def texts(self, tree: Tree) -> Values:
        values = self.value(tree)
        return values if values.type == TEXT else _named(lambda _: cast_to(values, TEXT), tree)

    def whole(self, tree: Tree) -> Values:
        """Return a number of days, or of characters."""
        values = self.value(tree)
        if values.type == TEXT or pa.types.is_null(values.type) or values.type == pa.int64():
            return cast_to(values, pa.int32())
        if not pa.types.is_integer(values.type):
            raise OnlySpark(f"it counts by {values.type}")
        return values

    def days(self, tree: Tree) -> Values:
        values = self.value(tree)
        return values if values.type == pa.date32() else self.as_time(values, pa.date32())

    def times(self, tree: Tree) -> Values:
        values = self.value(tree)
        return values if values.type == TIME else self.as_time(values, TIME)

    def as_time(self, values: Values, kind: pa.DataType) -> Values:
        if values.type in (TEXT, TIME, pa.date32()) or pa.types.is_null(values.type):
            return cast_to(values, kind)
        raise OnlySpark(f"it is {values.type} and not a time")

    def joined(self, tree: Tree) -> Values:
        pair = isinstance(tree, exp.DPipe)
        parts = (tree.this, tree.expression) if pair else tree.expressions
        texts = [self.texts(each) for each in parts]
        return pc.binary_join_element_wise(*texts, pa.scalar("", TEXT))

    def known_truth(self, tree: Tree) -> Values:
        match tree:
            case exp.And() | exp.Or():
                return self.both(tree)
            case exp.Not():
                return pc.invert(self.truth(tree.this))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return pc.is_null(self.filled(tree.this))
            case exp.Is() if isinstance(tree.expression, exp.Boolean):
                same = pc.equal(self.truth(tree.this), bool(tree.expression.this))
                return pc.fill_null(same, False)
            case exp.In():
                return self.among(tree)
            case exp.Between():
                return self.truth(_bounded(tree))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.null_safe(tree)
            case _ if type(tree) in COMPARISONS:
                return self.comparison(tree)
        values = self.value(tree)
        if values.type == TEXT or pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
            return cast_to(values, pa.bool_())
        raise OnlySpark(f"it is {values.type}, which is neither true nor false")

    def condition(self, tree: Tree) -> Values:
        """Return whether a branch is taken; Spark takes no text and no ``null`` for this."""
        if tree.unnest().is_string or isinstance(tree.unnest(), exp.Null):
            raise OnlySpark("it is neither true nor false")
        return self.truth(tree)

    def both(self, tree: exp.And | exp.Or) -> Values:
        """Return a conjunction or a disjunction; the right side fails only where it is needed."""
        join, decided = (
            (pc.and_kleene, False) if isinstance(tree, exp.And) else (pc.or_kleene, True)
        )
        if tree.this.unnest().is_string or tree.expression.unnest().is_string:
            raise OnlySpark("a part of it is a text")
        left = self.truth(tree.this)
        needed = pc.fill_null(pc.not_equal(left, decided), True)
        return join(left, self.where_needed(needed, _Computer.truth, tree.expression))

    def pair(self, left: Tree, right: Tree) -> tuple[Values, Values]:
        """Return two values; the right one fails only where the left one is known."""
        first = self.value(left)
        return first, self.where_needed(pc.is_valid(first), _Computer.value, right)

    def where_needed(
        self, needed: Values, compute: "Callable[[_Computer, Tree], Values]", tree: Tree
    ) -> Values:
        """Return values; if that fails, only of the rows that need them, and null for others."""
        try:
            return compute(self, tree)
        except (ArithmeticError, ValueError, pa.ArrowException):
            rows = self.full(needed)
            if pc.all(rows).as_py():
                raise
        if not pc.any(rows).as_py():
            return pa.nulls(len(rows), compute(_Computer(self.rows.slice(0, 0)), tree).type)
        here = _Computer(self.rows.filter(rows))
        places = pc.subtract(pc.cumulative_sum(rows.cast(pa.int64())), 1)
        return here.full(compute(here, tree)).take(pc.if_else(rows, places, None))

    def comparison(self, tree: Tree) -> Values:
        left, right = self.alike(*self.pair(tree.this, tree.expression))
        return compared(left, COMPARISONS[type(tree)], right)

    def null_safe(self, tree: Tree) -> Values:
        """Return whether two values are equal; the right one counts where the left one is null."""
        left, right = self.alike(self.value(tree.this), self.value(tree.expression))
        neither = pc.and_(pc.is_null(left), pc.is_null(right))
        same = pc.or_(neither, pc.fill_null(compared(left, Compares.EQUAL, right), False))
        return pc.invert(same) if isinstance(tree, exp.NullSafeNEQ) else same

    def alike(self, first: Values, second: Values) -> tuple[pa.Array, pa.Array]:
        """Return two values in the type that they are compared in."""
        kind = comparable(common(first.type, second.type))
        first, second = brought(first, kind), brought(second, kind)
        return self.full(first), self.full(second)

    def full(self, values: Values) -> pa.Array:
        return pa.repeat(values, len(self.rows)) if isinstance(values, pa.Scalar) else values

    def among(self, tree: exp.In) -> Values:
        """Return whether a value is one of some."""
        if tree.args.get("query") or not tree.expressions:
            raise OnlySpark("it is a query")
        left = self.value(tree.this)
        plain, others = self.members(tree)
        kinds = dict.fromkeys(each.type for each in (*plain, *others))
        kind = comparable(common_of([left.type, *kinds]))
        first, others = self.full(brought(left, kind)), [brought(each, kind) for each in others]
        values = pa.concat_arrays([pa.array([], kind), *(brought(each, kind) for each in plain)])
        known = pc.is_in(equatable(first), value_set=equatable(values).drop_null())
        found = pc.if_else(pc.is_valid(first), known, pa.scalar(None, pa.bool_()))
        if values.null_count:
            found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
        for each in others:
            found = pc.or_kleene(found, compared(first, Compares.EQUAL, self.full(each)))
        return found

    def members(self, tree: exp.In) -> tuple[list[pa.Array], list[Values]]:
        """Return the literals of an ``IN``, in an array of each type, and its other values."""
        plain = plain_list(tree)
        if plain and (known := constants(*plain)) is not None:
            return [known], []
        literals: dict[pa.DataType, list[Any]] = {}
        others = []
        for each in listed(tree):
            if isinstance(each, Literal):
                value = constant(each)
                literals.setdefault(value.type, []).append(value.as_py())
            else:
                others.append(self.value(each))
        return [pa.array(values, kind) for kind, values in literals.items()], others

    def like(self, tree: exp.Like | exp.ILike | exp.Escape) -> Values:
        escape = "\\"
        if isinstance(tree, exp.Escape):
            escape, tree = tree.expression.name, tree.this
        if len(escape) != 1:
            raise OnlySpark("the escape is one character")
        texts, any_case = self.texts(tree.this), isinstance(tree, exp.ILike)
        given, some = tree.expression, isinstance(tree.expression, exp.Any | exp.All)
        patterns = given.this.unnest() if some else given
        patterns = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
        found = [
            functions.like(texts, _pattern(each), escape, any_case=any_case) for each in patterns
        ]
        if not tree.args.get("negate"):
            return reduce(pc.and_kleene if isinstance(given, exp.All) else pc.or_kleene, found)
        if some:
            raise OnlySpark("it is NOT LIKE of several patterns")
        return pc.invert(found[0])

    def matching(self, tree: exp.RegexpLike) -> Values:
        return functions.regex_matches(self.texts(tree.this), _pattern(tree.expression))

    def quantified(self, tree: Tree) -> Values:
        """Return whether a condition holds for some element of an array, or for all of them."""
        some = isinstance(tree, exp.Exists)
        of, test = (tree.this, tree.expression) if some else tree.expressions
        if (
            not isinstance(test, exp.Lambda)
            or len(test.expressions) != 1
            or test.this.find(exp.Lambda)
        ):
            raise OnlySpark("it has no condition on one element")
        pieces = collections.pieces(self.filled(of))
        name = f"{test.expressions[0].name}\0"
        body = test.this.transform(_element_as_column, test.expressions[0].name, name)
        rows = self.rows.take(pieces.rows).append_column(name, pieces.elements)
        here = _Computer(rows)
        return pieces.quantified(here.full(here.truth(body)), some=some)

    def greatest(self, tree: exp.Greatest | exp.Least) -> Values:
        values = [self.value(each) for each in (tree.this, *tree.expressions)]
        kinds = [each.type for each in values]
        if TEXT in kinds and any(each != TEXT and not pa.types.is_null(each) for each in kinds):
            raise OnlySpark("it compares texts with others")
        kind = comparable(common_of(kinds))
        how = Compares.MORE if isinstance(tree, exp.Greatest) else Compares.LESS
        first, *others = (self.full(brought(each, kind)) for each in values)
        for each in others:
            better = pc.or_kleene(pc.is_null(first), compared(each, how, first))
            first = pc.if_else(pc.fill_null(better, False), each, first)
        return first

    def branched(self, tree: Tree) -> Values:
        """Return the value of the branch that is taken."""
        return self.chosen(list(_branches(tree)))

    def chosen(self, branches: Sequence[tuple[Tree | None, Tree]]) -> Values:
        """Return for each row the value of the first branch whose condition holds."""
        left = np.arange(len(self.rows))
        places, found = [], []
        for condition, value in branches:
            here = _Computer(self.rows.take(pa.array(left)))
            taken = np.ones(len(left), np.bool_)
            if condition is not None:
                full = here.full(here.condition(condition))
                taken = np.asarray(pc.fill_null(full, False)).astype(np.bool_)
            found.append(_Computer(self.rows.take(pa.array(left[taken]))).filled(value))
            places.append(left[taken])
            left = left[~taken]
        kind = common_of([each.type for each in found])
        values = pa.concat_arrays([brought(each, kind) for each in found])
        return values.take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def _branches(tree: Tree) -> Iterator[tuple[Tree | None, Tree]]:
    """Yield conditions with their values; the last one, without condition, is for all others."""
    match tree:
        case exp.If():
            yield tree.this, tree.args["true"]
            yield None, tree.args.get("false") or exp.null()
        case exp.Nvl2():
            yield (
                exp.Not(this=exp.Is(this=tree.this.copy(), expression=exp.null())),
                tree.args["true"],
            )
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


def _cast_type(tree: exp.Cast) -> pa.DataType:
    """Return the type of a cast.

    Raises:
        OnlySpark: it is a type that is not known here.
    """
    sizes = [int(each.name) for each in tree.to.expressions if each.name.isdigit()]
    if tree.to.this is exp.DataType.Type.DECIMAL:
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        return pa.decimal128(precision, scale)
    if tree.to.this not in _CASTS or tree.to.expressions:
        raise OnlySpark(f"it is cast to {tree.to.sql('spark').lower()}")
    return _CASTS[tree.to.this]


def _pattern(tree: Tree) -> str:
    """Return a pattern, which is a text literal."""
    found = literal(tree)
    if found is None or found.kind is not Kind.TEXT:
        raise OnlySpark("a pattern is a text")
    return found.text


def _element_as_column(node: Tree, name: str, column: str) -> Tree:
    """Return the name of an element as that of a column; all other nodes stay."""
    found = isinstance(node, exp.Identifier) and node.name == name
    inside = isinstance(node.parent, exp.Column) or (
        isinstance(node.parent, exp.Dot) and node.arg_key == "expression"
    )
    return exp.column(column, quoted=True) if found and not inside else node


def _bounded(tree: exp.Between) -> Tree:
    """Return ``BETWEEN`` as two comparisons."""
    low, high = (tree.args[name].copy() for name in ("low", "high"))
    least = exp.GTE(this=tree.this.copy(), expression=low)
    return exp.And(this=least, expression=exp.LTE(this=tree.this.copy(), expression=high))


def _days_moved(tree: Tree, left: Values, right: Values) -> Values:
    """Return a date plus or minus days."""
    if isinstance(tree, exp.Add) and right.type == pa.date32():
        left, right = right, left
    counts = (pa.int8(), pa.int16(), pa.int32(), pa.null())
    if (
        left.type != pa.date32()
        or right.type not in counts
        or not isinstance(tree, exp.Add | exp.Sub)
    ):
        raise OnlySpark(f"it computes with {left.type} and {right.type}")
    return functions.later_days(left, right, -1 if isinstance(tree, exp.Sub) else 1)


def _named(compute: Callable[[Tree], Values], tree: Tree) -> Values:
    """Return the values of an expression; a refusal names it, if no part of it is to blame."""
    try:
        return compute(tree)
    except OnlySpark as why:
        raise _refused(tree, str(why)) from None
    except pa.ArrowNotImplementedError as why:
        raise _refused(tree, f"Arrow says: {why}") from None


def _refused(tree: Tree, why: str) -> InvalidInput:
    return NeedsSpark(f"{written(tree)!r} cannot be computed here: {why}; {WAY_OUT}")


_METHODS: dict[str, Callable[[_Computer, Any], Values]] = {
    **dict.fromkeys(("Column", "Dot"), _Computer.column),
    **dict.fromkeys(("Cast", "TryCast"), _Computer.cast),
    **dict.fromkeys(("Case", "If", "Coalesce", "Nullif", "Nvl2"), _Computer.branched),
    **dict.fromkeys(("Like", "ILike", "Escape"), _Computer.like),
    **dict.fromkeys(("Greatest", "Least"), _Computer.greatest),
    **dict.fromkeys(("DPipe", "Concat"), _Computer.joined),
    **dict.fromkeys(("Ceil", "Floor"), _Computer.to_whole),
    **dict.fromkeys(("Exists", "forall"), _Computer.quantified),
    "RegexpLike": _Computer.matching,
    "Neg": _Computer.negative,
    "Negative": _Computer.negative,
    "Round": _Computer.rounded,
    "EqualNull": _Computer.null_safe,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Values]] = {**CALLS, **_METHODS}
"""Functions by the parser's names; others by their own names, in lower case."""
