"""Statistics of a file in Delta's form: readers skip files by them.

1. ``numRecords`` is the number of rows in the file, hidden ones included.
2. A minimum is a lower bound, a maximum an upper one. Texts are cut to 32 characters, the last one
   of a cut maximum raised. Times have milliseconds: a minimum is rounded down, a maximum up.
3. There is no maximum of a floating number: it would exclude NaN, which readers hold for the
   greatest of all numbers. No bounds have nested columns, texts of bytes, truth values, decimals
   that a double cannot hold, infinities and times after the year 9998.
4. Columns that a file lacks are null in all its rows.
5. ``tightBounds`` is false if rows are hidden: bounds and nulls are those of all rows.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.schema import Column
from airflow_provider_segtable.formats.delta.log_files import Json
from airflow_provider_segtable.formats.format import ColumnFacts, NewFile

TEXT = 32
"""Characters of a bound."""
_DIGITS = 15
"""The digits that a double holds exactly: readers may parse numbers as such."""
_LAST_YEAR = 9998
_HIGHEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NESTED = ("struct<", "list<", "large_list<", "map<")


def statistics(table: TableCreated, file: NewFile) -> str:
    """Return the statistics of a file, as JSON."""
    segment = file.shown.segment
    present = {column.id for column in table.schema_of(segment.schema).numbered}
    low: Json = {}
    high: Json = {}
    nulls: Json = {}
    for column in table.schema.numbered:
        if column.type.startswith(_NESTED):
            continue
        facts = file.facts.columns.get(column.id, ColumnFacts())
        _put(low, column, _bound(facts.low, _text_down, _time_down))
        if not isinstance(facts.high, float):
            _put(high, column, _bound(facts.high, _text_up, _time_up))
        _put(nulls, column, facts.nulls if column.id in present else segment.rows)
    loose = {"tightBounds": False} if file.hidden else {}
    made = {"numRecords": segment.rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps({**made, **loose}, separators=(",", ":"))


def _put(values: Json, column: Column, value: Any) -> None:
    if value is not None:
        values[column.name] = value


def _bound(
    value: Any, of_text: Callable[[str], str | None], of_time: Callable[[datetime], datetime]
) -> Any:
    """Return a bound as JSON; None if there is none."""
    match value:
        case None | bool() | bytes():
            return None
        case str():
            return of_text(value)
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return _iso(of_time(value)) if value.year <= _LAST_YEAR else None
        case date():
            return value.isoformat()
        case Decimal():
            return _number(value)
        case _:
            return value


def _number(value: Decimal) -> float | int | None:
    """Return a decimal as a number whose shortest text is the decimal's own."""
    if len(value.as_tuple().digits) > _DIGITS:
        return None
    if value == value.to_integral_value():
        return int(value)
    return float(value) if "e" not in repr(float(value)) else None


def _text_down(text: str) -> str:
    return text[:TEXT]


def _text_up(text: str) -> str | None:
    """Return a text of few characters that is not before another one; None if there is none."""
    if len(text) <= TEXT:
        return text
    for end in range(TEXT, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _HIGHEST:
            return text[: end - 1] + chr(following)
    return None


def _time_down(time: datetime) -> datetime:
    return time - timedelta(microseconds=time.microsecond % 1000)


def _time_up(time: datetime) -> datetime:
    return time + timedelta(microseconds=-time.microsecond % 1000)


def _iso(time: datetime) -> str:
    if time.tzinfo is None:
        return time.isoformat(timespec="milliseconds")
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
