"""Metrics of groups: aggregates each group's values to one.

1. Sums of integers and decimals are exact or refused, in any order of rows. They are summed
   directly if they cannot overflow, else in limbs of 32 bits.
2. Minimum, maximum, first and last compare codes (``rollup_codes``), in the same way for all types.
3. Nulls are ignored; the result of a group without values is null.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.data.rollup.rollup_codes import (
    Flags,
    Groups,
    Longs,
    coded,
    combined,
    plain,
    validity,
)

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_LIMB = 2**32 - 1
_DECIMAL_END = 10**38


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows with values, and flags of the groups that have any (None: all)."""

    of_row: NDArray[np.intp]
    groups: int
    filled: Flags | None

    def found(self, array: pa.Array) -> pa.Array:
        """Return the array with null for groups without a value."""
        if self.filled is None:
            return array
        return pc.if_else(pa.array(self.filled), array, pa.scalar(None, array.type))


def _part(groups: Groups, valid: Flags | None) -> _Part:
    if valid is None:
        return _Part(groups.of_row, groups.count, None)
    of_row = groups.of_row[valid]
    return _Part(of_row, groups.count, np.bincount(of_row, minlength=groups.count) > 0)


def _of(values: NDArray[Any], valid: Flags | None) -> NDArray[Any]:
    return values if valid is None else values[valid]


def sizes(groups: Groups) -> pa.Array:
    """Return the number of rows in each group."""
    return pa.array(np.bincount(groups.of_row, minlength=groups.count).astype(np.int64))


def summed(metric: Metric, column: pa.ChunkedArray, groups: Groups) -> pa.Array:
    """Return the sums as int64, double or decimal128(38, s).

    Raises:
        InvalidInput: a sum does not fit.
    """
    array = combined(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = validity(array)
    part = _part(groups, valid)
    if pa.types.is_decimal(array.type):
        limbs = _added([_of(limb, valid) for limb in _decimal_limbs(array)], part)
        return part.found(_decimals(limbs, array.type.scale, metric))
    if pa.types.is_floating(array.type):
        floats = _of(plain(array.cast(pa.float64())), valid)
        sums = np.bincount(part.of_row, weights=floats, minlength=part.groups)
        return part.found(pa.array(sums + 0.0))
    values = _of(plain(array.cast(pa.int64())), valid)
    return part.found(pa.array(_sum_of_integers(values, part, metric)))


def _sum_of_integers(values: Longs, part: _Part, metric: Metric) -> Longs:
    if not len(values):
        return np.zeros(part.groups, np.int64)
    largest = max(-int(values.min()), int(values.max()))
    if largest * len(values) <= _HIGHEST:
        sums = np.zeros(part.groups, np.int64)
        np.add.at(sums, part.of_row, values)
        return sums
    low, high = _added([values & _LIMB, values >> 32], part)
    if not (fits := (high >= -(2**31)) & (high < 2**31)).all():
        at = int(np.argmin(fits))
        raise _too_large(metric, (int(high[at]) << 32) + int(low[at]), "int64")
    return np.asarray((high << 32) | low)


def _added(limbs: Sequence[Longs], part: _Part) -> list[Longs]:
    """Add numbers given in limbs of 32 bits, lowest first; only the last limb is signed."""
    sums = []
    carried: Longs | int = 0
    for number, limb in enumerate(limbs):
        total = np.zeros(part.groups, np.int64)
        np.add.at(total, part.of_row, limb)
        total += carried
        last = number == len(limbs) - 1
        sums.append(total if last else total & _LIMB)
        carried = total >> 32
    return sums


def _decimal_limbs(array: pa.Array) -> list[Longs]:
    if not len(array):
        return [np.zeros(0, np.int64)] * 4
    words = np.frombuffer(array.buffers()[1], np.uint32)
    mine = words[4 * array.offset : 4 * (array.offset + len(array))].reshape(-1, 4)
    low = [mine[:, at].astype(np.int64) for at in range(3)]
    return [*low, mine[:, 3].view(np.int32).astype(np.int64)]


def _decimals(limbs: Sequence[Longs], scale: int, metric: Metric) -> pa.Array:
    kind = pa.decimal128(38, scale)
    for at in np.flatnonzero(np.abs(limbs[3]) >= _DECIMAL_END >> 96):
        value = sum(int(limb[at]) << (32 * number) for number, limb in enumerate(limbs))
        if abs(value) >= _DECIMAL_END:
            raise _too_large(metric, value, f"{kind} (unscaled)")
    words = np.empty((len(limbs[0]), 4), np.uint32)
    for number, limb in enumerate(limbs):
        words[:, number] = (limb & _LIMB).astype(np.uint32)
    return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words.tobytes())])


def _too_large(metric: Metric, value: int, kind: str) -> InvalidInput:
    return InvalidInput(
        f"metric {metric}: a sum is {value}, which {kind} cannot hold: use a finer query "
        "granularity or more dimensions, or sum a double"
    )


def extreme(metric: Metric, column: pa.ChunkedArray, groups: Groups) -> pa.Array:
    """Return the smallest or largest values, by the metric's kind."""
    codes = coded(column)
    part = _part(groups, codes.valid)
    best = _best(metric.kind is MetricKind.MIN, _of(codes.values, codes.valid), part)
    return codes.column(best, part.filled)


def _best(smallest: bool, values: Longs, part: _Part) -> Longs:  # noqa: FBT001  # min or max
    ufunc, worst = (np.minimum, _HIGHEST) if smallest else (np.maximum, _LOWEST)
    best = np.full(part.groups, worst, np.int64)
    ufunc.at(best, part.of_row, values)
    return best


def timed(
    metric: Metric, column: pa.ChunkedArray, at: Longs, groups: Groups
) -> tuple[pa.Array, pa.Array]:
    """Return the first or last values, and their exact times.

    Args:
        metric: the metric, which selects first or last.
        column: the values; nulls are ignored.
        at: the exact time of each row, in µs.
        groups: the groups of the rows.
    """
    codes = coded(column)
    part = _part(groups, codes.valid)
    values, times = _of(codes.values, codes.valid), _of(at, codes.valid)
    first = metric.kind is MetricKind.FIRST
    when = _best(first, times, part)
    among = times == when[part.of_row]
    ties = _Part(part.of_row[among], part.groups, part.filled)
    best = _best(first, values[among], ties)
    return codes.column(best, part.filled), part.found(pa.array(when))


Reduce = Callable[[Metric, pa.ChunkedArray, Groups], pa.Array]
REDUCED: dict[MetricKind, Reduce] = {
    MetricKind.SUM: summed,
    MetricKind.COUNT: summed,
    MetricKind.MIN: extreme,
    MetricKind.MAX: extreme,
}
