"""Comparisons of two columns of values, as Spark compares: NaN equals NaN and is the largest."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.predicate import Compares


def compared(left: pa.Array, how: Compares, right: pa.Array) -> Any:
    """Return for each row whether the comparison holds; null if a side is null.

    Both sides have one type.
    """
    match how:
        case Compares.EQUAL:
            return _equal(left, right)
        case Compares.UNEQUAL:
            return pc.invert(_equal(left, right))
        case Compares.LESS:
            return _less(left, right)
        case Compares.MORE:
            return _less(right, left)
        case Compares.AT_MOST:
            return pc.invert(_less(right, left))
        case Compares.AT_LEAST:
            return pc.invert(_less(left, right))


def equatable(values: pa.Array) -> pa.Array:
    """Return values that Arrow finds equal where Spark does: minus zero is zero."""
    floating = pa.types.is_floating(values.type)
    return pc.add(values, pa.scalar(0.0, values.type)) if floating else values


def _equal(left: pa.Array, right: pa.Array) -> Any:
    same = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return same
    return pc.or_kleene(same, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _less(left: pa.Array, right: pa.Array) -> Any:
    less = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return less
    return pc.or_kleene(less, pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
