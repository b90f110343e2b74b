"""Pages of ascending numbers are found in as numbers are."""

from random import Random

import numpy as np
import pytest

from airflow_provider_segtable.data.parquet.number_pages import Ascending

LEAST, MOST = -(2**63), 2**63 - 1
SPANS = ((0, 9), (0, 70_000), (-5, 2**33), (LEAST, MOST), (MOST - 3, MOST), (LEAST, LEAST + 2))


@pytest.mark.parametrize("seed", range(60))
def test_found_are_the_places_of_wanted_numbers(seed: int) -> None:
    """Of numbers that repeat or not, near zero and at the ends of their type."""
    draw = Random(seed)
    low, high = draw.choice(SPANS)
    known = sorted(draw.randint(low, high) for _ in range(draw.randrange(1, 60)))
    near = [max(LEAST, min(MOST, each + draw.randrange(-1, 2))) for each in known]
    some = {draw.choice(near) for _ in range(draw.randrange(20))} | {draw.randint(low, high)}
    values, wanted = np.array(known, np.int64), np.array(sorted(some), np.int64)
    page = Ascending.of(values)
    assert page is not None
    places, found = page.find(wanted)
    right = np.flatnonzero(np.isin(values, wanted))
    assert places.tolist() == right.tolist()
    assert found.tolist() == values[right].tolist()
    assert page.size <= 400 + values.nbytes


def test_a_page_takes_what_its_numbers_need() -> None:
    """Two or four bytes for near numbers; numbers in any order are no such page."""
    for step, width in ((1, 2), (100, 4), (2**40, 8)):
        page = Ascending.of(np.arange(1_000, dtype=np.int64) * step)
        assert page is not None
        assert page.above.itemsize == width
    assert Ascending.of(np.array([2, 1])) is None
    assert Ascending.of(np.array([1.0, 2.0])) is None
    assert Ascending.of(np.array([], np.int64)) is None
