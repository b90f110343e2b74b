"""Positions in a bucket's log, and the lineage of its epochs.

1. An *offset* counts the records of a bucket from 0, without gaps. An *epoch* counts its writers:
   each new writer takes a higher one.
2. An offset alone does not name a record. A new epoch discards what no commit holds, and gives the
   same offsets to other records. A *position* (epoch, offset) does: it stands for all records below
   the offset, as they were in that epoch.
3. The *lineage* says at which offset each epoch began. A reader at a position has read discarded
   records if an epoch after its own began below its offset::

       epoch 1   0 ........ 50 -------- 80        committed up to 50
       epoch 2              50 ================   a reader at (1, 70) goes back to 50

4. An epoch that begins at or below the offset of an earlier one makes that one redundant, so both
   columns of a lineage ascend. A long lineage merges its oldest entries: readers that are that old
   may go back further than they need.
"""

from dataclasses import dataclass
from typing import TypeAlias

Offset: TypeAlias = int
Epoch: TypeAlias = int

MOST_BEGINS = 100
"""Number of epochs that a lineage keeps apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """All records below ``offset``, as they were in ``epoch``."""

    epoch: Epoch = 0
    offset: Offset = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where each epoch began, oldest first."""

    begins: tuple[Position, ...] = ()

    def begun(self, begin: Position) -> "Lineage":
        """Return the lineage with one more epoch."""
        begins = (*(each for each in self.begins if each.offset < begin.offset), begin)
        while len(begins) > MOST_BEGINS:
            oldest, second, *newer = begins
            begins = (Position(epoch=second.epoch, offset=oldest.offset), *newer)
        return Lineage(begins=begins)

    def left_at(self, position: Position) -> Offset | None:
        """Return the offset from which a position's records were discarded; None if none were."""
        later = (each.offset for each in self.begins if each.epoch > position.epoch)
        first = next(later, position.offset)
        return first if first < position.offset else None

    def span(self, start: Position, end: Position) -> tuple[Offset, Offset]:
        """Return the offsets between two positions, as far as these records were not discarded.

        A position behind discarded records counts as the offset from which they were discarded.
        """
        left = (self.left_at(start), self.left_at(end))
        first = start.offset if left[0] is None else left[0]
        return first, max(first, end.offset if left[1] is None else left[1])


BEGINNING = Position()
NO_EPOCHS = Lineage()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEnd:
    """The end of a bucket's last committed snapshot, from which a new writer goes on.

    The table's commit keeps it beside the records, so that a store that was restarted, or another
    one, knows what the readers of earlier epochs have read.
    """

    position: Position = BEGINNING
    lineage: Lineage = NO_EPOCHS
