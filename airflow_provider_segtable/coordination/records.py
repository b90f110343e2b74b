"""What the nodes in ZooKeeper say: locks and places in the queue, as compact JSON.

Segments are written by chunk, their partitions as ranges, in the order given::

    {"v": 1, "group": .., "purpose": .., "holder": .., "priority": 25,
     "segments": [["20130101T000000_20130201T000000_1700000000000000", "0-11,14"]],
     "allocated": [["20130101T000000_20130201T000000_1700000000000000", "32768"]]}

The rest of a lock, its time and its token, is what ZooKeeper itself noted when it made the node.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.core.lockbox import FencingToken, Lock, LockRequest
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId

RECORD_VERSION = 1


def encode_lock(request: LockRequest, allocated: Iterable[SegmentId] = ()) -> bytes:
    """Return the data of a lock node, or of a place in the queue."""
    record = {
        "v": RECORD_VERSION,
        "group": request.group,
        "purpose": request.purpose,
        "holder": request.holder,
        "priority": request.priority,
        "segments": _encode_segments(sorted(request.segments)),
        "allocated": _encode_segments(allocated),
    }
    return json.dumps(record, separators=(",", ":")).encode()


def decode_lock(data: bytes, *, since: Instant, token: FencingToken) -> Lock:
    """Return the lock that a node stands for.

    Raises:
        UnsupportedFormat: if a newer segtable wrote it.
    """
    record = json.loads(data)
    if record.get("v") != RECORD_VERSION:
        raise UnsupportedFormat(
            f"a lock in ZooKeeper has format {record.get('v')}, this segtable reads "
            f"{RECORD_VERSION}: upgrade this worker"
        )
    return Lock(
        group=record["group"],
        purpose=record["purpose"],
        holder=record["holder"],
        priority=record["priority"],
        segments=frozenset(_decode_segments(record["segments"])),
        allocated=tuple(_decode_segments(record["allocated"])),
        since=since,
        token=token,
    )


def _encode_segments(segments: Iterable[SegmentId]) -> list[list[str]]:
    return [
        [str(chunk), ",".join(_ranges(segment.partition for segment in members))]
        for chunk, members in groupby(segments, key=lambda segment: segment.chunk)
    ]


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    runs = groupby(enumerate(numbers), key=lambda at: at[1] - at[0])
    for _, run in runs:
        members = [number for _, number in run]
        yield f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0])


def _decode_segments(encoded: Iterable[Iterable[str]]) -> Iterator[SegmentId]:
    for chunk_text, ranges in encoded:
        chunk = ChunkKey.parse(chunk_text)
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            for partition in range(int(first), int(last or first) + 1):
                yield chunk.segment(partition)
