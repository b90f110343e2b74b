"""The choice of files to read, step by step: what each step leaves.

1. A selection begins with everything that may be read. Each step is one test, by one name, and
   leaves the items that pass it.
2. Every step is recorded, so the code that plans a read is also what explains it
   (``core.reads.read_plan``). An index is one more step.
3. The order of steps is that of their cost: what the log alone decides comes first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from airflow_provider_segtable.core.segments.segment import Segment


class PrunedBy(StrEnum):
    """What a step of a read's plan goes by; the values are stable."""

    HIDDEN = "hidden"
    """Segments that the version does not show."""
    TIME_CHUNKS = "time_chunks"
    """Time chunks outside of the interval."""
    ROOTS = "roots"
    """Segments without rows of the wanted roots."""
    EVENT_TIMES = "event_times"
    """Segments whose first and last event time exclude all wanted rows."""
    BASE_ONLY = "base_only"
    """Log files, if base files alone are read."""
    WINDOW = "window"
    """Segments, or file groups, without rows of the window."""
    STATISTICS = "row_group_statistics"
    """Row groups in which no row can match, by the statistics in the footer."""
    DELETES = "deleted_rows"
    """Row groups without a row that is shown: all are deleted, or not of the window."""
    COLUMNS = "columns"
    """Columns that are not needed."""


class Segments(Protocol):
    """What is read together: one segment, or several."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments."""
        ...


Item = TypeVar("Item", bound=Segments)
Other = TypeVar("Other", bound=Segments)


@dataclass(frozen=True, slots=True)
class Layer:
    """What a step left."""

    by: PrunedBy
    items: tuple[Segments, ...]

    @property
    def files(self) -> dict[str, Segment]:
        """Return the segments with a file, by its path."""
        return {s.path: s for each in self.items for s in each.segments if s.path}


@dataclass(frozen=True, slots=True)
class Selection(Generic[Item]):
    """What is left to read.

    Attributes:
        left: the items.
        layers: what each step left, in the order of the steps.
    """

    left: tuple[Item, ...]
    layers: tuple[Layer, ...]

    @staticmethod
    def begun(by: PrunedBy, found: Iterable[Other]) -> "Selection[Other]":
        """Return a selection of all items that a first step found."""
        left = tuple(found)
        return Selection(left, (Layer(by, left),))

    def pruned(self, by: PrunedBy, keeps: Callable[[Item], bool]) -> "Selection[Item]":
        """Return the selection after one more step, which leaves the items that pass a test."""
        left = tuple(filter(keeps, self.left))
        return Selection(left, (*self.layers, Layer(by, left)))

    def grouped(self, items: Iterable[Other]) -> "Selection[Other]":
        """Return the selection with its segments in other items."""
        return Selection(tuple(items), self.layers)
