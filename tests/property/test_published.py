"""Whatever a table went through, readers of other formats find the rows of the version shown."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.property.published_kinds import played

STEPS = 12


def outcomes(seed: int, kind: str) -> Counter[str]:
    """Play one history in a folder of its own."""
    with TemporaryDirectory() as place:
        return played(seed, Path(place) / "t", STEPS, kind).outcomes


@examples(5)
@given(st.integers(0, 2**32))
def test_readers_find_the_rows_of_the_published_event(seed: int) -> None:
    """Of tables whose rows are appended, changed, compacted, restored, and columns altered."""
    outcomes(seed, "append")


@examples(4)
@given(st.integers(0, 2**32))
def test_readers_find_the_base_files_of_a_keyed_table(seed: int) -> None:
    """They find the read-optimised view: what log files hold is not published."""
    outcomes(seed, "keyed")


@examples(4)
@given(st.integers(0, 2**32))
def test_readers_find_a_rollup_table_that_is_rolled_up(seed: int) -> None:
    """They find one row of each group; otherwise it is refused, and the last version stays."""
    outcomes(seed, "rollup")
