"""Random values of every type that is published, and rows in a form that all readers agree on."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

Row = tuple[tuple[str, Any], ...]

NAN = "not a number"
"""Stands for NaN, which equals itself here."""
NO_BOUNDS = (None, NAN, math.inf, -math.inf)
"""Values that no filter compares with: readers differ in what they make of them."""
DAY_ZERO = date(2013, 1, 1)
BERLIN = pa.timestamp("us", "Europe/Berlin")
TYPES: tuple[pa.DataType, ...] = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(38, 9)),
    *(pa.list_(pa.int32()), pa.list_(pa.struct([("x", pa.string()), ("y", pa.float64())]))),
    pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.list_(pa.string()))]))]),
    pa.map_(pa.string(), pa.int64()),
)
"""Types that every format can show."""
_NEVER = (pa.uint64(), pa.timestamp("ns"), pa.date64(), pa.time32("s"), pa.duration("us"))
COARSE = (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ms", "UTC"))
REFUSED: Mapping[str, tuple[pa.DataType, ...]] = {
    "delta": (*_NEVER, pa.time64("us")),
    "iceberg": (*_NEVER, *COARSE),
}
"""Types that a format refuses, by its name."""
NOT_EVERYWHERE = (BERLIN,)
"""Types that every format shows, and pyiceberg does not read."""


def value(draw: Random, kind: pa.DataType, nulls: float = 0.2) -> Any:
    """Draw a value of a type; often a null, an extreme, or one that was drawn before."""
    if draw.random() < nulls:
        return None
    for test, make in _MADE:
        if test(kind):
            return make(draw, kind)
    raise AssertionError(kind)


def rows(table: pa.Table, *, nulls: bool = True) -> Counter[Row]:
    """Return the rows of a table as a multiset, whatever their order and that of the columns.

    Without ``nulls``, null maps and null lists of structs are empty, as pyiceberg reads them.
    """
    names = sorted(table.column_names)
    columns = []
    for name in names:
        kind, values = table.schema.field(name).type, table.column(name).to_pylist()
        lost = not nulls and (pa.types.is_map(kind) or pa.types.is_list(kind))
        columns.append([() if v is None and lost else plain(v) for v in values])
    made = zip(*columns, strict=True) if names else ()
    return Counter(tuple(zip(names, row, strict=True)) for row in made)


def plain(value: Any) -> Any:
    """Return a value that compares and hashes as the value means."""
    match value:
        case float() if math.isnan(value):
            return NAN
        case datetime(tzinfo=None) | None:
            return value
        case datetime():
            return value.astimezone(UTC)
        case {"key": key, "value": item, **rest} if not rest:  # an entry of a map, in Polars
            return plain(key), plain(item)
        case dict():
            return tuple((name, plain(value[name])) for name in sorted(value))
        case list() | tuple():
            return tuple(map(plain, value))
        case _:
            return value


def _whole(draw: Random, kind: pa.DataType) -> int:
    width = kind.bit_width - 1
    return draw.choice((0, 1, -1, draw.randrange(-100, 100), 2**width - 1, -(2**width)))


def _real(draw: Random, kind: pa.DataType) -> float:
    some = (0.0, -0.0, math.nan, math.inf, -math.inf, draw.randrange(-8, 8) / 4)
    exact = (1e300, -5e-324) if kind == pa.float64() else (2.0**127, -(2.0**-149))
    return draw.choice((*some, *exact))


def _text(draw: Random, _: pa.DataType) -> str:
    long = "ab" * draw.randrange(90) + draw.choice("az")
    return draw.choice(("", "a", "z", "a b", 'q"\\,\n', "ü", "\U0010ffff", "\uffff" * 40, long))


def _decimal(draw: Random, kind: pa.Decimal128Type) -> Decimal:
    most = 10**kind.precision - 1
    number = draw.choice((0, 1, -1, draw.randrange(-500, 500), most, -most))
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale))


def _moment(draw: Random, kind: pa.TimestampType) -> datetime:
    step = {"s": 1_000_000, "ms": 1000}.get(kind.unit, 1)
    shift = draw.choice((0, step, draw.randrange(-(10**9), 10**9), -(10**15) - 1, 10**15 + 999_999))
    made = datetime(2013, 1, 1, tzinfo=UTC if kind.tz else None)
    return made + timedelta(microseconds=shift // step * step)


def _list(draw: Random, kind: pa.ListType) -> list[Any]:
    return [value(draw, kind.value_type) for _ in range(draw.randrange(3))]


def _struct(draw: Random, kind: pa.StructType) -> dict[str, Any]:
    return {each.name: value(draw, each.type) for each in kind}


def _map(draw: Random, kind: pa.MapType) -> list[tuple[Any, Any]]:
    keys = draw.sample(("a", "b", "ü", ""), draw.randrange(3))
    return [(key, value(draw, kind.item_type)) for key in keys]


_MADE: tuple[tuple[Callable[[Any], bool], Callable[[Random, Any], Any]], ...] = (
    (pa.types.is_boolean, lambda draw, _: draw.random() < 0.5),
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_unsigned_integer, lambda draw, _: draw.randrange(4)),
    (pa.types.is_floating, _real),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _text),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        lambda draw, kind: _text(draw, kind).encode() + draw.choice((b"", b"\xff\x00")),
    ),
    (pa.types.is_date, lambda draw, _: DAY_ZERO + timedelta(days=draw.randrange(-30_000, 30_000))),
    (pa.types.is_timestamp, _moment),
    (
        pa.types.is_time,
        lambda draw, _: time(second=draw.randrange(9)),
    ),
    (pa.types.is_duration, lambda draw, _: timedelta(seconds=draw.randrange(9))),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)
