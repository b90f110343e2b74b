"""What writers, readers and the server of a log store say to each other, beside the records.

1. Every message is a small JSON object. Records travel as Arrow batches, and never through JSON.
2. ``begin`` is an action; its answer is the offset, then the schema of the table.
3. A writer's stream names bucket and epoch. Each batch comes with its sequence number, and with how
   long it may wait for room. Each is answered by the offset of its first record, in order.
4. A reader's stream begins with the reader's position. Then follow batches with their first offset
   and the next position; resets; or that the reader is behind, which ends the stream.
5. A refusal is a message, too: the name of an error type, and its text. It ends the stream.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from airflow_provider_segtable.core import errors
from airflow_provider_segtable.core.errors import LogStoreUnavailable, SegtableError
from airflow_provider_segtable.core.log_store.position import CommittedEnd, Lineage, Position

Message: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = list[int]
"""A position in a message: epoch, offset."""

BEGIN = "begin"
_SEPARATORS = (",", ":")


def encoded(message: Message) -> bytes:
    """Return the bytes of a message."""
    return json.dumps(message, separators=_SEPARATORS).encode()


def decoded(data: Any) -> dict[str, Any]:
    """Return the message in bytes or in an Arrow buffer."""
    message = json.loads(bytes(data))
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
