"""Where a follower of a bucket reads next: in files, at a service, or nowhere until news come.

1. A follower begins with the files. At their end it has all that is committed, and asks the service
   for what follows its position. So it never leaves a gap, nor reads a record twice::

       FILES ── end ──▶ SERVICE ── behind, unavailable, long silence ──▶ FILES

2. What the service cannot give is in the files, or is going to be. If the service had nothing at
   the position and the files have nothing either, the follower waits for *news*: an event of the
   table, or another service. Then it begins with the files again.
3. Silence may come from a service that nobody writes to any more, because another one has its
   buckets. So a follower looks at the table after ``LOOK_S``: it has the epochs (``Reset``).
4. ``Reset`` and ``Expired`` give the position from which to go on. The follower stays where it is.
5. ``through`` is an event up to which no range has a record at or behind the position. So the files
   of a later range are found without a walk over earlier events. It holds in the position's epoch
   only: a restore, which begins another one, may bring back ranges of earlier events.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from airflow_provider_segtable.core.log_store.position import BEGINNING, Epoch, Position
from airflow_provider_segtable.core.log_store.reading import Behind, Expired, Reset

LOOK_S = 2.0
"""Seconds of silence after which the follower of a service looks at the table."""

NOTHING_READ = -1


class Source(StrEnum):
    """Where the next records come from."""

    FILES = "files"
    SERVICE = "service"
    NEWS = "news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A follower of a bucket.

    ``refused`` says that the service had nothing at the position, ``silent_s`` for how long it has
    sent nothing.
    """

    position: Position = BEGINNING
    source: Source = Source.FILES
    through: int = NOTHING_READ
    refused: bool = False
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    """The files of event ``n`` gave records up to a position."""

    after: Position
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesEnded:
    """The files have no record at the position as of event ``n``, in the bucket's ``epoch``."""

    n: int
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The service gave records up to a position."""

    after: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The service gave nothing for some time."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """There is no service, or it does not know the position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsAwaited:
    """The follower has waited for news; they may have come."""


Seen: TypeAlias = (
    CommittedRead
    | FilesEnded
    | Streamed
    | Silence
    | Unavailable
    | NewsAwaited
    | Reset
    | Expired
    | Behind
)


def through_in(epoch: Epoch, position: Position, through: int) -> int:
    """Return ``through`` of a position as it holds in an epoch of the bucket."""
    return through if position.epoch == epoch else NOTHING_READ


def followed(at: Following, seen: Seen) -> Following:
    """Return the follower after what it has seen."""
    match seen:
        case CommittedRead(after=after, n=n):
            return Following(position=after, through=n)
        case FilesEnded(n=n, epoch=epoch):
            source = Source.NEWS if at.refused else Source.SERVICE
            through = through_in(epoch, at.position, n)
            return Following(position=at.position, source=source, through=through)
        case Streamed(after=after):
            through = through_in(after.epoch, at.position, at.through)
            return replace(at, position=after, through=through, silent_s=0.0)
        case Silence(seconds=seconds):
            silent_s = at.silent_s + seconds
            source = Source.FILES if silent_s >= LOOK_S else at.source
            return replace(at, source=source, silent_s=silent_s)
        case Behind() | Unavailable():
            return replace(at, source=Source.FILES, refused=True)
        case NewsAwaited():
            return replace(at, source=Source.FILES)
        case Reset(position=position) | Expired(position=position):
            return replace(at, position=position, through=NOTHING_READ)
        case _:
            assert_never(seen)
