"""Read the texts of a file as values of the table's types, and set aside the rows that do not fit.

Times in text files, by one rule for all of them: ISO 8601, with a zone or in UTC.

1. A file may mix times with and without zone, and texts are read the same whatever the first rows
   look like. So inference by Arrow, which differs by format and content, never decides a column's
   type.

Texts of a CSV file as values: one rule for this process and for Spark.

2. Arrow parses each text by itself, so no value depends on the rows around it.
3. A text that is no value of the type, or is too large for it, is refused with its row, its column
   and itself; it never becomes null, infinite or rounded. Infinity is written ``inf``.
4. Times follow rule 1; times of day are written as in timestamps.

Rows that do not fit are set aside instead of refusing the file.

5. A row is set aside if it has no event time, one out of range, null in a key or another column
   that must not be null, or, in CSV, a field that is no value of its column. A file that is
   broken, or lacks a column, is refused all the same.
6. They are written as JSON lines, each with the ``file``, the number of the ``row`` in it from 0,
   the ``reason`` and the ``values``. This happens before any other row of the file is appended, so
   no row is lost if the disk is full.
7. Spark finds the same rows by ``text_faults`` in its tasks, and passes them to the driver's file.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import numbered_row
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.row_checks import impossible_times
from airflow_provider_segtable.data.rows import is_time

# Times in text files
TIME = pa.timestamp("us", "UTC")
"""The type of columns that hold times, as inferred from a text file."""
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d(:?\d\d(:?\d\d(\.\d{1,9})?)?)?\s*(Z|[+-]\d\d(:?\d\d)?)?$"
_ZONED = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def are_times(texts: pa.ChunkedArray) -> bool:
    """Return whether there are values, and all of them are times, not only dates."""
    like: pa.ChunkedArray = pc.match_substring_regex(texts, _ISO)
    return len(texts) > texts.null_count and pc.all(like).as_py() is True


def parsed_times(texts: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Return texts as times in UTC; as times without zone if none of them has a zone.

    Args:
        texts: ISO 8601; without a zone they are UTC.
        unit: the unit wanted. Finer times are kept, for the table's own check to judge.

    Raises:
        pyarrow.ArrowInvalid: a text is not a time; the message shows it.
    """
    zoned: pa.ChunkedArray = pc.match_substring_regex(texts, _ZONED)
    nothing = pa.scalar(None, texts.type)
    with_zone = _cast(pc.if_else(zoned, texts, nothing), unit, "UTC")
    without = _cast(pc.if_else(zoned, nothing, texts), unit, None)
    if not pc.any(zoned).as_py():
        return without
    if with_zone.type.unit != without.type.unit:
        with_zone, without = (_cast(each, "ns", each.type.tz) for each in (with_zone, without))
    return pc.coalesce(with_zone, without.cast(with_zone.type))


def _cast(texts: pa.ChunkedArray, unit: str, zone: str | None) -> pa.ChunkedArray:
    try:
        return texts.cast(pa.timestamp(unit, zone))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("ns", zone))


# Texts of a CSV file as values
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
    """Return the way out for a text that is no value of its column's type."""
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
    """Return the parser of texts as values of a type."""
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
    """Return numbers, infinite only where the text says so.

    Raises:
        pyarrow.ArrowInvalid: a number is too large for the type.
    """
    endless = pc.is_inf(values.cast(pa.float64()))
    if pc.any(endless).as_py():
        written = pc.match_substring_regex(texts, _INFINITE)
        if pc.any(pc.and_(endless, pc.invert(written))).as_py():
            raise pa.ArrowInvalid("a number is too large")
    return values


# Rows that are set aside
FoundRow: TypeAlias = tuple[str | None, int | None, str, Mapping[str, object]]
"""A row to set aside: its file and its number there, if they are known, the reason, the values."""
_AT_ONCE = 1000
"""Lines that are written at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Requirements of each row: a valid event time, and values in some columns."""

    time: str
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class BadRows:
    """The file of rows that are set aside, and their number so far; made with the first one."""

    path: str
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Refuse a path that is no file's of this machine."""
        here = Path(self.path)
        if not self.path or "://" in self.path or here.is_dir() or not here.parent.is_dir():
            raise InvalidInput(
                f"{self.path!r} cannot take the bad rows: give the path of a file on this machine, "
                "in a folder that is there"
            )

    def fitting_texts(
        self, rows: pa.Table, schema: pa.Schema, place: str
    ) -> "tuple[pa.Table, pa.Array[pa.Int64Scalar]]":
        """Set rows of texts aside that do not fit; return the others, and their numbers."""
        numbers = pa.array(np.arange(rows.num_rows))
        return self._without(rows, numbers, place, text_faults(rows, schema))

    def complete(
        self, rows: pa.Table, numbers: "pa.Array[pa.Int64Scalar]", needed: Needed, place: str
    ) -> pa.Table:
        """Set rows aside that lack a valid event time, or another needed value; return the rest."""
        reasons: dict[int, str] = {}
        time = needed.time
        if time in rows.column_names and is_time(rows.schema.field(time).type):
            reasons |= dict.fromkeys(_where(impossible_times(rows.column(time))), untimed(time))
        there = {*rows.column_names}
        for name in filter(there.__contains__, needed.columns):
            missing = _where(rows.column(name).is_null())
            reasons = dict.fromkeys(missing, is_needed(name)) | reasons
        return self._without(rows, numbers, place, reasons)[0]

    def add(self, place: str, rows: Iterable[FoundRow]) -> None:
        """Set rows aside that were found elsewhere; ``place`` is the file of those without one."""
        lines = (
            {"file": file or place, "row": row, "reason": reason, "values": values}
            for file, row, reason, values in rows
        )
        for some in _batched(lines, _AT_ONCE):
            self._write(some)

    def _without(
        self,
        rows: pa.Table,
        numbers: "pa.Array[pa.Int64Scalar]",
        place: str,
        reasons: Mapping[int, str],
    ) -> "tuple[pa.Table, pa.Array[pa.Int64Scalar]]":
        if not reasons:
            return rows, numbers
        at = sorted(reasons)
        some = rows.take(pa.array(at))
        columns = zip(*map(_values, some.columns), strict=True)
        values = (dict(zip(some.column_names, each, strict=True)) for each in columns)
        self._write(
            {"file": place, "row": numbers[row].as_py(), "reason": reasons[row], "values": each}
            for row, each in zip(at, values, strict=True)
        )
        good = np.ones(rows.num_rows, bool)
        good[at] = False
        return rows.filter(pa.array(good)), pc.filter(numbers, pa.array(good))

    def _write(self, lines: Iterable[Mapping[str, object]]) -> None:
        texts = [json.dumps(line, default=str, ensure_ascii=False) + "\n" for line in lines]
        try:
            with Path(self.path).open("a" if self.count else "w", encoding="utf-8") as file:
                file.writelines(texts)
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot take the bad rows: {error.strerror}: nothing of their file "
                "was appended"
            ) from error
        self.count += len(texts)


def _batched(lines: Iterable[Mapping[str, object]], size: int) -> Iterator[list[Any]]:
    """Yield lines in groups."""
    each = iter(lines)
    while some := list(islice(each, size)):
        yield some


def text_faults(rows: pa.Table, schema: pa.Schema) -> dict[int, str]:
    """Return why texts are no values of their columns, by row; the first column that is wrong."""
    reasons: dict[int, str] = {}
    known = {*schema.names}
    for name in rows.column_names:
        if name in known:
            kind, texts = schema.field(name).type, rows.column(name)
            for row in faults(texts, name, kind):
                problem = f"{shown(texts[row].as_py())} is not a value of type {kind}"
                reasons.setdefault(row, f"column {name!r}: {problem}")
    return reasons


def untimed(time: str) -> str:
    """Return why a row without a valid event time is set aside."""
    return f"event time {time} is null or out of range"


def is_needed(name: str) -> str:
    """Return why a row without a value that it needs is set aside."""
    return f"column {name!r} is null, and must not be"


def _where(flags: pa.ChunkedArray) -> list[int]:
    """Return the rows whose flag is set."""
    return [int(row) for row in np.flatnonzero(flags.to_numpy(zero_copy_only=False))]


def _values(column: pa.ChunkedArray) -> Any:
    """Return the values of a column; of times that Python cannot hold the numbers."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(pa.int64()).to_pylist()
