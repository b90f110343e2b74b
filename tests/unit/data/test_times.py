"""Event times of every Arrow type as instants."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.time import DAY_US, instant
from airflow_provider_segtable.data.rows import instants, is_time

AT = instant(datetime(2013, 1, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize(("unit", "scale"), [("s", 10**6), ("ms", 1000), ("us", 1)])
def test_units_and_zones(unit: str, scale: int, zone: str | None) -> None:
    """A timestamp of any unit and zone is the instant it stands for; naive means UTC."""
    column = pa.array([AT // scale, None]).cast(pa.timestamp(unit, zone))
    assert instants(column).to_pylist() == [AT, None]


def test_nanoseconds_are_floored() -> None:
    """Nanoseconds round down, before the epoch too."""
    column = pa.array([1999, -1, -1000, -1001, None]).cast(pa.timestamp("ns"))
    assert instants(column).to_pylist() == [1, -1, -1, -2, None]


def test_dates_are_midnights() -> None:
    """A date is its midnight UTC."""
    days = pa.array([0, 1, -1, None], pa.int32()).cast(pa.date32())
    assert instants(days).to_pylist() == [0, DAY_US, -DAY_US, None]
    assert instants(days.cast(pa.date64())).to_pylist() == [0, DAY_US, -DAY_US, None]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.date64()]
)
def test_absurd_times_saturate(kind: pa.DataType) -> None:
    """What passes 64 bits of microseconds stays absurd, and never wraps to something plausible."""
    column = pa.array([2**63 - 1, -(2**63)]).cast(kind)
    high, low = instants(column).to_pylist()
    assert high > 2**62
    assert low < -(2**62)


def test_absurd_dates_saturate() -> None:
    """The last and first day of 32 bits are far beyond what a table holds."""
    column = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    high, low = instants(column).to_pylist()
    assert high > 2**62
    assert low < -(2**62)


def test_chunked_and_far_times() -> None:
    """Chunks are joined; years beyond 2262 are no problem in microseconds."""
    far = instant(datetime(9998, 12, 31, tzinfo=UTC))
    column = pa.chunked_array(
        [pa.array([far], pa.timestamp("us")), pa.array([], pa.timestamp("us"))]
    )
    assert instants(column).to_pylist() == [far]


def test_what_can_be_an_event_time() -> None:
    """Timestamps and dates are times, numbers and words are not."""
    assert is_time(pa.timestamp("ns", "UTC"))
    assert is_time(pa.date32())
    assert not is_time(pa.int64())
    assert not is_time(pa.time64("us"))
