"""Rollup by plain Python, row by row: slow, obvious, and what the fast ways must agree with."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.core.tables.rollup_kind import bound as bind
from airflow_provider_segtable.core.time import Granularity, instant
from airflow_provider_segtable.data.arrow_schema import from_arrow

Row = Mapping[str, Any]

INPUT = pa.schema(
    [
        pa.field("at", pa.timestamp("us"), nullable=False),
        ("carrier", pa.string()),
        ("hour", pa.int16()),
        ("ratio", pa.float64()),
        ("delay", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("speed", pa.float32()),
        ("note", pa.string()),
        ("ok", pa.bool_()),
    ]
)
DIMENSIONS = ("carrier", "hour", "ratio")
_SOURCES = {
    MetricKind.SUM: ("delay", "price", "speed"),
    MetricKind.MIN: ("delay", "price", "speed", "note", "ok", "at"),
}
for _kind in (MetricKind.MAX, MetricKind.FIRST, MetricKind.LAST):
    _SOURCES[_kind] = _SOURCES[MetricKind.MIN]
METRICS = (
    Metric(name="rows", kind=MetricKind.COUNT),
    *(
        Metric(name=f"{kind}_{source}", kind=kind, source=source)
        for kind, sources in _SOURCES.items()
        for source in sources
    ),
)


def rollup(granularity: QueryGranularity = QueryGranularity.HOUR) -> Rollup:
    """Return a rollup with every kind of metric but sketches."""
    made = Rollup(dimensions=DIMENSIONS, metrics=METRICS, query_granularity=granularity)
    return bind(made, from_arrow(INPUT), time_column="at", granularity=Granularity.ALL)


_AROUND_NEW_YEAR = (datetime(2013, 12, 31, 22), datetime(2014, 1, 1, 2))  # noqa: DTZ001  # naive
_exact = st.sampled_from([0.0, -0.0, 0.25, -1.5, 3.0, math.nan, math.inf])
_rows = st.fixed_dictionaries(
    {
        "at": st.datetimes(*_AROUND_NEW_YEAR),
        "carrier": st.sampled_from(["AA", "UA", "", "é", None]),
        "hour": st.sampled_from([-1, 0, 32767, None]),
        "ratio": st.sampled_from([0.0, -0.0, 0.5, math.nan, None]),
        "delay": st.none() | st.integers(-(2**31), 2**31 - 1),
        "price": st.none() | st.decimals("-9999999.99", "9999999.99", places=2),
        "speed": st.none() | _exact,
        "note": st.sampled_from(["", "a", "b", "ü", None]),
        "ok": st.sampled_from([True, False, None]),
    }
)


def rows(max_size: int = 30) -> st.SearchStrategy[pa.Table]:
    """Return given rows, of few groups and with equal times, so that there is something to do."""
    few = st.lists(st.tuples(_rows, st.integers(1, 3)), max_size=max_size)
    return few.map(
        lambda found: pa.Table.from_pylist(
            [row for row, times in found for _ in range(times)], INPUT
        )
    )


def expected(table: pa.Table, how: Rollup) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return each group's metrics and hidden columns by its key."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table.to_pylist():
        cut = how.query_granularity.truncate(_instant(row["at"]))
        key = (cut, *(shown(row[name]) for name in how.dimensions))
        groups.setdefault(key, []).append(row)
    return {key: _metrics(inside, how) for key, inside in groups.items()}


def _metrics(inside: Sequence[Row], how: Rollup) -> dict[str, Any]:
    out: dict[str, Any] = {EVENTS: len(inside)}
    for metric in how.metrics:
        if metric.source is None:
            out[metric.name] = len(inside)
            continue
        found = [
            (_instant(r["at"]), r[metric.source]) for r in inside if r[metric.source] is not None
        ]
        values = [value for _, value in found]
        at = None
        match metric.kind:
            case MetricKind.SUM:
                value = sum(values, type(values[0])()) if values else None
            case MetricKind.MIN:
                value = min(values, key=order, default=None)
            case MetricKind.MAX:
                value = max(values, key=order, default=None)
            case MetricKind.FIRST:
                at, value = min(found, key=lambda f: (f[0], order(f[1])), default=(None, None))
            case _:
                at, value = max(found, key=lambda f: (f[0], order(f[1])), default=(None, None))
        out[metric.name] = shown(value)
        if metric.kind.timed:
            out[metric.at] = at
    return out


def order(value: Any) -> tuple[bool, Any]:
    """Return what values are compared by: NaN is above all, text goes by its bytes."""
    if isinstance(value, float) and math.isnan(value):
        return (True, 0)
    return (False, value.encode() if isinstance(value, str) else value)


def shown(value: Any) -> Any:
    """Return a value that equals itself, and minus zero as zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _instant(at: datetime) -> int:
    return instant(at.replace(tzinfo=UTC))


def found(physical: pa.Table, how: Rollup) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return physical rows as ``expected`` does.

    Raises:
        AssertionError: two rows are of one group, or a minus zero was kept.
    """
    result: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in physical.to_pylist():
        at = _instant(row.pop("at"))
        assert not any(isinstance(v, float) and str(v) == "-0.0" for v in row.values()), row
        key = (at, *(shown(row.pop(name)) for name in how.dimensions))
        assert key not in result, f"two rows of group {key}"
        result[key] = {name: shown(value) for name, value in row.items()}
    return result


def dictionaries(table: pa.Table) -> pa.Table:
    """Return the rows with text as dictionaries."""
    for number, field in enumerate(table.schema):
        if field.type == pa.string():
            table = table.set_column(number, field.name, table.column(number).dictionary_encode())
    return table
