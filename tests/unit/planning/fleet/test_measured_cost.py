"""How long plans take, from those that were completed; outliers do not count."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.planning.fleet.measured_cost import (
    DEFAULT,
    LEAST,
    SAMPLES,
    Cost,
    Ran,
    cost_of,
    costs_of,
    fleet_costs,
    seconds_of,
)
from tests.examples import examples
from tests.support.builders import first, minor_plan
from tests.support.completions import completed

GIB = 1024 * MIB
PLAN = minor_plan((first(0), first(1)))


def line(fixed: float, per_gib: float, sizes: list[float]) -> list[Ran]:
    """Return runs that took exactly as long as a line says."""
    return [Ran(round(gib * GIB), fixed + per_gib * gib) for gib in sizes]


def test_the_cost_of_runs_on_a_line_is_that_line() -> None:
    """Whatever their order; without any error."""
    found = cost_of(line(10, 30, [1, 2, 0.5, 8, 4, 1.5]))
    assert (found.fixed, found.per_byte * GIB) == (pytest.approx(10), pytest.approx(30))
    assert (found.runs, found.error) == (6, pytest.approx(0, abs=1e-9))
    assert found.seconds(3 * GIB) == pytest.approx(100)


@given(
    fixed=st.floats(0, 600),
    per_gib=st.floats(0, 600),
    late=st.sets(st.integers(0, 11), max_size=3),
    seed=st.integers(0, 2**16),
)
@examples(100)
def test_a_few_runs_that_took_much_too_long_do_not_count(
    fixed: float, per_gib: float, late: set[int], seed: int
) -> None:
    """A quarter of them at most: the estimate stays that of the others.

    The oracle is the line itself, from which the other runs are at most 2 % away.
    """
    random = Random(seed)
    sizes = [2.0**at for at in range(-4, 8)]
    random.shuffle(sizes)
    runs = [
        Ran(run.size, run.seconds * (50 if at in late else random.uniform(0.98, 1.02)))
        for at, run in enumerate(line(fixed, per_gib, sizes))
    ]
    found = cost_of(runs)
    assert found.fixed >= 0 <= found.per_byte
    truth = fixed + per_gib * 16
    assert found.seconds(16 * GIB) == pytest.approx(truth, rel=0.35, abs=1)


def test_runs_of_one_size_say_nothing_of_other_sizes() -> None:
    """The time a byte is the default's, unless runs took less than that."""
    found = cost_of([Ran(GIB, 60.0), Ran(GIB + MIB, 62.0), Ran(GIB, 61.0)])
    assert found.per_byte == DEFAULT.per_byte
    assert found.seconds(GIB) == pytest.approx(61, rel=0.01)
    fast = cost_of([Ran(GIB, 4.0)] * 3)
    assert (fast.fixed, fast.seconds(2 * GIB)) == (0.0, pytest.approx(8))
    assert cost_of([Ran(0, 4.0)]).seconds(0) == 4.0


def test_the_error_is_of_estimates_from_earlier_runs_alone() -> None:
    """Runs that become twice as slow at once are half estimated; fewer have no error."""
    steady = [Ran(MIB, 10.0)] * 4
    assert cost_of([*steady, *[Ran(MIB, 20.0)] * 3]).error == pytest.approx(0.5)
    assert cost_of(steady[:LEAST]).error is None


def test_a_table_has_the_costs_of_its_newest_completions() -> None:
    """Fewer than a few are none, and so are plans that were not completed."""
    slow = [completed(PLAN, n=n, seconds=100) for n in range(SAMPLES)]
    fast = [completed(PLAN, n=n + SAMPLES, seconds=10) for n in range(SAMPLES)]
    assert costs_of([*fast, *slow])["minor"].seconds(PLAN.size) == pytest.approx(10)
    assert costs_of(fast)["minor"].runs == SAMPLES
    assert costs_of(fast[: LEAST - 1]) == {}


def test_a_table_without_runs_has_the_fleets_median_or_the_default() -> None:
    """By kind; the fleet's error is the median of its tables' errors."""
    tables = [{"minor": Cost(fixed=f, per_byte=0, runs=4, error=f / 10)} for f in (1, 2, 9)]
    of_fleet = fleet_costs(tables)
    assert of_fleet["minor"] == Cost(fixed=2, per_byte=0, runs=12, error=0.2)
    assert seconds_of("minor", GIB, {}, of_fleet) == 2
    assert seconds_of("minor", GIB, tables[2], of_fleet) == 9
    assert seconds_of("major", GIB, tables[2], of_fleet) == DEFAULT.seconds(GIB) == 40
    assert of_fleet["minor"].facts()["error"] == 0.2
    assert str(of_fleet["minor"]) == "2 s and 0 s a GiB, by 12 runs; estimates miss by 20%"
