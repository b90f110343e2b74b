"""How a table's time is cut, here and there."""

import pytest

from airflow_provider_segtable.core.interval import DAY_US, HOUR_US, Granularity, Interval
from airflow_provider_segtable.core.layout import Layout, Zone, aligned

HOURLY = Layout(granularity=Granularity.HOUR)
DAY = Interval(0, DAY_US)


def test_a_zone_cuts_time_its_own_way() -> None:
    """Inside a zone the zone's granularity counts, outside the table's."""
    layout = HOURLY.recut(DAY, Granularity.DAY)
    assert layout.chunk(5 * HOUR_US) == DAY
    assert layout.chunk(DAY_US) == Interval(DAY_US, DAY_US + HOUR_US)
    assert layout.zones == (Zone(DAY, Granularity.DAY),)


def test_neighbours_of_one_granularity_are_one_zone() -> None:
    """Days that were cut one after another stand as one zone."""
    layout = HOURLY.recut(DAY, Granularity.DAY).recut(Interval(DAY_US, 2 * DAY_US), Granularity.DAY)
    assert layout.zones == (Zone(Interval(0, 2 * DAY_US), Granularity.DAY),)


def test_cutting_back_leaves_no_zone() -> None:
    """A region cut as the table is cut is no zone; what is left of others around it stays."""
    month = Interval(0, 31 * DAY_US)
    layout = HOURLY.recut(month, Granularity.MONTH).recut(month, Granularity.HOUR)
    assert layout == HOURLY
    days = HOURLY.recut(month, Granularity.DAY).recut(
        Interval(DAY_US, 2 * DAY_US), Granularity.HOUR
    )
    assert [zone.interval for zone in days.zones] == [DAY, Interval(2 * DAY_US, 31 * DAY_US)]


@pytest.mark.parametrize("granularity", [Granularity.WEEK, Granularity.MONTH])
def test_rows_are_cut_at_the_edges_of_zones(granularity: Granularity) -> None:
    """A chunk that sticks out over a zone holds rows up to the edge only."""
    zone = Interval(10 * DAY_US, 12 * DAY_US)
    layout = Layout(granularity=granularity, zones=(Zone(zone, Granularity.DAY),))
    before = 10 * DAY_US - 1
    assert layout.edge(before) == zone.start
    assert layout.edge(zone.start) == 11 * DAY_US
    assert layout.edge(zone.end) == granularity.chunk(zone.end).end
    assert layout.holds(before, zone.start) is None
    assert layout.holds(zone.start, zone.start + 5) == Interval(10 * DAY_US, 11 * DAY_US)


def test_every_instant_lies_in_one_chunk_and_edges_agree() -> None:
    """Walking from edge to edge meets every instant once, in the chunk that counts for it."""
    layout = HOURLY.recut(DAY, Granularity.DAY).recut(
        Granularity.WEEK.chunk(9 * DAY_US), Granularity.WEEK
    )
    at = 0
    while at < 20 * DAY_US:
        end = layout.edge(at)
        assert at < end
        assert {layout.chunk(t) for t in (at, (at + end) // 2, end - 1)} == {layout.chunk(at)}
        assert layout.chunk(at).holds(at)
        at = end


def test_aligned_covers_whole_chunks() -> None:
    """A region grows to whole chunks of the granularity."""
    assert aligned(Interval(5, DAY_US + 5), Granularity.DAY) == Interval(0, 2 * DAY_US)
