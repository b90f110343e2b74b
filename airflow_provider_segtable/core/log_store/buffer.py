"""Buffered batches of records: adjacent, in the order of their offsets.

1. A batch is kept whole. Its content is opaque here: adapters put Arrow batches into it.
2. Batches lie in blocks of at most ``BLOCK``, so that an addition copies one block and the list of
   blocks, however many batches wait for a checkpoint. Lookups are by bisection.
3. A buffer only grows at its end, and loses whole batches at either end.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from airflow_provider_segtable.core.log_store.position import Offset
from airflow_provider_segtable.core.time.interval import Instant

T = TypeVar("T")
BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """One or more records that were appended together, at an instant."""

    first: Offset
    count: int
    size: int
    content: T
    at: Instant = 0

    @property
    def end(self) -> Offset:
        """Return the offset after the last record."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer(Generic[T]):
    """Adjacent batches, and their size in bytes."""

    blocks: tuple[tuple[Batch[T], ...], ...] = ()
    size: int = 0

    @property
    def first(self) -> Offset | None:
        """Return the first offset; None if there is no batch."""
        return self.blocks[0][0].first if self.blocks else None

    def batches(self) -> tuple[Batch[T], ...]:
        """Return all batches."""
        return tuple(chain.from_iterable(self.blocks))

    def added(self, batch: Batch[T]) -> "Buffer[T]":
        """Return the buffer with one more batch at its end."""
        if self.blocks and len(self.blocks[-1]) < BLOCK:
            blocks = (*self.blocks[:-1], (*self.blocks[-1], batch))
        else:
            blocks = (*self.blocks, (batch,))
        return Buffer(blocks=blocks, size=self.size + batch.size)

    def batch_at(self, offset: Offset) -> Batch[T] | None:
        """Return the batch that holds an offset."""
        return next(iter(self.run_at(offset, 0)), None)

    def run_at(self, offset: Offset, most_size: int) -> tuple[Batch[T], ...]:
        """Return the batch that holds an offset, and the next ones of its block, below a size."""
        block = bisect_right(self.blocks, offset, key=lambda each: each[0].first) - 1
        if block < 0:
            return ()
        batches = self.blocks[block]
        at = bisect_right(batches, offset, key=_first) - 1
        if offset >= batches[at].end:
            return ()
        after, size = at + 1, batches[at].size
        while after < len(batches) and (size := size + batches[after].size) < most_size:
            after += 1
        return batches[at:after]

    def divides(self, offset: Offset) -> bool:
        """Return whether a batch has records on both sides of an offset."""
        batch = self.batch_at(offset)
        return batch is not None and batch.first < offset

    def since(self, offset: Offset) -> "Buffer[T]":
        """Return the buffer without the batches that end at or before an offset."""
        return self._part(lambda batch: batch.end > offset)

    def before(self, offset: Offset) -> "Buffer[T]":
        """Return the buffer without the batches that begin at or after an offset."""
        return self._part(lambda batch: batch.first < offset)

    def _part(self, stays: Callable[[Batch[T]], bool]) -> "Buffer[T]":
        """Return a part that holds the first or the last batches."""
        blocks, size = [], self.size
        for block in self.blocks:
            if stays(block[0]) and stays(block[-1]):
                blocks.append(block)
                continue
            kept = tuple(filter(stays, block))
            size -= sum(each.size for each in block) - sum(each.size for each in kept)
            blocks += [kept] if kept else []
        return Buffer(blocks=tuple(blocks), size=size)


def _first(batch: Batch[T]) -> Offset:
    return batch.first
