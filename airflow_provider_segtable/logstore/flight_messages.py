"""What writers, readers and the server of a log store say to each other, beside the records.

1. Every message is a small object. Records travel as Arrow batches, and never in messages. Those
   that come with each batch are packed, after a letter; all others are JSON.
2. ``begin`` is an action; its answer is the offset, then the schema of the table. ``status`` and
   ``checkpoint`` are actions, too.
3. A writer's stream names bucket and epoch. Each batch comes with its sequence number, and with how
   long it may wait for room. Each is answered by the offset of its first record, and by
   what is committed, in order.
4. A reader's stream begins with the reader's position. Then follow batches with their first offset
   and the next position; resets; or that the reader is behind, which ends the stream.
5. A refusal is a message, too: the name of an error type, and its text. It ends the stream.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeAlias

from airflow_provider_segtable.core import errors
from airflow_provider_segtable.core.errors import LogStoreUnavailable, SegtableError
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Lineage, Position
from airflow_provider_segtable.core.log_store.reading import BucketStatus

Message: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = list[int]
"""A position in a message: epoch, offset."""

BEGIN = "begin"
STATUS = "status"
CHECKPOINT = "checkpoint"
_PAIRS = ("end", "committed")
_SEPARATORS = (",", ":")


@dataclass(frozen=True)
class Packed:
    """The layout of a message with fields of a fixed size."""

    letter: bytes
    fields: tuple[str, ...]
    layout: Struct

    def encoded(self, *values: float) -> bytes:
        """Return the bytes of a message."""
        return self.layout.pack(self.letter, *values)

    def decoded(self, data: bytes) -> dict[str, Any]:
        """Return the message in bytes."""
        return dict(zip(self.fields, self.layout.unpack(data)[1:], strict=True))


APPEND = Packed(b"a", ("sequence", "wait_s"), Struct("<cqd"))
ANSWER = Packed(b"o", ("first", "committed"), Struct("<cqq"))
RECORDS = Packed(b"r", ("first", "epoch", "offset", "size"), Struct("<cqqqq"))
_PACKED = {each.letter: each for each in (APPEND, ANSWER, RECORDS)}


def encoded(message: Message) -> bytes:
    """Return the bytes of a message that is not packed."""
    return json.dumps(message, separators=_SEPARATORS).encode()


def decoded(data: Any) -> dict[str, Any]:
    """Return the message in bytes or in an Arrow buffer."""
    found = bytes(data)
    if packed := _PACKED.get(found[:1]):
        return packed.decoded(found)
    message = json.loads(found)
    return message if isinstance(message, dict) else {}


def pair(position: Position | None) -> Pair | None:
    """Return a position for a message."""
    return None if position is None else [position.epoch, position.offset]


def position(found: Pair | None) -> Position | None:
    """Return the position of a message."""
    return None if found is None else Position(epoch=found[0], offset=found[1])


def end_message(committed: CommittedEnd) -> Message:
    """Return the end of a snapshot for a message."""
    begins = [pair(each) for each in committed.lineage.begins]
    return {"at": pair(committed.position), "begins": begins}


def committed_end(message: Message) -> CommittedEnd:
    """Return the end of a snapshot from a message."""
    begins = (Position(epoch=epoch, offset=offset) for epoch, offset in message["begins"])
    epoch, offset = message["at"]
    return CommittedEnd(
        position=Position(epoch=epoch, offset=offset), lineage=Lineage(begins=tuple(begins))
    )


def status_message(found: BucketStatus) -> Message:
    """Return the status of a bucket for a message."""
    return {
        "bucket": found.bucket,
        "epoch": found.epoch,
        "start": found.start,
        "end": pair(found.end),
        "committed": pair(found.committed),
        "uncommitted_bytes": found.uncommitted_bytes,
        "uncommitted_since": found.uncommitted_since,
    }


def status(message: Message) -> BucketStatus:
    """Return the status of a bucket from a message."""
    positions = {name: Position(epoch=e, offset=o) for name in _PAIRS for e, o in [message[name]]}
    return BucketStatus(**{**message, **positions})


def accepted(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer; raise the error of a refusal."""
    refusal = refused(message)
    if refusal:
        raise refusal
    return message


def refusal(error: SegtableError) -> Message:
    """Return an error as a message."""
    return {"error": type(error).__name__, "message": str(error)}


def refused(message: Message) -> SegtableError | None:
    """Return the error of a message; None if it is not a refusal."""
    if "error" not in message:
        return None
    kind = getattr(errors, str(message["error"]), LogStoreUnavailable)
    known = isinstance(kind, type) and issubclass(kind, SegtableError)
    return kind(str(message["message"])) if known else LogStoreUnavailable(str(message))
