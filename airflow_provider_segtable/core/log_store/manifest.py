"""Positions in a bucket's log, and the table's record of epochs and committed offsets.

1. An *offset* counts the records of a bucket from 0, without gaps. An *epoch* counts its writers:
   each new writer takes a higher one.
2. An offset alone does not name a record. A new epoch discards uncommitted records, and gives the
   same offsets to other records. A *position* (epoch, offset) does: it stands for all records below
   the offset, as they were in that epoch.
3. The *lineage* says at which offset each epoch began. A reader at a position has read discarded
   records if an epoch after its own began below its offset::

       epoch 1   0 ........ 50 -------- 80        committed up to 50
       epoch 2              50 ================   a reader at (1, 70) goes back to 50

4. An epoch that begins at or below the offset of an earlier one makes that one redundant, so both
   columns of a lineage ascend. A long lineage merges its oldest entries: readers that are that old
   may go back further than they need.
5. A *range* is one event's commit of a bucket: the records from ``start`` to before
   ``end``, of one epoch. Its files are the event's own segments, so the log names them once.
6. A range is of the bucket's newest epoch and begins where the last one ended. So committed offsets
   have neither gaps nor two contents, and a replaced service cannot commit.
7. Events number thousands, so a state keeps *waypoints* for them: from offset ``start`` on, look at
   the events from ``n`` on. All ranges up to the next waypoint follow in order. From ``MOST`` on,
   every other waypoint goes; those whose events have expired go, too.
8. A restore of version v takes the committed end, and the waypoints, of v. Its own waypoint says
   that ranges of the events between v and the restore do not count::

       event   3: 0-50   5: 50-100   6: restore of 3   7: 50-70
       waypoints (0, n=3)  (50, n=6, undone after 3)

9. A restore begins an epoch, so a running service is fenced at its next checkpoint. Readers of
   earlier epochs are reset to the offset up to which both logs are known to be the same
   (``Lineage``); never to a later one.
10. A repair of a log that has lost events resets all readers to the beginning of the remaining log.

Source of the idea: Paimon's proposal of a log store (log manifests in snapshots); Kafka's epochs.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Fenced, OffsetGap

Offset: TypeAlias = int
Epoch: TypeAlias = int

MOST_BEGINS = 100
"""Number of epochs that a lineage keeps apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """All records below ``offset``, as they were in ``epoch``."""

    epoch: Epoch = 0
    offset: Offset = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where each epoch began, oldest first."""

    begins: tuple[Position, ...] = ()

    def begun(self, begin: Position) -> "Lineage":
        """Return the lineage with one more epoch."""
        begins = (*(each for each in self.begins if each.offset < begin.offset), begin)
        while len(begins) > MOST_BEGINS:
            oldest, second, *newer = begins
            begins = (Position(epoch=second.epoch, offset=oldest.offset), *newer)
        return Lineage(begins=begins)

    def left_at(self, position: Position) -> Offset | None:
        """Return the offset from which a position's records were discarded; None if none were."""
        later = (each.offset for each in self.begins if each.epoch > position.epoch)
        first = next(later, position.offset)
        return first if first < position.offset else None

    def span(self, start: Position, end: Position) -> tuple[Offset, Offset]:
        """Return the offsets between two positions, as far as these records were not discarded.

        A position behind discarded records counts as the offset from which they were discarded.
        """
        left = (self.left_at(start), self.left_at(end))
        first = start.offset if left[0] is None else left[0]
        return first, max(first, end.offset if left[1] is None else left[1])


BEGINNING = Position()
NO_EPOCHS = Lineage()


# Committed ranges, and where to find them
@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEnd:
    """The end of a bucket's last committed snapshot, from which a new writer goes on.

    The table's commit keeps it beside the records, so that a store that was restarted, or another
    one, knows the reads of earlier epochs.
    """

    position: Position = BEGINNING
    lineage: Lineage = NO_EPOCHS


MOST = 64
"""Number of waypoints of a bucket from which on every other one is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The records of a bucket that an event has committed."""

    bucket: int
    epoch: Epoch
    start: Offset
    end: Offset

    def __str__(self) -> str:
        """Return e.g. ``bucket 0: 50-100``."""
        return f"bucket {self.bucket}: {self.start}-{self.end}"


@dataclass(frozen=True, slots=True)
class Waypoint:
    """From ``start`` on, ranges are in events from ``n`` on.

    Of a restore, ``undone_after`` is the restored version: ranges of later events, up to ``n``, do
    not count. Else it is None.
    """

    start: Offset
    n: int
    undone_after: int | None = None


@dataclass(frozen=True, slots=True)
class EventSpan:
    """Events from ``first`` to ``last``, whose ranges of a bucket follow each other."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketManifest:
    """A bucket as of a version: its newest epoch and owner, and its commit."""

    epoch: Epoch = 0
    owner: str = ""
    committed: Position = BEGINNING
    lineage: Lineage = NO_EPOCHS
    waypoints: tuple[Waypoint, ...] = ()

    @property
    def end(self) -> Offset:
        """Return the offset after the last committed record."""
        return self.committed.offset

    @property
    def committed_end(self) -> CommittedEnd:
        """Return the end from which a new writer goes on."""
        return CommittedEnd(position=self.committed, lineage=self.lineage)

    def begun(self, epoch: Epoch, owner: str) -> "BucketManifest":
        """Return the bucket with a new epoch, which goes on from the committed end."""
        lineage = self.lineage.begun(Position(epoch=epoch, offset=self.end))
        return replace(self, epoch=epoch, owner=owner, lineage=lineage)

    def check(self, new: LogRange) -> None:
        """Refuse a range that does not follow.

        Raises:
            Fenced: it is not of the newest epoch.
            OffsetGap: it does not begin at the committed end, or is empty.
        """
        if new.epoch != self.epoch:
            by = f", begun by {self.owner}" if self.owner else ""
            raise Fenced(
                f"{new} is of epoch {new.epoch}, but the table is in epoch {self.epoch}{by}: this "
                "service was replaced, or the table was restored; begin a new epoch, and go on "
                "from the committed end"
            )
        if new.start != self.end or new.end <= new.start:
            raise OffsetGap(
                f"{new} does not follow the committed records, which end at {self.end}: cut the "
                "checkpoint again from there"
            )

    def extended(self, new: LogRange, n: int) -> "BucketManifest":
        """Return the bucket after event ``n`` committed a range."""
        known = self.waypoints
        if not known or known[-1].start != new.start:
            known = _thinned((*known, Waypoint(new.start, n)))
        committed = Position(epoch=new.epoch, offset=new.end)
        return replace(self, committed=committed, waypoints=known)

    def restored(self, old: "BucketManifest", version: int, n: int) -> "BucketManifest":
        """Return the bucket after event ``n`` restored a version, in which it was ``old``."""
        epoch = self.epoch + 1
        diverged = Position(epoch=epoch, offset=common_end(self, old))
        return BucketManifest(
            epoch=epoch,
            committed=Position(epoch=epoch, offset=old.end),
            lineage=self.lineage.begun(diverged),
            waypoints=(*old.waypoints, Waypoint(old.end, n, version)),
        )

    def repaired(self, epoch: Epoch) -> "BucketManifest":
        """Return the bucket in an epoch of a repair, which resets the readers of all others."""
        lineage = self.lineage.begun(Position(epoch=epoch, offset=0))
        return replace(self, epoch=epoch, owner="", lineage=lineage)

    def pruned(self, retained_from: int) -> "BucketManifest":
        """Return the bucket without waypoints whose ranges are all of expired events."""
        later = [at for at, each in enumerate(self.waypoints) if each.n <= retained_from]
        first = later[-1] if later else 0
        return replace(self, waypoints=self.waypoints[first:]) if first else self

    def spans(self, offset: Offset, newest: int) -> Iterator[EventSpan]:
        """Yield the events that have the ranges from an offset on, in order.

        Args:
            offset: the first offset that is wanted.
            newest: the number of the newest event.
        """
        known = self.waypoints
        first = max(0, bisect_right(known, offset, key=lambda each: each.start) - 1)
        for each, after in zip_longest(known[first:], known[first + 1 :]):
            yield EventSpan(each.n, newest if after is None else _last_before(after))


def _last_before(waypoint: Waypoint) -> int:
    undone_after = waypoint.undone_after
    return waypoint.n - 1 if undone_after is None else undone_after


def common_end(one: BucketManifest, other: BucketManifest) -> Offset:
    """Return the offset below which two versions of a bucket surely have the same records.

    An epoch writes an offset once. So the records are the same up to where the lineages differ.
    """
    pairs = zip_longest(one.lineage.begins, other.lineage.begins)
    differing = next((pair for pair in pairs if pair[0] != pair[1]), ())
    return min(one.end, other.end, *(each.offset for each in differing if each is not None))


def _thinned(waypoints: tuple[Waypoint, ...]) -> tuple[Waypoint, ...]:
    """Return every other waypoint if there are many, but all of restores, which decide."""
    if len(waypoints) <= MOST:
        return waypoints
    kept = enumerate(waypoints)
    return tuple(each for at, each in kept if at % 2 == 0 or each.undone_after is not None)


def encode_ranges(ranges: Iterable[LogRange]) -> list[list[int]]:
    """Return ranges as JSON."""
    return [[each.bucket, each.epoch, each.start, each.end] for each in ranges]


def decode_ranges(body: Iterable[list[int]]) -> tuple[LogRange, ...]:
    """Parse the output of ``encode_ranges``."""
    return tuple(LogRange(bucket=b, epoch=e, start=first, end=end) for b, e, first, end in body)


def encode_manifests(manifests: Mapping[int, BucketManifest]) -> list[dict[str, Any]]:
    """Return the buckets of a log store as JSON."""
    return [
        {
            "bucket": bucket,
            "epoch": each.epoch,
            "owner": each.owner,
            "committed": _encode_position(each.committed),
            "lineage": [_encode_position(begin) for begin in each.lineage.begins],
            "waypoints": [
                [w.start, w.n, *([] if w.undone_after is None else [w.undone_after])]
                for w in each.waypoints
            ],
        }
        for bucket, each in sorted(manifests.items())
    ]


def decode_manifests(body: Iterable[Mapping[str, Any]]) -> dict[int, BucketManifest]:
    """Parse the output of ``encode_manifests``."""
    return {each["bucket"]: _decoded(each) for each in body}


def _decoded(body: Mapping[str, Any]) -> BucketManifest:
    return BucketManifest(
        epoch=body["epoch"],
        owner=body["owner"],
        committed=_decode_position(body["committed"]),
        lineage=Lineage(begins=tuple(map(_decode_position, body["lineage"]))),
        waypoints=tuple(Waypoint(*each) for each in body["waypoints"]),
    )


def _encode_position(position: Position) -> list[int]:
    return [position.epoch, position.offset]


def _decode_position(body: list[int]) -> Position:
    epoch, offset = body
    return Position(epoch=epoch, offset=offset)
