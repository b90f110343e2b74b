"""When a table that misses its objective is expected to meet it."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.time import MINUTE_US
from airflow_provider_segtable.planning.fleet.expected import Expected, expected
from airflow_provider_segtable.planning.fleet.fleet_plan import Begun, Code, Left, Offer, TableLook
from airflow_provider_segtable.planning.fleet.objectives import Miss
from tests.unit.planning.fleet.test_fleet_plan import NOON, offer

FILES = Miss(name="files_read", found=9, aim=3)
INDEX = Miss(name="stale_index", found=9, aim=3)
LAG = Miss(name="publish_lag", found=9, aim=3)


def timed(minutes: float, kind: str = "minor") -> Offer:
    """Return an offer of so much work."""
    return replace(offer("p"), minutes=minutes, kind=kind)


def running(minutes: float, minutes_ago: float) -> Begun:
    """Return a plan that is pending."""
    at = NOON - round(minutes_ago * MINUTE_US)
    return Begun(at=at, size=1, minutes=minutes, pending=True)


def waiting(minutes: float, until_min: float | None) -> Left:
    """Return an offer that is left until a time, or with none."""
    until = None if until_min is None else NOON + round(until_min * MINUTE_US)
    full = "the fleet is full"
    return Left(table="t", offer=timed(minutes), code=Code.FLEET_BYTES, reason=full, until=until)


def of(
    *misses: Miss,
    begun: tuple[Begun, ...] = (),
    chosen: tuple[Offer, ...] = (),
    left: tuple[Left, ...] = (),
) -> Expected | None:
    """Return the expectation of a table."""
    look = TableLook(name="t", misses=misses, begun=begun)
    return expected(look, chosen, left, NOON)


def minutes(found: Expected | None) -> float:
    """Return the expected time in minutes from now."""
    assert found is not None
    assert found.at is not None
    return (found.at - NOON) / MINUTE_US


def test_a_table_that_meets_its_objective_expects_nothing() -> None:
    """Whatever it offers."""
    assert of(chosen=(timed(3),)) is None


def test_the_last_plan_decides() -> None:
    """A pending one ends after its request, one that is left after its time, never in the past."""
    assert minutes(of(FILES, chosen=(timed(3), timed(7)))) == 7
    assert minutes(of(FILES, begun=(running(30, 10),), chosen=(timed(3),))) == 20
    assert minutes(of(FILES, chosen=(timed(3),), left=(waiting(5, 40),))) == 45
    late = of(FILES, begun=(running(5, 60),))
    assert minutes(late) == 0
    assert str(late).endswith("at the earliest: 1 plan pending or running")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (of(FILES), "no plan of the table is due"),
        (of(LAG, FILES, chosen=(timed(3),)), "the next commit, or the next upkeep run"),
        (of(FILES, left=(waiting(5, None),)), "waits (fleet-bytes): the fleet is full"),
        (of(FILES, chosen=(timed(0),)), "the work of 1 plan to begin now is not estimated"),
        (of(FILES, left=(waiting(0, 60),)), "may begin at 2026-01-05T13:00:00Z"),
        (of(INDEX, chosen=(timed(3),)), "no plan of the table is due"),
        (of(INDEX, begun=(running(3, 0),)), "no plan of the table is due"),
        (of(FILES, chosen=(timed(3, "index"),)), "no plan of the table is due"),
        (of(FILES, begun=(replace(running(3, 0), kind="index"),)), "no plan of the table is due"),
    ],
)
def test_what_is_not_known_is_said(found: Expected | None, why: str) -> None:
    """With the reason instead of a time."""
    assert found is not None
    assert found.at is None
    assert why in found.why
    assert found.facts() == {"at": None, "why": found.why}
