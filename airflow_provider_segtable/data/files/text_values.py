"""Texts of a CSV file as values of the table's types: one rule for this process and for Spark.

1. Arrow parses each text by itself, so no value depends on the rows around it.
2. A text that is no value of the type, or is too large for it, is refused with its row, its column
   and itself; it never becomes null, infinite or rounded. Infinity is written ``inf``.
3. Times follow ``data.arrow.text_times``; times of day are written like those of timestamps.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import numbered_row
from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.data.arrow.text_times import parsed_times

_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_SHOWN = 60
_COMMA = re.compile(r"^[+-]?\d+,\d+$")
NULL_TEXTS = frozenset(("", "-", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", r"\N"))
"""Texts that often stand for null in CSV files."""


def without_nulls(texts: pa.ChunkedArray, nulls: Sequence[str]) -> pa.ChunkedArray:
    """Return texts of which some are null."""
    if not nulls:
        return texts
    named = pc.is_in(texts, value_set=pa.array(nulls, texts.type))
    return pc.if_else(named, pa.scalar(None, texts.type), texts)


def typed(texts: pa.ChunkedArray, name: str, kind: pa.DataType, first: int = 0) -> pa.ChunkedArray:
    """Return texts as values of a type; times in their own type, for the table's check to judge.

    Args:
        texts: the texts of a column.
        name: the column's name.
        kind: the type.
        first: the number of the first row, for the message; negative if it is not known.

    Raises:
        SchemaMismatch: with the row, the column and the text.
    """
    parse = _parser(name, kind)
    try:
        return parse(texts)
    except pa.ArrowInvalid:
        row = first_fault(texts, parse)
    text = texts[row].as_py()
    where = f"{numbered_row(first + row)}, " if first >= 0 else ""
    raise SchemaMismatch(
        f"{where}column {name!r}: {shown(text)} is not a value of type {kind}: "
        f"{_way_out(text, name, kind)}"
    )


def _way_out(text: str, name: str, kind: pa.DataType) -> str:
    """Return what to do about a text that is no value of its column's type."""
    if text == name:
        return "it is the column's name: the file has a header (leave out --no-header)"
    if text.strip() in NULL_TEXTS:
        return f"if it stands for null, add --null-text {quote(text)} (null_text={text!r})"
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return "write dates and times as ISO 8601, e.g. 2013-01-31T12:00:00Z"
    if _COMMA.match(text):
        return f"write {text.replace(',', '.')}, with a decimal point"
    return (
        "correct it, set such rows aside (--bad-rows), or name a text that stands for null "
        "(--null-text)"
    )


def shown(text: str) -> str:
    """Return a text for a message."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def faults(texts: pa.ChunkedArray, name: str, kind: pa.DataType) -> list[int]:
    """Return the rows whose text is no value of the type.

    Raises:
        SchemaMismatch: the type has no values in text.
    """
    parse = _parser(name, kind)
    return list(_faults(texts, parse, 0))


Parse = Callable[[pa.ChunkedArray], pa.ChunkedArray]


def first_fault(texts: Any, parse: Callable[[Any], object]) -> int:
    """Return the first row that cannot be parsed; one of them cannot.

    ``texts`` is any sequence of rows that can be sliced.
    """
    before = 0
    while len(texts) > 1:
        half = len(texts) // 2
        if _parses(texts[:half], parse):
            before, texts = before + half, texts[half:]
        else:
            texts = texts[:half]
    return before


def _faults(texts: pa.ChunkedArray, parse: Parse, before: int) -> Iterator[int]:
    if _parses(texts, parse):
        return
    if len(texts) == 1:
        yield before
        return
    half = len(texts) // 2
    yield from _faults(texts[:half], parse, before)
    yield from _faults(texts[half:], parse, before + half)


def _parses(texts: Any, parse: Callable[[Any], object]) -> bool:
    try:
        parse(texts)
    except (pa.ArrowInvalid, SchemaMismatch):
        return False
    return True


def _parser(name: str, kind: pa.DataType) -> Parse:
    """Return what parses texts as values of a type."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        return lambda texts: parsed_times(texts, kind.unit)
    if is_.is_time(kind):
        return lambda texts: _times_of_day(texts, kind)
    if is_.is_duration(kind):
        return lambda texts: texts.cast(pa.int64()).cast(kind)
    if is_.is_date64(kind):
        return lambda texts: texts.cast(pa.date32()).cast(kind)
    if is_.is_floating(kind):
        return lambda texts: finite(texts, texts.cast(kind))
    if is_.is_nested(kind):
        raise SchemaMismatch(
            f"column {name!r} is {kind}, which CSV has no form for: load it from JSON lines or "
            "Parquet"
        )
    if is_.is_null(kind):
        return _no_values
    return lambda texts: texts.cast(kind)


def _no_values(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    if texts.null_count < len(texts):
        raise pa.ArrowInvalid("a column without values has one")
    return pa.chunked_array([pa.nulls(len(texts))])


def _times_of_day(texts: pa.ChunkedArray, kind: Any) -> pa.ChunkedArray:
    dated = pc.binary_join_element_wise("1970-01-01T", texts, "")
    return dated.cast(pa.timestamp(kind.unit)).cast(kind)


def finite(texts: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers, none of which is infinite but those written so.

    Raises:
        pyarrow.ArrowInvalid: a number is too large for the type.
    """
    endless = pc.is_inf(values.cast(pa.float64()))
    if pc.any(endless).as_py():
        written = pc.match_substring_regex(texts, _INFINITE)
        if pc.any(pc.and_(endless, pc.invert(written))).as_py():
            raise pa.ArrowInvalid("a number is too large")
    return values
