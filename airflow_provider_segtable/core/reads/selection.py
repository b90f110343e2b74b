"""The choice of files to read, step by step: what each step leaves.

1. A selection begins with everything that may be read. Each step is one test, by one name, and
   leaves the items that pass it.
2. Every step is recorded, so the code that plans a read is also what explains it
   (``core.reads.read_plan``). An index is one more step (``table.indexes.pruning``), or a note why
   it left nothing out.
3. The order of steps is that of their cost: what the log alone decides comes first.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from airflow_provider_segtable.core.deletes.predicate import Predicate
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
    COLUMN_STATS = "column_stats"
    """Files in which no row can match, by an index of this kind."""
    BLOOM_FILTER = "bloom_filter"
    """Files without the wanted values, by an index of this kind."""
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


MayHold = Callable[[Segment, Predicate], bool]
"""Returns whether a file may hold a row for which a predicate holds."""


class Narrowing(Protocol[Item]):
    """What a read wants, as far as files can be left out by what is known of them."""

    @property
    def tests(self) -> Collection[Predicate]:
        """Return the conditions that files are judged by; none if there are none to judge by."""
        ...

    def narrow(self, item: Item, may_hold: MayHold) -> Item | None:
        """Return what is left of an item, with fewer segments perhaps; None for nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """What a step left; ``index`` is the name of the index that it went by, if any."""

    by: PrunedBy
    items: tuple[Segments, ...]
    index: str = ""

    @property
    def files(self) -> dict[str, Segment]:
        """Return the segments with a file, by its path."""
        return {s.path: s for each in self.items for s in each.segments if s.path}


@dataclass(frozen=True, slots=True)
class IndexNote:
    """Why an index was not used, or for which files."""

    index: str
    text: str


@dataclass(frozen=True, slots=True)
class Selection(Generic[Item]):
    """What is left to read.

    Attributes:
        left: the items.
        layers: what each step left, in the order of the steps.
        notes: what indexes did not do, and why.
    """

    left: tuple[Item, ...]
    layers: tuple[Layer, ...]
    notes: tuple[IndexNote, ...] = ()

    @property
    def files(self) -> dict[str, Segment]:
        """Return the segments with a file that are left, by its path."""
        return self.layers[-1].files

    @staticmethod
    def begun(by: PrunedBy, found: Iterable[Other]) -> "Selection[Other]":
        """Return a selection of all items that a first step found."""
        left = tuple(found)
        return Selection(left, (Layer(by, left),))

    def pruned(self, by: PrunedBy, keeps: Callable[[Item], bool]) -> "Selection[Item]":
        """Return the selection after one more step, which leaves the items that pass a test."""
        return self.narrowed(by, lambda item: item if keeps(item) else None)

    def narrowed(
        self, by: PrunedBy, narrow: Callable[[Item], Item | None], *, index: str = ""
    ) -> "Selection[Item]":
        """Return the selection after one more step.

        Args:
            by: what the step goes by.
            narrow: returns what is left of an item, with fewer segments perhaps; None for nothing.
            index: the name of the index that it goes by.
        """
        left = tuple(item for item in map(narrow, self.left) if item is not None)
        return replace(self, left=left, layers=(*self.layers, Layer(by, left, index)))

    def noted(self, index: str, text: str) -> "Selection[Item]":
        """Return the selection with a note on an index."""
        return replace(self, notes=(*self.notes, IndexNote(index, text)))

    def grouped(self, items: Iterable[Other]) -> "Selection[Other]":
        """Return the selection with its segments in other items."""
        return Selection(tuple(items), self.layers, self.notes)
