"""How a table's time is cut, here and there."""

import pytest

from airflow_provider_segtable.core.time import (
    DAY_US,
    HOUR_US,
    Granularity,
    GranularityOverride,
    Interval,
    Layout,
    aligned,
    decode_overrides,
    encode_overrides,
)

HOURLY = Layout(granularity=Granularity.HOUR)
DAY = Interval(0, DAY_US)


def test_a_zone_cuts_time_its_own_way() -> None:
    """Inside a zone the zone's granularity counts, outside the table's."""
    layout = HOURLY.recut(DAY, Granularity.DAY)
    assert layout.chunk(5 * HOUR_US) == DAY
    assert layout.chunk(DAY_US) == Interval(DAY_US, DAY_US + HOUR_US)
    assert layout.overrides == (GranularityOverride(DAY, Granularity.DAY),)


def test_neighbours_of_one_granularity_are_one_zone() -> None:
    """Days that were cut one after another stand as one zone."""
    layout = HOURLY.recut(DAY, Granularity.DAY).recut(Interval(DAY_US, 2 * DAY_US), Granularity.DAY)
    assert layout.overrides == (GranularityOverride(Interval(0, 2 * DAY_US), Granularity.DAY),)


def test_cutting_back_leaves_no_zone() -> None:
    """A region cut as the table is cut is no zone; what is left of others around it stays."""
    month = Interval(0, 31 * DAY_US)
    layout = HOURLY.recut(month, Granularity.MONTH).recut(month, Granularity.HOUR)
    assert layout == HOURLY
    days = HOURLY.recut(month, Granularity.DAY).recut(
        Interval(DAY_US, 2 * DAY_US), Granularity.HOUR
    )
    assert [override.interval for override in days.overrides] == [
        DAY,
        Interval(2 * DAY_US, 31 * DAY_US),
    ]


def test_a_zone_may_have_its_own_number_of_buckets() -> None:
    """It keeps its granularity, or the largest number if only granularity changes."""
    table = Layout(granularity=Granularity.HOUR, buckets=4)
    both = table.recut(DAY, None, 8)
    assert (both.buckets_at(0), both.own_buckets(0), both.buckets_at(DAY_US)) == (8, 8, 4)
    assert both.chunk(0) == table.chunk(0)
    two = Interval(0, 2 * DAY_US)
    days = both.recut(two, Granularity.DAY)
    assert days.overrides == (GranularityOverride(two, Granularity.DAY, 8),)
    assert days.recut(two, Granularity.HOUR, 4) == table
    assert days.cuts(Interval(0, 3 * DAY_US)) == {(Granularity.DAY, 8), (Granularity.HOUR, 0)}
    assert decode_overrides(encode_overrides(days.overrides)) == days.overrides


def test_nesting_is_what_the_calendar_says() -> None:
    """A granularity nests in another exactly if no chunk of it crosses an edge of the other."""
    starts = range(0, 3 * 366 * DAY_US, 5 * DAY_US)  # three years: every crossing occurs
    for fine in Granularity:
        for coarse in Granularity:
            chunks = [fine.chunk(at) for at in starts]
            inside = all(coarse.chunk(c.start).encloses(c) for c in chunks)
            assert fine.nests_in(coarse) == inside, (fine, coarse)


def test_a_region_names_every_granularity_inside() -> None:
    """Zones count where they overlap the region, the table's own only if a gap is left."""
    days, hours = Interval(DAY_US, 3 * DAY_US), Interval(5 * DAY_US, 6 * DAY_US)
    layout = HOURLY.recut(days, Granularity.DAY).recut(hours, Granularity.WEEK)
    assert layout.granularities(Interval(DAY_US, 2 * DAY_US)) == {Granularity.DAY}
    assert layout.granularities(Interval(0, 2 * DAY_US)) == {Granularity.HOUR, Granularity.DAY}
    assert layout.granularities(Interval(2 * DAY_US, 4 * DAY_US)) == {
        Granularity.DAY,
        Granularity.HOUR,
    }
    assert layout.granularities(Interval(3 * DAY_US, 5 * DAY_US)) == {Granularity.HOUR}
    assert len(layout.granularities(Interval(0, 7 * DAY_US))) == 3


@pytest.mark.parametrize("granularity", [Granularity.WEEK, Granularity.MONTH])
def test_rows_are_cut_at_the_edges_of_zones(granularity: Granularity) -> None:
    """A chunk that sticks out over a zone holds rows up to the edge only."""
    override = Interval(10 * DAY_US, 12 * DAY_US)
    layout = Layout(
        granularity=granularity, overrides=(GranularityOverride(override, Granularity.DAY),)
    )
    before = 10 * DAY_US - 1
    assert layout.edge(before) == override.start
    assert layout.edge(override.start) == 11 * DAY_US
    assert layout.edge(override.end) == granularity.chunk(override.end).end
    assert layout.holds(before, override.start) is None
    assert layout.holds(override.start, override.start + 5) == Interval(10 * DAY_US, 11 * DAY_US)


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


@pytest.mark.parametrize(
    ("table", "override", "cut", "crossing"),
    [
        ("week", "2018-01-01/2018-02-01", "month", Granularity.MONTH),  # a week at its end
        ("week", "2018-10-01/2018-11-01", "month", Granularity.MONTH),
        ("week", "2013-12-01/2014-01-06", "month", None),  # weeks begin earlier, and lose
        ("month", "2018-01-01/2018-02-05", "week", Granularity.WEEK),  # February begins later
        ("month", "2018-01-29/2018-02-01", "week", None),
        ("hour", "2018-01-01/2018-02-01", "month", None),
        ("month", "2018-01-10/2018-01-12", "day", None),  # inside: begins later, and wins
    ],
)
def test_chunks_cross_where_one_version_would_show_the_wrong_one(
    table: str, override: str, cut: str, crossing: Granularity | None
) -> None:
    """Only chunks that stick out over an edge, and would win there among equal versions."""
    piece = Interval.parse(override)
    layout = Layout(
        granularity=Granularity(table), overrides=(GranularityOverride(piece, Granularity(cut)),)
    )
    around = Interval(piece.start - 40 * DAY_US, piece.end + 40 * DAY_US)
    assert layout.crossing(around) is crossing
    assert layout.crossing(piece) is None
