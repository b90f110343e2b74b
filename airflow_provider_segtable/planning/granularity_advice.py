"""Advice on the length of time chunks: does it fit the rows?

Each chunk has files of its own. Chunks of a few kilobytes make many files, and more bytes, because
every file repeats its footer and dictionaries. A granularity fits if a chunk has ``LEAST_BYTES`` on
average, or if there are few chunks anyway. The finest one that fits is advised: short chunks are
compacted, cleaned and skipped by readers independently. Weeks are not advised, since they lie in
no month and no year, and could not be joined into these later.
"""

from collections.abc import Collection

from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import Granularity, Instant

LEAST_BYTES = 1 << 20
FEW_CHUNKS = 16
_ADVISED = (Granularity.DAY, Granularity.MONTH, Granularity.YEAR, Granularity.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A granularity that fits better than the table's, with the chunks that each one makes."""

    now: Granularity
    chunks: int
    better: Granularity
    better_chunks: int
    size: int

    def __str__(self) -> str:
        """Return the advice, without a way to follow it."""
        return (
            f"{self.now} makes {self.chunks:,} time chunks of "
            f"{describe_size(self.size // self.chunks)} on average; {self.better} would make "
            f"{self.better_chunks:,} of {describe_size(self.size // self.better_chunks)}"
        )


def granularity_advice(now: Granularity, starts: Collection[Instant], size: int) -> Advice | None:
    """Return a better granularity for rows, or None if theirs fits.

    Args:
        now: the granularity of the table.
        starts: the starts of the chunks that have rows.
        size: bytes of these rows in files.
    """
    chunks = len(set(starts))
    if _fits(chunks, size):
        return None
    coarser = (each for each in _ADVISED if each is not now and now.nests_in(each))
    counts = {each: len({each.chunk(at) for at in starts}) for each in coarser}
    better = next((each for each in counts if _fits(counts[each], size)), None)
    if better is None:
        return None
    return Advice(now=now, chunks=chunks, better=better, better_chunks=counts[better], size=size)


def _fits(chunks: int, size: int) -> bool:
    return chunks <= FEW_CHUNKS or size // chunks >= LEAST_BYTES
