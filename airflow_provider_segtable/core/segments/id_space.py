"""Which partition ids of a chunk the log knows, in the space of one generation.

1. An id is *settled* once it is published, voided or burnt. Settled ids are never used again.
2. Below ``next`` every id is settled except the *holes*: allocated to a writer that has not
   committed yet (or never will). Ids from ``next`` on are unknown to the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdSpace:
    """The settled ids of one chunk and generation."""

    next: int
    holes: frozenset[int] = frozenset()

    def free(self, partition: int) -> bool:
        """Tell whether the log has never settled this id."""
        return partition >= self.next or partition in self.holes

    def settle(self, partitions: Iterable[int]) -> "IdSpace":
        """Return the space after these ids were settled; settled ones stay so."""
        after, holes = self.next, set(self.holes)
        for partition in sorted(partitions):
            holes.update(range(after, partition))
            holes.discard(partition)
            after = max(after, partition + 1)
        return IdSpace(after, frozenset(holes))
