"""Which length of time chunks fits some rows."""

import pytest

from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity
from airflow_provider_segtable.planning.granularity_advice import granularity_advice

MIB = 1 << 20
DAYS = [day * DAY_US for day in range(2555)]
HOURS = [hour * HOUR_US for hour in range(24 * 60)]


@pytest.mark.parametrize(
    ("now", "starts", "size", "better"),
    [
        ("day", DAYS, 100 * MIB, "month"),
        ("day", DAYS, 10 * MIB, "year"),
        ("day", DAYS, 3000 * MIB, None),
        ("day", DAYS[:16], 1000, None),
        ("day", DAYS[:400:25], 1000, None),
        ("day", DAYS[:400], 1000, "month"),
        ("hour", HOURS, 70 * MIB, "day"),
        ("hour", HOURS, 10 * MIB, "month"),
        ("week", DAYS[4::7], 10 * MIB, "all"),
        ("month", [1000 * day * DAY_US for day in range(200)], 10, "all"),
        ("all", [0], 10, None),
        ("day", [], 0, None),
    ],
)
def test_the_finest_granularity_that_fits_is_advised(
    now: str, starts: list[int], size: int, better: str | None
) -> None:
    """A chunk should have a mebibyte, unless there are few chunks."""
    advice = granularity_advice(Granularity(now), starts, size)
    assert (advice and advice.better.value) == better


def test_it_says_what_both_make() -> None:
    """Chunks and their average size, now and as advised."""
    said = str(granularity_advice(Granularity.DAY, DAYS, 100 * MIB))
    assert said == (
        "day makes 2,555 time chunks of 40.1 KiB on average; month would make 84 of 1.2 MiB"
    )
