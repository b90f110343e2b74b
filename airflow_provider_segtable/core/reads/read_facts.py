"""Facts about reads: which time chunks and filters readers asked for, and the files they opened.

1. A fact is a sum over reads of one *shape*: the columns that the condition tests and how
   (``FilterKind``), and the columns that are returned. **No value of a condition is kept**, nor any
   value of a row.
2. Of each shape the sums are: reads, time chunks, files found in these chunks, files that each step
   left out, files opened, their bytes. If the reader saw the rows (``measured``), also the files
   in which a row could match by the statistics of the footer, the files in which one did, and the
   matching rows. So the facts say which files an index would have left out.
3. Of each time chunk the sums are: reads, files opened, and opened files without a matching row.
4. A sampled read counts for several, by its ``weight``: sums estimate all reads.
5. Memory is bounded: after ``MOST_SHAPES`` shapes or ``MOST_CHUNKS`` chunks further ones are only
   counted (``unlisted``).
6. One object in JSON holds the sums of one process over some time. Facts are hints: an object that
   is torn, foreign or of a later format is left out by its readers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from enum import StrEnum
from typing import Any, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import (
    Among,
    Compare,
    Compares,
    Predicate,
    columns_of,
    conjuncts,
)
from airflow_provider_segtable.core.reads.selection import Layer
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant, Interval, iso, parse_instant

FORMAT = 1
MOST_SHAPES = 100
MOST_CHUNKS = 1000


class FilterKind(StrEnum):
    """How a condition tests a column; the values are stable."""

    EQUALITY = "equality"
    AMONG = "in"
    RANGE = "range"
    OTHER = "other"
    """Negations, alternatives, null tests, functions."""


Filters = tuple[tuple[str, FilterKind], ...]
"""Tested columns with the kinds of their tests, ascending."""

_KINDS: Mapping[Compares, FilterKind] = {
    Compares.EQUAL: FilterKind.EQUALITY,
    Compares.UNEQUAL: FilterKind.OTHER,
    Compares.LESS: FilterKind.RANGE,
    Compares.AT_MOST: FilterKind.RANGE,
    Compares.MORE: FilterKind.RANGE,
    Compares.AT_LEAST: FilterKind.RANGE,
}


def filters_of(predicates: Iterable[Predicate], columns: Iterable[str] = ()) -> Filters:
    """Return the tested columns of a condition, without its values.

    Args:
        predicates: known predicates, all of which hold for matching rows.
        columns: all columns that the condition reads; those in no predicate are ``OTHER``.
    """
    found = {each for one in predicates for part in conjuncts(one) for each in _tested(part)}
    known = {column for column, _ in found}
    found |= {(column, FilterKind.OTHER) for column in columns if column not in known}
    return tuple(sorted(found))


def _tested(part: Predicate) -> Iterator[tuple[str, FilterKind]]:
    match part:
        case Compare(column=column, how=how):
            yield column, _KINDS[how]
        case Among(column=column):
            yield column, FilterKind.AMONG
        case _:
            yield from ((column, FilterKind.OTHER) for column in columns_of(part))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReadShape:
    """The form of a read, without values.

    Attributes:
        filters: the tested columns.
        columns: the returned columns, in the table's order.
        measured: whether the reader counted matching rows; readers in Spark do not.
    """

    filters: Filters = ()
    columns: tuple[str, ...] = ()
    measured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCounts:
    """Sums over the reads of one shape; see the module's rule 2."""

    reads: float = 0.0
    chunks: float = 0.0
    found: float = 0.0
    opened: float = 0.0
    bytes: float = 0.0
    possible: float = 0.0
    matching: float = 0.0
    rows: float = 0.0
    pruned: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        """Return both sums together."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        steps = dict.fromkeys((*self.pruned, *other.pruned))
        pruned = {by: self.pruned.get(by, 0.0) + other.pruned.get(by, 0.0) for by in steps}
        return ReadCounts(**sums, pruned=pruned)

    def times(self, weight: float) -> "ReadCounts":
        """Return the sums of as many reads more."""
        sums = {name: getattr(self, name) * weight for name in _SUMS}
        return ReadCounts(**sums, pruned={by: n * weight for by, n in self.pruned.items()})

    def facts(self) -> dict[str, Any]:
        """Return the sums as plain JSON values."""
        return {**{name: getattr(self, name) for name in _SUMS}, "pruned": dict(self.pruned)}

    @staticmethod
    def of(body: Mapping[str, Any]) -> "ReadCounts":
        """Parse the output of ``facts``; unknown keys are ignored."""
        pruned = {str(by): _number(n) for by, n in body["pruned"].items()}
        return ReadCounts(**{name: _number(body[name]) for name in _SUMS}, pruned=pruned)


_SUMS = tuple(each.name for each in fields(ReadCounts) if each.name != "pruned")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReads:
    """Sums over the reads of one time chunk; ``wasted`` are opened files without matching rows."""

    reads: float = 0.0
    opened: float = 0.0
    wasted: float = 0.0

    def __add__(self, other: "ChunkReads") -> "ChunkReads":
        """Return both sums together."""
        return ChunkReads(
            reads=self.reads + other.reads,
            opened=self.opened + other.opened,
            wasted=self.wasted + other.wasted,
        )

    def times(self, weight: float) -> "ChunkReads":
        """Return the sums of as many reads more."""
        return ChunkReads(
            reads=self.reads * weight, opened=self.opened * weight, wasted=self.wasted * weight
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRead:
    """A read that ended: its shape, its counts, and those of its time chunks."""

    shape: ReadShape
    counts: ReadCounts
    chunks: Mapping[Interval, ChunkReads] = field(default_factory=dict)


def one_read(shape: ReadShape, layers: Sequence[Layer], matching: Mapping[str, int]) -> OneRead:
    """Return the facts of a read.

    Args:
        shape: its shape.
        layers: the files that each step of its choice left; those of the last one were opened.
        matching: the number of matching rows, by path, of the files in which a row could match by
            the statistics of the footer; empty unless it was measured.
    """
    left = [layer.files for layer in layers]
    found, opened = left[0], left[-1]
    pruned: dict[str, float] = {}
    for before, after, layer in zip(left, left[1:], layers[1:], strict=False):
        if gone := len(before) - len(after):
            by = layer.by.value
            pruned[by] = pruned.get(by, 0.0) + gone
    counts = ReadCounts(
        reads=1.0,
        chunks=float(len({each.id.interval for each in opened.values()})),
        found=float(len(found)),
        opened=float(len(opened)),
        bytes=float(sum(each.size for each in opened.values())),
        possible=float(len(matching)),
        matching=float(sum(rows > 0 for rows in matching.values())),
        rows=float(sum(matching.values())),
        pruned=pruned,
    )
    return OneRead(shape=shape, counts=counts, chunks=_by_chunk(shape, opened, matching))


def _by_chunk(
    shape: ReadShape, opened: Mapping[str, Segment], matching: Mapping[str, int]
) -> dict[Interval, ChunkReads]:
    files: dict[Interval, int] = {}
    wasted: dict[Interval, int] = {}
    for path, segment in opened.items():
        at = segment.id.interval
        files[at] = files.get(at, 0) + 1
        useless = shape.measured and not matching.get(path)
        wasted[at] = wasted.get(at, 0) + useless
    return {at: ChunkReads(reads=1.0, opened=n, wasted=wasted[at]) for at, n in files.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """The facts of one object.

    Attributes:
        table_id: the table that was read; a later table at its place has another.
        start, end: the time of the first and the last read.
        shapes: the sums by shape.
        chunks: the sums by time chunk.
        unlisted: reads whose shape or chunks had no room.
    """

    table_id: str
    start: Instant
    end: Instant
    shapes: Mapping[ReadShape, ReadCounts] = field(default_factory=dict)
    chunks: Mapping[Interval, ChunkReads] = field(default_factory=dict)
    unlisted: float = 0.0

    def encoded(self) -> bytes:
        """Return the facts as an object's bytes."""
        shapes = [
            {
                "filters": [[column, kind.value] for column, kind in shape.filters],
                "columns": list(shape.columns),
                "measured": shape.measured,
                **counts.facts(),
            }
            for shape, counts in self.shapes.items()
        ]
        chunks = [[str(at), n.reads, n.opened, n.wasted] for at, n in self.chunks.items()]
        body = {
            "format": FORMAT,
            "table": self.table_id,
            "start": iso(self.start),
            "end": iso(self.end),
            "shapes": shapes,
            "chunks": chunks,
            "unlisted": self.unlisted,
        }
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Self | None:
        """Parse the output of ``encoded``; None for anything else, or a later format."""
        try:
            body = json.loads(data)
            if body["format"] != FORMAT:
                return None
            return cls(
                table_id=str(body["table"]),
                start=parse_instant(body["start"]),
                end=parse_instant(body["end"]),
                shapes={_shape(each): ReadCounts.of(each) for each in body["shapes"]},
                chunks={
                    Interval.parse(at): ChunkReads(
                        reads=_number(reads), opened=_number(opened), wasted=_number(wasted)
                    )
                    for at, reads, opened, wasted in body["chunks"]
                },
                unlisted=_number(body["unlisted"]),
            )
        except _NOT_FACTS:
            return None


_NOT_FACTS = (
    InvalidInput,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def _shape(body: Mapping[str, Any]) -> ReadShape:
    return ReadShape(
        filters=tuple((str(column), FilterKind(kind)) for column, kind in body["filters"]),
        columns=tuple(map(str, body["columns"])),
        measured=bool(body["measured"]),
    )


def _number(found: Any) -> float:
    """Return a sum; ValueError if it is none."""
    number = float(found)
    if not 0 <= number < float("inf"):
        raise ValueError(found)
    return number


@dataclass(slots=True, kw_only=True)
class ReadTally:
    """The sums of a process under way, in bounded memory."""

    table_id: str
    start: Instant
    end: Instant
    shapes: dict[ReadShape, ReadCounts] = field(default_factory=dict)
    chunks: dict[Interval, ChunkReads] = field(default_factory=dict)
    unlisted: float = 0.0

    def add(self, one: OneRead, weight: float, now: Instant) -> None:
        """Count a read that stands for ``weight`` reads."""
        self.end = max(self.end, now)
        counts = {one.shape: one.counts.times(weight)}
        chunks = {at: each.times(weight) for at, each in one.chunks.items()}
        listed = _counted(self.shapes, counts, ReadCounts(), MOST_SHAPES)
        listed &= _counted(self.chunks, chunks, ChunkReads(), MOST_CHUNKS)
        self.unlisted += 0.0 if listed else weight

    def facts(self) -> ReadFacts:
        """Return the sums as they are now."""
        return ReadFacts(
            table_id=self.table_id,
            start=self.start,
            end=self.end,
            shapes=dict(self.shapes),
            chunks=dict(self.chunks),
            unlisted=self.unlisted,
        )


def _counted(sums: dict[Any, Any], more: Mapping[Any, Any], none: Any, most: int) -> bool:
    """Add to sums by key; return whether there was room for all keys."""
    for key, counts in more.items():
        if key in sums or len(sums) < most:
            sums[key] = sums.get(key, none) + counts
    return all(key in sums for key in more)
