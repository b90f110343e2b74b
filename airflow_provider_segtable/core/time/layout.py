"""Layout: the partition of a table's time into chunks.

1. The table's granularity determines the chunks, except where a *granularity override* applies.
2. A major compaction that changes the granularity of a region overrides it there. Overrides are
   disjoint and sorted; neighbours of equal granularity are joined. Overrides equal to the table's
   granularity are dropped.
   In a primary-key table an override may also have its own number of buckets. If its granularity
   changes and no number is given, a region gets the largest number that it had.
3. Every instant belongs to exactly one chunk. A chunk may extend over the edge of an override;
   instants beyond the edge belong to another chunk, and no row of this one lies there.
4. Chunks that extend over an edge *cross* if, at one version, overshadowing would show the wrong
   one beyond the edge (among equal versions, the later start wins, then the earlier end). A new
   version must not have chunks that cross: its region has one granularity (ADR 0012).

    granularity hour                | 00 | 01 | ... | 23 | 00 | 01 | ...
    override [Jan 1, Jan 2) by day  |      January 1     | 00 | 01 | ...
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval


@dataclass(frozen=True, slots=True, order=True)
class GranularityOverride:
    """An interval with its own granularity; ``buckets`` is 0 if it has the table's number."""

    interval: Interval
    granularity: Granularity
    buckets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A wanted division: a granularity, a number of buckets, both, or neither (None and 0)."""

    granularity: Granularity | None = None
    buckets: int = 0

    def __bool__(self) -> bool:
        """Return whether anything is wanted."""
        return self != Cut()

    def __str__(self) -> str:
        """Return ``day``, ``8 buckets``, or ``day in 8 buckets``."""
        buckets = f"{self.buckets} buckets" if self.buckets else ""
        return " in ".join(filter(None, (self.granularity and self.granularity.value, buckets)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The table's granularity and number of buckets, and the overrides that differ from it."""

    granularity: Granularity
    overrides: tuple[GranularityOverride, ...] = ()
    buckets: int = 0

    def chunk(self, at: Instant) -> Interval:
        """Return the time chunk of an instant.

        Raises:
            TimeOutOfRange: if the instant is outside the years 1 to 9998.
        """
        override = self.override(at)
        return (override.granularity if override else self.granularity).chunk(at)

    def override(self, at: Instant) -> GranularityOverride | None:
        """Return the override at an instant, or None."""
        before = bisect_right(self.overrides, at, key=lambda override: override.interval.start) - 1
        if before >= 0 and self.overrides[before].interval.holds(at):
            return self.overrides[before]
        return None

    def own_buckets(self, at: Instant) -> int:
        """Return the number of buckets of an instant's region; 0 if it has the table's."""
        override = self.override(at)
        return override.buckets if override else 0

    def buckets_at(self, at: Instant) -> int:
        """Return the number of buckets of an instant's chunk; 0 without a primary key."""
        return self.own_buckets(at) or self.buckets

    def pieces(self, region: Interval) -> Iterator[GranularityOverride]:
        """Yield the parts of a region, each with its granularity and its own number of buckets."""
        at = region.start
        for override in self.overrides:
            inside = override.interval.clip(region)
            if inside is None:
                continue
            if at < inside.start:
                yield GranularityOverride(Interval(at, inside.start), self.granularity)
            yield GranularityOverride(inside, override.granularity, override.buckets)
            at = inside.end
        if at < region.end:
            yield GranularityOverride(Interval(at, region.end), self.granularity)

    def cuts(self, region: Interval) -> frozenset[tuple[Granularity, int]]:
        """Return how the region is divided: all granularities, each with its own buckets."""
        return frozenset((piece.granularity, piece.buckets) for piece in self.pieces(region))

    def granularities(self, region: Interval) -> frozenset[Granularity]:
        """Return all granularities in the region."""
        return frozenset(granularity for granularity, _ in self.cuts(region))

    def holds(self, first: Instant, last: Instant) -> Interval | None:
        """Return the chunk that holds both instants, or None if they lie in two."""
        chunk = self.chunk(first)
        return chunk if self.chunk(last) == chunk else None

    def chunks(self, first: Instant, last: Instant) -> Iterator[Interval]:
        """Yield the time chunks from that of an instant to that of another one, in order."""
        at = first
        while at <= last:
            chunk = self.chunk(at)
            yield chunk
            at = chunk.end

    def most_chunks(self, first: Instant, last: Instant) -> int:
        """Return an upper bound of the number of time chunks between two instants; lists none."""
        if self.holds(first, last):
            return 1
        pieces = self.pieces(Interval(first, last + 1))
        return sum(2 + (p.interval.end - p.interval.start) // p.granularity.least for p in pieces)

    def edge(self, at: Instant) -> Instant:
        """Return the end (exclusive) of the instants from ``at`` on that belong to its chunk."""
        chunk = self.chunk(at)
        inside = self.override(at)
        if inside:
            return min(chunk.end, inside.interval.end)
        following = bisect_right(self.overrides, at, key=lambda override: override.interval.start)
        if following < len(self.overrides):
            return min(chunk.end, self.overrides[following].interval.start)
        return chunk.end

    def crossing(self, region: Interval) -> Granularity | None:
        """Return the granularity of an override at whose edge chunks of the region cross; rule 4.

        None if none cross.
        """
        for edge in self._edges(region):
            before, after = self.chunk(edge - 1), self.chunk(edge)
            shared = before.clip(after)
            if before == after or shared is None:
                continue
            later = max(before, after, key=lambda chunk: (chunk.start, -chunk.end))
            hidden = (shared.start < edge and later is after) or (
                edge < shared.end and later is before
            )
            if hidden:
                override = self.override(edge - 1) or self.override(edge)
                return override.granularity if override else None
        return None

    def _edges(self, region: Interval) -> list[Instant]:
        """Return the edges of overrides inside a region."""
        first = bisect_right(
            self.overrides, region.start, key=lambda override: override.interval.end
        )
        after = bisect_left(
            self.overrides, region.end, key=lambda override: override.interval.start
        )
        near = (override.interval for override in self.overrides[first:after])
        edges = {edge for override in near for edge in (override.start, override.end)}
        return sorted(edge for edge in edges if region.start < edge < region.end)

    def recut(
        self, region: Interval, granularity: Granularity | None, buckets: int = 0
    ) -> "Layout":
        """Return the layout with a region repartitioned.

        Args:
            region: splits no chunk, old or new.
            granularity: None keeps what the region has.
            buckets: the number of buckets; 0 keeps it (rule 2).
        """
        kept = [piece for override in self.overrides for piece in _outside(override, region)]
        pieces = [*self.pieces(region)]
        largest = max(piece.buckets or self.buckets for piece in pieces)
        for piece in pieces:
            number = buckets or (largest if granularity else piece.buckets)
            own = 0 if number == self.buckets else number
            cut = granularity or piece.granularity
            if (cut, own) != (self.granularity, 0):
                kept.append(GranularityOverride(piece.interval, cut, own))
        return replace(self, overrides=tuple(_joined(sorted(kept))))


def aligned(region: Interval, granularity: Granularity) -> Interval:
    """Return the smallest interval of whole chunks of a granularity that covers the region."""
    return Interval(granularity.chunk(region.start).start, granularity.chunk(region.end - 1).end)


def _outside(override: GranularityOverride, region: Interval) -> Iterator[GranularityOverride]:
    start, end = override.interval.start, override.interval.end
    for first, last in ((start, min(end, region.start)), (max(start, region.end), end)):
        if first < last:
            yield replace(override, interval=Interval(first, last))


def _joined(overrides: Iterable[GranularityOverride]) -> Iterator[GranularityOverride]:
    held: GranularityOverride | None = None
    for override in overrides:
        touches = held and held.interval.end == override.interval.start
        if held and touches and _alike(held, override):
            held = replace(held, interval=Interval(held.interval.start, override.interval.end))
            continue
        if held:
            yield held
        held = override
    if held:
        yield held


def _alike(one: GranularityOverride, other: GranularityOverride) -> bool:
    return (one.granularity, one.buckets) == (other.granularity, other.buckets)


def encode_overrides(overrides: Iterable[GranularityOverride]) -> list[list[str | int]]:
    """Return granularity overrides as JSON; those with the table's buckets name no number."""
    return [
        [each.interval.name, each.granularity.value, *([each.buckets] if each.buckets else [])]
        for each in overrides
    ]


def decode_overrides(body: Iterable[Sequence[Any]]) -> tuple[GranularityOverride, ...]:
    """Parse the output of ``encode_overrides``."""
    return tuple(
        GranularityOverride(Interval.from_name(name), Granularity(granularity), *buckets)
        for name, granularity, *buckets in body
    )
