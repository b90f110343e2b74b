"""Consumers: named readers of a table, whose positions the log keeps.

1. The position of a consumer that reads windows is the last version that it has read. While it is
   not too old, cleaning keeps all versions from it on, so that the window after it can be read.
2. A consumer group of the log store has a *mark* in each bucket: the position that it has read, and
   an event up to which all committed records of the bucket are before it. Cleaning keeps
   the records after it in the same way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log_store.manifest import Epoch, Position
from airflow_provider_segtable.core.log_store.reading import through_in
from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """How far a consumer group has read a bucket: all below the position, all up to an event.

    ``through`` holds while the bucket is in the position's epoch (``core.log_store.reading``).
    """

    position: Position
    through: int

    def through_in(self, epoch: Epoch) -> int:
        """Return ``through`` if the bucket is in the epoch of the position, else -1."""
        return through_in(epoch, self.position, self.through)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer's position, and the time of the event that set it.

    ``log`` has its marks in the log store, by bucket; ``version`` is then the version at which they
    were stored.
    """

    version: int
    advanced_at: Instant
    log: Mapping[int, LogMark] = field(default_factory=dict)


def known_consumer_name(name: str) -> str:
    """Return a consumer's name as events and checkpoints record it, checked."""
    return known_name(name, "a consumer")


def encode_consumers(consumers: Mapping[str, Consumer]) -> dict[str, list[Any]]:
    """Return consumers as checkpoints record them."""
    return {
        name: [each.version, each.advanced_at, *([encode_marks(each.log)] if each.log else [])]
        for name, each in consumers.items()
    }


def decode_consumers(body: Mapping[str, Any]) -> dict[str, Consumer]:
    """Parse the output of ``encode_consumers``."""
    return {known_consumer_name(name): _decoded(*each) for name, each in body.items()}


def encode_marks(marks: Mapping[int, LogMark]) -> list[list[int]]:
    """Return marks as JSON."""
    return [
        [bucket, each.position.epoch, each.position.offset, each.through]
        for bucket, each in sorted(marks.items())
    ]


def decode_marks(body: Iterable[list[int]]) -> dict[int, LogMark]:
    """Parse the output of ``encode_marks``."""
    return {
        bucket: LogMark(position=Position(epoch=epoch, offset=offset), through=through)
        for bucket, epoch, offset, through in body
    }


def _decoded(version: int, advanced_at: Instant, marks: Iterable[list[int]] = ()) -> Consumer:
    return Consumer(version, advanced_at, decode_marks(marks))
