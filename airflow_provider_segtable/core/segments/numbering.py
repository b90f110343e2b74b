"""The numbering of a chunk's segments: which partition ids are of which generation.

1. First-generation ids belong to appended segments, later ones to compacted segments. They are
   disjoint, and at the limit a request is refused: ids never wrap.
2. A time chunk has a ``NARROW`` numbering, as Druid's. A *file group* (a time chunk's bucket in a
   primary-key table) has a ``WIDE`` one: writers commit to it every few seconds for years.
3. A log file is written before it has an id, which it gets at its commit. Until then it has a
   *provisional* one, random, above all ids of segments; its footer keeps it.
"""

from dataclasses import dataclass

NO_BUCKET = -1
"""The bucket of chunks of tables without buckets."""

_FILE_GROUP_IDS = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The partition ids of a chunk.

    Attributes:
        first: ids of the first generation, from 0.
        later: ids of later generations, right after these.
        provisional: ids that files may have before their commit; none for time chunks.
        minor_versions: the highest minor version.
    """

    first: range
    later: range
    provisional: range
    minor_versions: int

    @property
    def published(self) -> range:
        """Return all ids that segments may be published under."""
        return range(self.first.start, self.later.stop)


NARROW = Numbering(
    first=range(32768),
    later=range(32768, 65536),
    provisional=range(0),
    minor_versions=32767,
)
WIDE = Numbering(
    first=range(_FILE_GROUP_IDS),
    later=range(_FILE_GROUP_IDS, 2 * _FILE_GROUP_IDS - 1),  # the next one fits 32 bits
    provisional=range(2 * _FILE_GROUP_IDS, 2**62),
    minor_versions=_FILE_GROUP_IDS,
)


def numbering_of(bucket: int) -> Numbering:
    """Return the numbering of a time chunk (``NO_BUCKET``) or a file group."""
    return NARROW if bucket == NO_BUCKET else WIDE
