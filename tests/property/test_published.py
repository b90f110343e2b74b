"""Whatever a table went through, readers of other formats find the rows of the version shown."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.tables.keyed.keyed_kind import PrimaryKey
from tests.examples import examples
from tests.property.published_world import KeyedWorld, World, played

STEPS = 12


def outcomes(seed: int, *keyed: PrimaryKey) -> Counter[str]:
    """Play one history in a folder of its own."""
    with TemporaryDirectory() as place:
        made = KeyedWorld if keyed else World
        return played(seed, Path(place) / "t", STEPS, *keyed, made=made).outcomes


@examples(10)
@given(st.integers(0, 2**32))
def test_readers_find_the_rows_of_the_published_event(seed: int) -> None:
    """Of tables whose rows are appended, changed, compacted, restored, and columns altered."""
    outcomes(seed)


@examples(6)
@given(st.integers(0, 2**32))
def test_readers_find_the_base_files_of_a_keyed_table(seed: int) -> None:
    """They find the read-optimised view: what log files hold is not published."""
    outcomes(seed, PrimaryKey(key=("id",), buckets=1 + seed % 3))
