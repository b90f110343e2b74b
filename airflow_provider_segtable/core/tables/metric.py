"""Metrics of rollup tables: their kinds, stored types and text form.

``core.tables.rollup_kind``, rule 2, defines them: a metric is a function of the *set* of rows of a
group, so it can be computed in parts, in any order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.tables.schema import Column

HIDDEN = "__segtable_"
"""The name prefix of columns that are hidden from readers."""


class MetricKind(StrEnum):
    """The function that a metric computes."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    FIRST = "first"
    LAST = "last"
    HLL = "hll"
    THETA = "theta"
    KLL = "kll"

    @property
    def sketch(self) -> bool:
        """Return whether the metric is one of Spark's sketches."""
        return self in _ARGUMENTS

    @property
    def timed(self) -> bool:
        """Return whether the exact event time of its value is stored beside it."""
        return self in {MetricKind.FIRST, MetricKind.LAST}


_ARGUMENTS = {
    MetricKind.HLL: ("lgConfigK", range(4, 22), 12),
    MetricKind.THETA: ("lgNomEntries", range(4, 27), 12),
    MetricKind.KLL: ("k", range(8, 65536), 200),
}
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float", "double"}
_TEXT = {"string", "large_string", "binary", "large_binary"}
_ORDERED = re.compile(r"u?int\d+|float|double|bool|(large_)?(string|binary)|date\d+.*|timestamp.*")
_DECIMAL = re.compile(r"decimal128\(\d+, (\d+)\)")
_METRIC = re.compile(r"([^=]+)=\s*(\w+)\s*(?:\((.*)\))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric; ``argument`` is the size of a sketch."""

    name: str
    kind: MetricKind
    source: str | None = None
    argument: int | None = None

    def __post_init__(self) -> None:
        """Refuse metrics whose source or argument does not fit their kind."""
        if self.kind is MetricKind.COUNT and self.source is not None:
            raise InvalidInput(
                f"metric {self.name!r}: count counts rows, so it takes no column, "
                f"but was given {self.source!r}: write {self.name}=count"
            )
        if self.kind is not MetricKind.COUNT and not self.source:
            raise InvalidInput(f"metric {self.name!r}: {self.kind} of which column? {_FORM}")
        self._check_argument()

    def _check_argument(self) -> None:
        if self.argument is None:
            return
        if not self.kind.sketch:
            raise InvalidInput(
                f"metric {self.name!r}: {self.kind} takes no argument, but was given "
                f"{self.argument}: leave it out"
            )
        what, legal, _ = _ARGUMENTS[self.kind]
        if self.argument not in legal:
            raise InvalidInput(
                f"metric {self.name!r}: {what} = {self.argument} is outside "
                f"{legal.start} to {legal.stop - 1}"
            )

    def __str__(self) -> str:
        """Return the text form, which ``parse`` reads."""
        inside = [str(part) for part in (self.source, self.argument) if part is not None]
        return f"{self.name}={self.kind}" + (f"({','.join(inside)})" if inside else "")

    @staticmethod
    def parse(text: str) -> "Metric":
        """Parse ``NAME=KIND``, ``NAME=KIND(COLUMN)`` or ``NAME=KIND(COLUMN,ARGUMENT)``.

        Raises:
            InvalidInput: with the text or part that is invalid.
        """
        match = _METRIC.fullmatch(text)
        if not match:
            raise InvalidInput(f"{text!r} is not a metric. {_FORM}")
        name, word, inside = match.groups()
        kind = _kind(word)
        source, comma, last = (inside or "").rpartition(",")
        if not (kind.sketch and comma and re.fullmatch(r"\s*-?\d+\s*", last)):
            return Metric(name=name.strip(), kind=kind, source=(inside or "").strip() or None)
        return Metric(name=name.strip(), kind=kind, source=source.strip(), argument=int(last))

    def encoded(self) -> dict[str, Any]:
        """Return the metric as JSON."""
        body = {
            "name": self.name,
            "kind": self.kind.value,
            "source": self.source,
            "argument": self.argument,
        }
        return {name: value for name, value in body.items() if value is not None}

    @staticmethod
    def decoded(body: Mapping[str, Any]) -> "Metric":
        """Parse the output of ``encoded``."""
        return Metric(**{**body, "kind": MetricKind(body["kind"])})

    @property
    def size(self) -> int:
        """Return the sketch's size parameter; Spark's default if none was given."""
        return self.argument if self.argument is not None else _ARGUMENTS[self.kind][2]

    @property
    def at(self) -> str:
        """Return the hidden column for the exact time of a first or last value."""
        return f"{HIDDEN}at_{self.name}"

    def stored(self, source: Column | None) -> Column:
        """Return the metric's column in the table, derived from its source column.

        Raises:
            SchemaMismatch: if the metric does not support the source's type.
        """
        if source is None:
            return Column(name=self.name, type="int64", nullable=False)
        kind = _stored_type(self.kind, source.type)
        if kind is None:
            raise SchemaMismatch(
                f"metric {self}: column {source.name!r} has type {source.type}, of which there "
                f"is no {self.kind}: use {_WORKS_ON[self.kind]}"
            )
        return Column(name=self.name, type=kind)


ORDERLY = "a number, decimal, text, bytes, boolean, date or timestamp"
_FORM = "Write NAME=KIND(COLUMN), e.g. delay=sum(arr_delay), flights=count, planes=hll(tailnum,12)"
_WORKS_ON = dict.fromkeys(MetricKind, ORDERLY)
_WORKS_ON[MetricKind.SUM] = "an integer (up to int64 and uint32), float, double or decimal128"
_WORKS_ON[MetricKind.HLL] = "an integer (up to int64 and uint32), text or bytes"
_WORKS_ON[MetricKind.THETA] = _WORKS_ON[MetricKind.HLL] + ", float or double"
_WORKS_ON[MetricKind.KLL] = "an integer (up to int64 and uint32), float or double"


def orderly(kind: str) -> bool:
    """Return whether values of a type can be compared, and so grouped."""
    return bool(_DECIMAL.fullmatch(kind) or _ORDERED.fullmatch(kind))


def _kind(word: str) -> MetricKind:
    try:
        return MetricKind(word.lower())
    except ValueError:
        choices = ", ".join(MetricKind)
        raise InvalidInput(f"{word!r} is not a kind of metric: choose one of {choices}") from None


def _stored_type(kind: MetricKind, source: str) -> str | None:
    integer = source in _INTEGERS - {"uint64"}
    decimal = _DECIMAL.fullmatch(source)
    match kind:
        case MetricKind.SUM if decimal:
            return f"decimal128(38, {decimal[1]})"
        case MetricKind.SUM if source in _FLOATS:
            return "double"
        case MetricKind.SUM if integer:
            return "int64"
        case MetricKind.HLL if integer or source in _TEXT:
            return "binary"
        case MetricKind.THETA if integer or source in _TEXT | _FLOATS:
            return "binary"
        case MetricKind.KLL if integer or source in _FLOATS:
            return "binary"
        case MetricKind.MIN | MetricKind.MAX | MetricKind.FIRST | MetricKind.LAST:
            return source if orderly(source) else None
        case _:
            return None
