"""Layout: how a table's time is cut into chunks, here and there.

1. Time is cut by the table's granularity, but inside a *zone* by the zone's.
2. A major compaction that changes the granularity of a region makes it a zone; zones are
   disjoint, sorted, and joined where neighbours agree. One that agrees with the table is none.
3. Every instant lies in exactly one chunk that counts for it. A chunk may stick out over the edge
   of a zone; what it holds beyond the edge is not its to keep, and no row is put there.
4. Chunks that stick out *cross* if, at one version, overshadowing would show the wrong one beyond
   an edge (of equal versions the later start wins, then the earlier end). A new version must not
   hold chunks that cross: its region is cut by one granularity (ADR 0012).

    granularity hour            | 00 | 01 | ... | 23 | 00 | 01 | ...
    zone [Jan 1, Jan 2) by day  |      January 1     | 00 | 01 | ...
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval


@dataclass(frozen=True, slots=True, order=True)
class Zone:
    """A stretch of time that is cut by its own granularity."""

    interval: Interval
    granularity: Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The table's granularity, and the zones that differ."""

    granularity: Granularity
    zones: tuple[Zone, ...] = ()

    def chunk(self, at: Instant) -> Interval:
        """Return the time chunk of an instant.

        Raises:
            TimeOutOfRange: if the instant is outside the years 1 to 9998.
        """
        zone = self.zone(at)
        return (zone.granularity if zone else self.granularity).chunk(at)

    def zone(self, at: Instant) -> Zone | None:
        """Return the zone that holds an instant."""
        before = bisect_right(self.zones, at, key=lambda zone: zone.interval.start) - 1
        if before >= 0 and self.zones[before].interval.holds(at):
            return self.zones[before]
        return None

    def granularities(self, region: Interval) -> frozenset[Granularity]:
        """Return every granularity that cuts some part of the region."""
        inside = [zone for zone in self.zones if zone.interval.overlaps(region)]
        found, at = {zone.granularity for zone in inside}, region.start
        for zone in inside:
            if at < zone.interval.start:
                found.add(self.granularity)
            at = zone.interval.end
        return frozenset(found | {self.granularity}) if at < region.end else frozenset(found)

    def holds(self, first: Instant, last: Instant) -> Interval | None:
        """Return the one chunk that both instants lie in, or None."""
        chunk = self.chunk(first)
        return chunk if self.chunk(last) == chunk else None

    def edge(self, at: Instant) -> Instant:
        """Return up to where rows from ``at`` on belong to the chunk of ``at`` (exclusive)."""
        chunk = self.chunk(at)
        inside = self.zone(at)
        if inside:
            return min(chunk.end, inside.interval.end)
        following = bisect_right(self.zones, at, key=lambda zone: zone.interval.start)
        if following < len(self.zones):
            return min(chunk.end, self.zones[following].interval.start)
        return chunk.end

    def crossing(self, region: Interval) -> Granularity | None:
        """Return the granularity of a zone at whose edge chunks of the region cross; rule 4."""
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
                zone = self.zone(edge - 1) or self.zone(edge)
                return zone.granularity if zone else None
        return None

    def _edges(self, region: Interval) -> list[Instant]:
        """Return the edges of zones inside a region."""
        first = bisect_right(self.zones, region.start, key=lambda zone: zone.interval.end)
        after = bisect_left(self.zones, region.end, key=lambda zone: zone.interval.start)
        near = (zone.interval for zone in self.zones[first:after])
        edges = {edge for zone in near for edge in (zone.start, zone.end)}
        return sorted(edge for edge in edges if region.start < edge < region.end)

    def recut(self, region: Interval, granularity: Granularity) -> "Layout":
        """Return the layout after a region was cut anew."""
        kept = [piece for zone in self.zones for piece in _outside(zone, region)]
        if granularity is not self.granularity:
            kept.append(Zone(region, granularity))
        return Layout(granularity=self.granularity, zones=tuple(_joined(sorted(kept))))


def aligned(region: Interval, granularity: Granularity) -> Interval:
    """Return the smallest stretch of whole chunks of a granularity that covers the region."""
    return Interval(granularity.chunk(region.start).start, granularity.chunk(region.end - 1).end)


def _outside(zone: Zone, region: Interval) -> Iterator[Zone]:
    start, end = zone.interval.start, zone.interval.end
    for first, last in ((start, min(end, region.start)), (max(start, region.end), end)):
        if first < last:
            yield Zone(Interval(first, last), zone.granularity)


def _joined(zones: Iterable[Zone]) -> Iterator[Zone]:
    held: Zone | None = None
    for zone in zones:
        touches = held and held.interval.end == zone.interval.start
        if held and touches and held.granularity is zone.granularity:
            held = Zone(Interval(held.interval.start, zone.interval.end), zone.granularity)
            continue
        if held:
            yield held
        held = zone
    if held:
        yield held
