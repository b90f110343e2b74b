"""Rows of files that do not fit, set aside instead of refusing the file.

1. A row is set aside if it has no event time, one out of range, null in a key or another column
   that must not be null, or, in CSV, a field that is no value of its column. A file that is
   broken, or lacks a column, is refused all the same.
2. They are written as JSON lines, each with the ``file``, the number of the ``row`` in it from 0,
   the ``reason`` and the ``values``. This happens before any other row of the file is appended, so
   no row is lost if the disk is full.
3. Spark finds the same rows by ``text_faults`` in its tasks, and gives them to the driver's file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.arrow.event_times import is_time
from airflow_provider_segtable.data.files.text_values import faults, shown
from airflow_provider_segtable.data.jobs.row_checks import impossible_times

FoundRow: TypeAlias = tuple[str | None, int | None, str, Mapping[str, object]]
"""A row to set aside: its file and its number there, if they are known, the reason, the values."""
_AT_ONCE = 1000
"""Lines that are written at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What each row needs: a valid event time, and values in some columns."""

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
        for name in needed.columns:
            if name in rows.column_names:
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
    for name in rows.column_names:
        if name in schema.names:
            kind, texts = schema.field(name).type, rows.column(name)
            for row in faults(texts, name, kind):
                what = f"{shown(texts[row].as_py())} is not a value of type {kind}"
                reasons.setdefault(row, f"column {name!r}: {what}")
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
