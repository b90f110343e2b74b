"""A planner's result: chosen plans, and the reason for every skip."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import smallest
from airflow_provider_segtable.core.segment import ChunkKey


class Obstacle(Enum):
    """A cause that keeps segments from being compacted until a person acts."""

    ABORTED = auto()
    """A plan over them was aborted, and they rest."""
    TOO_LARGE = auto()
    """The plan is larger than a run may be."""


class Reason(str):
    """The text of a reason whose cause is an obstacle; other reasons are plain text."""

    __slots__ = ("obstacle",)
    obstacle: Obstacle

    def __new__(cls, text: str, obstacle: Obstacle) -> Self:
        """Return the text with its cause."""
        made = super().__new__(cls, text)
        made.obstacle = obstacle
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Skipped segments (by partition; empty means the whole chunk), with the reason.

    ``kind`` is the kind of plan that skipped them, the smallest if all kinds did. For a plan over
    an interval, ``chunk`` spans that interval.
    """

    chunk: ChunkKey
    partitions: tuple[int, ...]
    reason: str
    kind: str = field(default_factory=lambda: smallest().kind)

    @property
    def obstacle(self) -> Obstacle | None:
        """Return the obstacle behind the reason, if it is one."""
        return self.reason.obstacle if isinstance(self.reason, Reason) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Chosen plans, best first, and a reason for everything skipped."""

    chosen: tuple[Plan, ...]
    skipped: tuple[Skipped, ...]


def joined(lines: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Join lines of neighbouring intervals (the first field) whose other fields are equal.

    Lines with equal other fields follow each other, in the order of time; these groups keep the
    order of their first lines.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for interval, *rest in lines:
        groups.setdefault(tuple(rest), []).append(interval)
    return [(each, *rest) for rest, found in groups.items() for each in _united(found)]


def _united(intervals: Iterable[str]) -> list[str]:
    """Return intervals in the order of time, neighbours as one."""
    found: list[tuple[str, str]] = []
    for start, _, end in sorted(each.partition("/") for each in intervals):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return [f"{start}/{end}" for start, end in found]


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: ``0-15, 17``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
