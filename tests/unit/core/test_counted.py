"""Numbers of things in messages."""

import pytest

from airflow_provider_segtable.core.counted import counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234567, "1,234,567 rows")]
)
def test_a_count_has_its_noun_in_the_right_number(count: int, said: str) -> None:
    """One is singular, all else plural; long numbers are grouped."""
    assert counted(count, "row") == said
