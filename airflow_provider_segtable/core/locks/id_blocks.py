"""Blocks of ids: appends that follow each other soon share one lock, pure.

1. Appends are *alike* if they allocate as many ids in the same chunks, with the same mode, priority
   and holder. Each needs one *portion* of ids.
2. The first append asks for its own portion. One that soon follows an alike append asks for a
   block: as many portions as the appends so far, so that at most half of the ids stay unused.
   A block has ``MOST_IDS`` ids at most.
3. Unused ids go back if no other writer has allocated ids of the chunk since: the counter then
   continues with the first unused one. No append was given it, so no id is handed out twice. Ids
   that cannot go back are holes, like those of a writer that died.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from airflow_provider_segtable.core.locks.lock_types import Generation, LockRequest
from airflow_provider_segtable.core.locks.lockbox import Counters
from airflow_provider_segtable.core.segments.segment import ChunkKey, SegmentId

MOST_IDS = 32

Portion: TypeAlias = tuple[SegmentId, ...]


def likeness(request: LockRequest) -> Hashable:
    """Return a value that is equal for appends that are alike."""
    asked = tuple((ask.chunk, ask.generation, ask.count) for ask in request.allocate)
    return asked, request.mode, request.priority, request.holder


def block_size(request: LockRequest, before: int) -> int:
    """Return the number of portions to ask for; ``before`` alike appends came shortly before."""
    return max(1, min(before, MOST_IDS // sum(ask.count for ask in request.allocate)))


def block_request(request: LockRequest, size: int) -> LockRequest:
    """Return the request for a block of ``size`` portions."""
    return replace(
        request,
        purpose=f"{request.purpose} and appends after it",
        allocate=tuple(replace(ask, count=ask.count * size) for ask in request.allocate),
    )


def portions(request: LockRequest, allocated: Sequence[SegmentId], size: int) -> list[Portion]:
    """Split a block's ids, given by allocation, into the portions of appends like ``request``."""
    found: list[Portion] = [() for _ in range(size)]
    start = 0
    for ask in request.allocate:
        for n in range(size):
            found[n] += tuple(allocated[start : start + ask.count])
            start += ask.count
    return found


def gone_back(unused: Iterable[SegmentId], counters: Counters) -> Counters:
    """Return the counters that continue with the first unused ids again.

    Args:
        unused: the last ids of a block, which no append was given.
        counters: the next id to allocate, by chunk and generation.
    """
    left: dict[tuple[ChunkKey, Generation], list[int]] = {}
    for each in unused:
        left.setdefault((each.chunk, Generation.of(each)), []).append(each.partition)
    return {
        key: min(left[key])
        for key, following in counters.items()
        if key in left and max(left[key]) + 1 == following
    }
