"""Results of benchmarks: goals, lines of JSON and the table."""

import pytest

from benchmarks.results import Result, table


def result(**given: object) -> Result:
    """Return a result of 2 s against a peer's 1 s, or as given."""
    fields = {"benchmark": "wide", "what": "append", "ours": 2.0, "unit": "s"}
    return Result(**fields | {"peer": 1.0, "against": "pyarrow"} | given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "met"),
    [
        ({}, None),
        ({"most": 2.0}, True),
        ({"most": 1.9}, False),
        ({"least": 2.0}, True),
        ({"least": 2.1}, False),
        ({"peer": None, "most": 1.9}, False),
        ({"peer": None, "least": 1.9}, True),
    ],
)
def test_a_goal_limits_the_ratio_or_without_a_peer_the_number(
    given: dict[str, object], met: object
) -> None:
    """Both bounds are inclusive, and no goal is no verdict."""
    assert result(**given).met is met


def test_a_line_is_parsed_to_the_same_result() -> None:
    """The runner reads what a benchmark printed, and passes over other lines."""
    some = result(most=1.2)
    assert Result.parsed(some.line()) == some
    assert Result.parsed('{"seconds": 1}') is None
    assert Result.parsed("made 3 files") is None


def test_the_table_shows_verdicts_in_aligned_columns() -> None:
    """Each result is a row: numbers with units, the ratio, the goal and a mark."""
    lines = [*table([result(most=1.2), result(peer=None, ours=12345.6, unit="rows")])]
    assert len({len(line) for line in lines}) == 1
    assert "2 s" in lines[2]
    assert "1 s (pyarrow)" in lines[2]
    assert "≤ 1.2 x" in lines[2]
    assert lines[2].rstrip(" |").endswith("✗")
    assert "12,346 rows" in lines[3]
