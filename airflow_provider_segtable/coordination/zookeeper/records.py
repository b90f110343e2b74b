"""Records of ZooKeeper nodes: locks, places in the queue and states, as compact JSON.

Segments are written by chunk, their partitions as ranges, in the order given::

    {"v": 2, "group": .., "purpose": .., "holder": .., "priority": 25,
     "segments": [["20130101T000000_20130201T000000_1700000000000000", "0-11,14"]],
     "allocated": [["20130101T000000_20130201T000000_1700000000000000", "32768"]],
     "mode": "exclusive", "intervals": ["20130101T000000_20130201T000000"],
     "version": 1700000000000001, "yields": 0, "chunks": [..]}

1. A lock's time and token are not in the record: ZooKeeper noted them when it made the node.
2. A state is ``{"publishing": true}``, or names the segments that a lock yielded and the new owner.
3. A place in the queue names the chunks that need new ids; it has no ids yet.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from airflow_provider_segtable.core.errors import InvalidInput, UnsupportedFormat
from airflow_provider_segtable.core.locks import (
    FencingToken,
    Granted,
    Lock,
    LockRequest,
    Mode,
    Revocation,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Instant, Interval

RECORD_VERSION = 2
ALL = "all"
PUBLISHING = b'{"publishing":true}'
PUBLISHING_RECORD = {"publishing": True}
SHOWN = 40

T = TypeVar("T")


def encode_lock(request: LockRequest, granted: Granted | None = None) -> bytes:
    """Return the data of a lock node, or of a place in the queue (not granted yet)."""
    chunks = () if granted else dict.fromkeys(str(ask.chunk) for ask in request.allocate)
    return _compact(
        {
            "v": RECORD_VERSION,
            "group": request.group,
            "purpose": request.purpose,
            "holder": request.holder,
            "priority": request.priority,
            "segments": _encode_segments(sorted(request.segments)),
            "allocated": _encode_segments(granted.allocated if granted else ()),
            "mode": request.mode,
            "intervals": [each.name for each in request.intervals],
            "version": granted.version if granted else None,
            "yields": request.yields,
            "chunks": list(chunks),
        }
    )


def decode_lock(data: bytes, *, since: Instant, token: FencingToken, waiting: bool = False) -> Lock:
    """Return the lock, or place in the queue, that a node records.

    Raises:
        UnsupportedFormat: if a newer segtable wrote it.
        ValueError: if it is not a record of segtable.
    """
    record = _object(data)
    written = record.get("v")
    if not isinstance(written, int):
        raise ValueError("it has no format number")  # noqa: TRY004 - a value of the record
    if written != RECORD_VERSION:
        raise UnsupportedFormat(
            f"a lock in ZooKeeper has format {written}, this segtable reads "
            f"{RECORD_VERSION}: upgrade the older worker"
        )
    try:
        return _lock(record, since, token, waiting=waiting)
    except (KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _lock(record: dict[str, Any], since: Instant, token: FencingToken, *, waiting: bool) -> Lock:
    return Lock(
        group=_typed(str, record["group"]),
        purpose=_typed(str, record["purpose"]),
        holder=_typed(str, record["holder"]),
        priority=_typed(int, record["priority"]),
        segments=frozenset(_decode_segments(record["segments"])),
        allocated=tuple(_decode_segments(record["allocated"])),
        since=since,
        token=token,
        mode=Mode(record["mode"]),
        intervals=tuple(map(Interval.from_name, record["intervals"])),
        version=_typed(int, record["version"]) if record["version"] is not None else None,
        yields=_typed(int, record["yields"]),
        waiting=waiting,
        chunks=tuple(map(ChunkKey.parse, record["chunks"])),
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data)
    except RecursionError:
        record = None
    if not isinstance(record, dict):
        raise ValueError(f"it holds {data[:SHOWN]!r}, which is not a JSON object")  # noqa: TRY004
    return record


def _typed(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def encode_revocation(lock: Lock, revocation: Revocation) -> bytes:
    """Return the state record of a revoked lock; ``all`` stands for all of its segments."""
    every = revocation.segments == lock.covered
    return _compact(
        {
            "revoked": revocation.by,
            "segments": ALL if every else _encode_segments(sorted(revocation.segments)),
            "intervals": [each.name for each in revocation.intervals],
        }
    )


def with_state(lock: Lock, state: bytes) -> Lock:
    """Return the lock with the state from its state node.

    If the state cannot be read, the lock is revoked but yields nothing: its holder cannot commit,
    and no other writer takes the segments that the holder may be writing.
    """
    try:
        record = _object(state)
        if record == PUBLISHING_RECORD:
            return replace(lock, publishing=True)
        segments = record["segments"]
        revocation = Revocation(
            by=_typed(str, record["revoked"]),
            segments=lock.covered if segments == ALL else frozenset(_decode_segments(segments)),
            intervals=tuple(map(Interval.from_name, record["intervals"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInput):
        revocation = Revocation(by=f"an unknown worker (unreadable record {state[:SHOWN]!r})")
    return replace(lock, revoked=revocation)


def _compact(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


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
            if int(last or first) not in chunk.numbering.published:
                raise ValueError(f"{part} has partition ids that are out of range")
            for partition in range(int(first), int(last or first) + 1):
                yield chunk.segment(partition)
