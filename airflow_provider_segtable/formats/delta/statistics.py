"""Statistics of a file in Delta's form: readers skip files by them.

1. ``numRecords`` is the number of rows in the file, hidden ones included.
2. A minimum is a lower bound, a maximum an upper one. Texts are cut to 32 characters, the last one
   of a cut maximum raised. Times have milliseconds: a minimum is rounded down, a maximum up.
3. No bounds have nested columns, bytes, truth values, columns that may have NaN (readers order it
   in several ways), decimals that a double cannot hold, and times outside of the years 1 to 9998.
4. Columns that a file lacks are null in all its rows.
5. ``tightBounds`` is false if rows are hidden: bounds and nulls are those of all rows.
"""

import math
from decimal import Decimal
from typing import Any

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.publishing import ColumnFacts
from airflow_provider_segtable.core.schema import Column
from airflow_provider_segtable.core.time import DAY_US, MAX_INSTANT, MIN_INSTANT, Instant, moment
from airflow_provider_segtable.formats.delta.log_files import Json, written
from airflow_provider_segtable.formats.format import NewFile

TEXT = 32
"""Characters of a bound."""
_DIGITS = 15
"""The digits that a double holds exactly: readers may parse numbers as such."""
_HIGHEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NO_FACTS = ColumnFacts()
_NESTED = ("struct<", "list<", "large_list<", "map<")


class Statistics:
    """The statistics of files of one version."""

    def __init__(self, table: TableCreated) -> None:
        """Take the columns that the version shows."""
        self._columns = [c for c in table.schema.numbered if not c.type.startswith(_NESTED)]
        schemas = (*table.earlier, table.schema)
        self._present = [frozenset(c.id for c in each.numbered) for each in schemas]

    def of(self, file: NewFile) -> str:
        """Return the statistics of a file, as JSON."""
        rows = file.shown.segment.rows
        present = self._present[file.shown.segment.schema]
        low: Json = {}
        high: Json = {}
        nulls: Json = {}
        for column in self._columns:
            facts = file.facts.columns.get(column.id, _NO_FACTS)
            if not facts.nan:
                _put(low, column, _bound(column.type, facts.low, up=False))
                _put(high, column, _bound(column.type, facts.high, up=True))
            _put(nulls, column, facts.nulls if column.id in present else rows)
        loose = {"tightBounds": False} if file.hidden else {}
        made = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        return written({**made, **loose})


def _put(values: Json, column: Column, value: Any) -> None:
    if value is not None:
        values[column.name] = value


def _bound(kind: str, value: Any, *, up: bool) -> Any:
    """Return a bound as JSON; None if there is none."""
    match value:
        case None | bool() | bytes():
            return None
        case float():
            return value if math.isfinite(value) else None
        case str():
            return _text_up(value) if up else value[:TEXT]
        case Decimal():
            return _number(value)
    if kind.startswith("date32"):
        return _day(value)
    if kind.startswith("timestamp["):
        return _time(value, "Z" if "tz=" in kind else "", up=up)
    return value


def _number(value: Decimal) -> float | int | None:
    """Return a decimal as a number whose shortest text is the decimal's own."""
    if len(value.as_tuple().digits) > _DIGITS:
        return None
    if value == value.to_integral_value():
        return int(value)
    return float(value) if "e" not in repr(float(value)) else None


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


def _time(at: Instant, zone: str, *, up: bool) -> str | None:
    whole = -(-at // 1000) if up else at // 1000
    if not MIN_INSTANT <= whole * 1000 < MAX_INSTANT:
        return None
    return moment(whole * 1000).replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def _day(number: int) -> str | None:
    at = number * DAY_US
    return moment(at).date().isoformat() if MIN_INSTANT <= at < MAX_INSTANT else None
