"""Interval literals of SQL, as months, days and microseconds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from airflow_provider_segtable.data.sql.sql_text import Kind, Tree, literal
from airflow_provider_segtable.data.sql.text_values import OnlySpark

_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_MICROS |= {"MILLISECOND": 1000, "MICROSECOND": 1}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s+([A-Za-z]+)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """How far an interval reaches; ``micros`` is None if it has no unit below a day."""

    months: int = 0
    days: int = 0
    micros: int | None = None

    def __add__(self, other: "Step") -> "Step":
        """Return both, one after the other."""
        given = [each.micros for each in (self, other) if each.micros is not None]
        micros = sum(given) if given else None
        return Step(self.months + other.months, self.days + other.days, micros)

    def __neg__(self) -> "Step":
        """Return the way back."""
        return Step(-self.months, -self.days, None if self.micros is None else -self.micros)


def intervals(tree: Tree) -> list[Tree]:
    """Return the intervals that an expression is the sum of; none if it is no interval."""
    tree = tree.unnest()
    if isinstance(tree, exp.Interval):
        return [tree]
    if isinstance(tree, exp.Neg) and isinstance(tree.this.unnest(), exp.Interval):
        return [tree]
    if isinstance(tree, exp.Add):
        left, right = intervals(tree.this), intervals(tree.expression)
        return [*left, *right] if left and right else []
    return []


def step_of(tree: Tree) -> Step:
    """Return how far an interval reaches.

    Raises:
        OnlySpark: it is no literal, or has units that are not read here.
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        return -step_of(tree.this)
    found = literal(tree.this) if tree.this is not None else None
    unit = tree.args.get("unit")
    if (
        found is None
        or found.kind not in {Kind.TEXT, Kind.NUMBER}
        or isinstance(unit, exp.IntervalSpan)
    ):
        raise OnlySpark("an interval is a number and a unit")
    text = found.text if unit is None else f"{found.text} {unit.name}"
    total = Step()
    for number, name in _parts(text):
        total += _step(Decimal(number), name.upper().removesuffix("S"))
    return total


def _parts(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text) or not text:
        found = _PART.match(text, at)
        if not found:
            raise OnlySpark(f"{text!r} is not a number and a unit")
        yield found[1], found[2]
        at = found.end()


def _step(number: Decimal, unit: str) -> Step:
    whole = number == number.to_integral_value()
    if unit in _MONTHS and whole:
        return Step(months=int(number) * _MONTHS[unit])
    if unit in _DAYS and whole:
        return Step(days=int(number) * _DAYS[unit])
    micros = number * _MICROS.get(unit, 0)
    if unit not in _MICROS or not (whole or unit == "SECOND") or micros != int(micros):
        raise OnlySpark("intervals are whole years, months, weeks, days, hours, minutes or seconds")
    return Step(micros=int(micros))
