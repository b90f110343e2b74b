"""Layout: the partition of a table's time into chunks.

1. The table's granularity determines the chunks, except where a *granularity override* applies.
2. A major compaction that changes the granularity of a region overrides it there. Overrides are
   disjoint and sorted; neighbours of equal granularity are joined. Overrides equal to the table's
   granularity are dropped.
3. Every instant belongs to exactly one chunk. A chunk may extend over the edge of an override;
   instants beyond the edge belong to another chunk, and no row of this one lies there.
4. Chunks that extend over an edge *cross* if, at one version, overshadowing would show the wrong
   one beyond the edge (among equal versions, the later start wins, then the earlier end). A new
   version must not have chunks that cross: its region has one granularity (ADR 0012).

    granularity hour                | 00 | 01 | ... | 23 | 00 | 01 | ...
    override [Jan 1, Jan 2) by day  |      January 1     | 00 | 01 | ...
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval


@dataclass(frozen=True, slots=True, order=True)
class GranularityOverride:
    """An interval with its own granularity."""

    interval: Interval
    granularity: Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The table's granularity, and the overrides that differ from it."""

    granularity: Granularity
    overrides: tuple[GranularityOverride, ...] = ()

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

    def granularities(self, region: Interval) -> frozenset[Granularity]:
        """Return all granularities in the region."""
        inside = [override for override in self.overrides if override.interval.overlaps(region)]
        found, at = {override.granularity for override in inside}, region.start
        for override in inside:
            if at < override.interval.start:
                found.add(self.granularity)
            at = override.interval.end
        return frozenset(found | {self.granularity}) if at < region.end else frozenset(found)

    def holds(self, first: Instant, last: Instant) -> Interval | None:
        """Return the chunk that holds both instants, or None if they lie in two."""
        chunk = self.chunk(first)
        return chunk if self.chunk(last) == chunk else None

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

    def recut(self, region: Interval, granularity: Granularity) -> "Layout":
        """Return the layout with a region repartitioned by a granularity."""
        kept = [piece for override in self.overrides for piece in _outside(override, region)]
        if granularity is not self.granularity:
            kept.append(GranularityOverride(region, granularity))
        return Layout(granularity=self.granularity, overrides=tuple(_joined(sorted(kept))))


def aligned(region: Interval, granularity: Granularity) -> Interval:
    """Return the smallest interval of whole chunks of a granularity that covers the region."""
    return Interval(granularity.chunk(region.start).start, granularity.chunk(region.end - 1).end)


def _outside(override: GranularityOverride, region: Interval) -> Iterator[GranularityOverride]:
    start, end = override.interval.start, override.interval.end
    for first, last in ((start, min(end, region.start)), (max(start, region.end), end)):
        if first < last:
            yield GranularityOverride(Interval(first, last), override.granularity)


def _joined(overrides: Iterable[GranularityOverride]) -> Iterator[GranularityOverride]:
    held: GranularityOverride | None = None
    for override in overrides:
        touches = held and held.interval.end == override.interval.start
        if held and touches and held.granularity is override.granularity:
            held = GranularityOverride(
                Interval(held.interval.start, override.interval.end), override.granularity
            )
            continue
        if held:
            yield held
        held = override
    if held:
        yield held


def encode_overrides(overrides: Iterable[GranularityOverride]) -> list[list[str]]:
    """Return granularity overrides as JSON."""
    return [[each.interval.name, each.granularity.value] for each in overrides]


def decode_overrides(body: Iterable[Iterable[str]]) -> tuple[GranularityOverride, ...]:
    """Parse the output of ``encode_overrides``."""
    return tuple(
        GranularityOverride(Interval.from_name(name), Granularity(granularity))
        for name, granularity in body
    )
