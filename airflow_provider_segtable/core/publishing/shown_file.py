"""Shown files: a version of a table as data files, each with what hides some of its rows.

1. A version shows some segments, each clipped to where no higher version hides it. A file is shown
   once, even if it is visible in several pieces.
2. Two shown files of one path with equal *keys* show the same rows. So whatever was published of a
   file, above all the positions of its hidden rows, stays valid while its key is the same.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from airflow_provider_segtable.core.deletes.deletion import Deletion
from airflow_provider_segtable.core.deletes.predicate import Predicate, encode_predicate
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.time.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """One data file of a version, and which of its rows the version shows.

    Attributes:
        segment: its descriptor.
        clips: rows outside of these intervals of event time are hidden; disjoint and in order,
            empty if no row is.
        deletions: the deletions that hide rows, by root, as readers apply them.
        predicates: rows of a rollup table that match one of these are hidden.
        tombstones: whether rows that record the deletion of a key are in the file, and hidden.
    """

    segment: Segment
    clips: tuple[Interval, ...] = ()
    deletions: tuple[tuple[SegmentId, tuple[Deletion, ...]], ...] = ()
    predicates: tuple[Predicate, ...] = ()
    tombstones: bool = False
    key: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the key."""
        object.__setattr__(self, "key", self._key())

    @property
    def path(self) -> str:
        """Return the path, relative to the table's root."""
        return self.segment.path

    @property
    def whole(self) -> bool:
        """Return whether nothing can hide any of its rows."""
        return not self.key

    def _key(self) -> str:
        """Return a digest of all that hides rows; empty if nothing does."""
        if not (self.clips or self.deletions or self.predicates or self.tombstones):
            return ""
        parts = [
            *(f"clip {each.start} {each.end}" for each in self.clips),
            *(f"{root} {each.path}" for root, some in self.deletions for each in some),
            *(f"matching {encode_predicate(each)}" for each in self.predicates),
            *(["tombstones"] if self.tombstones else []),
        ]
        return sha256("\n".join(sorted(parts)).encode()).hexdigest()[:32]
