"""The plans of many tables: which begin, and why each other one is left."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.time import HOUR_US, MINUTE_US, parse_instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_plan import (
    PATIENCE_H,
    Begun,
    Code,
    FleetPlan,
    Offer,
    TableLook,
    plan_fleet,
)
from airflow_provider_segtable.planning.fleet.objectives import Miss
from tests.examples import examples
from tests.support.builders import minor_plan
from tests.unit.planning.test_minor import sized

NOON = parse_instant("2026-01-05T12:00:00Z")  # a Monday
PLAN = minor_plan(sized(10, 10))


def fleet(text: str = "") -> Fleet:
    """Read a fleet of one group, ``g/*``, and whatever else there is in a file."""
    return read_fleet(f'{dedent(text)}\n[groups.g]\ntables = ["g/*"]\n', "fleet.toml")


def offer(name: str, size_mib: float = 1, *, gain: float = 10, waited_h: float = 0) -> Offer:
    """Return an offer by the id of its plan."""
    plan = replace(PLAN, id=name, size=round(size_mib * MIB))
    return Offer.of(plan, gain=gain, since=NOON - round(waited_h * HOUR_US))


def look(table: str, *offers: Offer, begun: Iterable[Begun] = ()) -> TableLook:
    """Return what is known of a table."""
    return TableLook(name=table, offers=offers, begun=tuple(begun))


def begun(size_mib: float, minutes_ago: float, *, pending: bool = False) -> Begun:
    """Return a plan that was requested before."""
    at = NOON - round(minutes_ago * MINUTE_US)
    return Begun(at=at, size=round(size_mib * MIB), minutes=size_mib, pending=pending)


def chosen(planned: FleetPlan) -> list[str]:
    """Return the plans that begin, best first."""
    return [each.offer.plan_id for each in planned.chosen]


def codes(planned: FleetPlan) -> dict[str, Code]:
    """Return why each other plan is left."""
    return {each.offer.plan_id: each.code for each in planned.left}


def test_without_limits_everything_begins_the_best_first() -> None:
    """By gain per cost, whichever table it is of."""
    looks = [look("a", offer("large", 99), offer("small")), look("b", offer("best", gain=50))]
    planned = plan_fleet(fleet(), looks, NOON)
    assert chosen(planned) == ["best", "small", "large"]
    assert planned.left == ()


def test_priority_urgency_and_waiting_raise_a_plan() -> None:
    """Each by its factor."""
    found = fleet('[tables."b"]\npriority = 3')
    assert chosen(plan_fleet(found, [look("a", offer("x")), look("b", offer("y"))], NOON))[0] == "y"
    misses = (Miss(name="overlap", found=4, aim=3),)
    late = replace(look("a", offer("x")), misses=misses)
    assert chosen(plan_fleet(found, [look("b", offer("y")), late], NOON))[0] == "x"
    old = look("c", offer("z", waited_h=3))
    assert chosen(plan_fleet(found, [look("b", offer("y")), late, old], NOON))[0] == "z"


@pytest.mark.parametrize(
    ("text", "looks", "code", "told", "until_min"),
    [
        ('freeze = {until = 2026-01-06, reason = "audit"}', [], Code.FROZEN, "audit", 720),
        ('[windows]\nminor = ["22:00-06:00"]', [], Code.WINDOW_CLOSED, "begin in 22:00", 600),
        (
            "[budget]\nplans_per_table = 1",
            [look("g/t", begun=[begun(1, 200, pending=True)])],
            Code.TABLE_PLANS,
            "1 plan of g/t pending or running, of plans_per_table = 1",
            None,
        ),
        (
            "[budget]\nplans = 1",
            [look("other", begun=[begun(1, 200, pending=True)])],
            Code.FLEET_PLANS,
            "1 plan of the fleet pending or running, of plans = 1",
            None,
        ),
        (
            '[budget]\nbytes_per_hour = "10 MiB"',
            [look("other", begun=[begun(4, 30), begun(6, 20)])],
            Code.FLEET_BYTES,
            "needs 1.0 MiB; the fleet has begun 10.0 MiB of 10.0 MiB an hour",
            30,
        ),
        (
            "[budget]\ntask_minutes_per_hour = 5",
            [look("other", begun=[begun(5, 59)])],
            Code.FLEET_MINUTES,
            "needs 2 task minutes; the fleet has begun 5 of 5 an hour",
            1,
        ),
    ],
)
def test_a_plan_that_is_left_has_a_code_a_reason_and_a_time(
    text: str, looks: list[TableLook], code: Code, told: str, until_min: float | None
) -> None:
    """And what would change it."""
    mine = look("g/t", replace(offer("p"), minutes=2.0))
    merged = [replace(each, offers=mine.offers) if each.name == "g/t" else each for each in looks]
    looks = merged if any(each.name == "g/t" for each in looks) else [*looks, mine]
    (left,) = plan_fleet(fleet(text), looks, NOON).left
    assert left.code is code
    assert told in left.reason
    minutes = None if left.until is None else (left.until - NOON) / MINUTE_US
    assert minutes == until_min
    facts = plan_fleet(fleet(text), looks, NOON).facts()["left"][0]
    assert (facts["table"], facts["plan"], facts["code"]) == ("g/t", "p", code.value)


@pytest.mark.parametrize(
    ("quota", "code"),
    [
        ("plans = 1", Code.GROUP_PLANS),
        ('bytes_per_hour = "5 MiB"', Code.GROUP_BYTES),
        ("task_minutes_per_hour = 5", Code.GROUP_MINUTES),
        ("plans_per_table = 1", None),
    ],
)
def test_a_groups_quota_binds_its_tables_alone(quota: str, code: Code | None) -> None:
    """Others go on; what the group has begun counts for all of its tables."""
    found = read_fleet(f'[groups.g]\ntables = ["g/*"]\nquota = {{{quota}}}', "fleet.toml")
    looks = [
        look("g/a", begun=[begun(5, 10, pending=True)]),
        look("g/b", replace(offer("mine"), minutes=1.0)),
        look("h/c", replace(offer("other"), minutes=1.0)),
    ]
    planned = plan_fleet(found, looks, NOON)
    assert "other" in chosen(planned)
    assert codes(planned) == ({} if code is None else {"mine": code})


def test_a_rest_after_little_gain_is_kept() -> None:
    """Until its time."""
    resting = replace(offer("p"), rests_until=NOON + HOUR_US)
    (left,) = plan_fleet(fleet(), [look("t", resting)], NOON).left
    assert (left.code, left.until) == (Code.RESTING, NOON + HOUR_US)
    assert "rests 1 h" in left.reason
    assert chosen(plan_fleet(fleet(), [look("t", resting)], NOON + HOUR_US)) == ["p"]


def test_a_plan_larger_than_the_budget_begins_alone() -> None:
    """It waits until nothing was begun for an hour; then nothing begins beside it."""
    found = fleet('[budget]\nbytes_per_hour = "10 MiB"')
    looks = [look("a", offer("giant", 50, gain=9999)), look("b", offer("small"))]
    planned = plan_fleet(found, looks, NOON)
    assert (chosen(planned), codes(planned)) == (["giant"], {"small": Code.FLEET_BYTES})
    looks.append(look("c", begun=[begun(1, 10)]))
    assert codes(plan_fleet(found, looks, NOON))["giant"] is Code.FLEET_BYTES


def test_what_waits_for_long_is_not_kept_out_by_small_ones() -> None:
    """Bytes are kept for it, in its group or in the fleet, once its patience is over."""
    found = fleet('[budget]\nbytes_per_hour = "10 MiB"')
    used = look("c", begun=[begun(8, 10)])
    young = [look("a", offer("large", 5, gain=9999)), look("b", offer("small")), used]
    assert chosen(plan_fleet(found, young, NOON)) == ["small"]
    old = [look("a", offer("large", 5, gain=9999, waited_h=PATIENCE_H)), *young[1:]]
    planned = plan_fleet(found, old, NOON)
    assert codes(planned) == {"large": Code.FLEET_BYTES, "small": Code.KEPT_FREE}
    kept = next(each.reason for each in planned.left if each.code is Code.KEPT_FREE)
    assert kept.startswith("the hour's bytes of the fleet are kept for plan large of a, 5.0 MiB")
    assert kept.endswith("which waits for 1 h")


LIMITS = 'bytes_per_hour = "20 MiB"\nplans = 3\nplans_per_table = 2'
sizes = st.sampled_from([0.5, 1, 3, 8, 30])
offers = st.lists(st.tuples(st.sampled_from("abcd"), sizes, st.integers(1, 50)), max_size=12)


@given(offers, st.lists(st.tuples(st.sampled_from("abcd"), sizes, st.integers(0, 90)), max_size=6))
def test_each_offer_is_chosen_or_left_within_all_limits(
    wanted: list[tuple[str, float, int]], before: list[tuple[str, float, int]]
) -> None:
    """Once each; the sums of an hour and the plans at once stay below the limits."""
    looks = [
        look(
            f"g/{name}",
            *(offer(f"p{n}", s, gain=g) for n, (t, s, g) in enumerate(wanted) if t == name),
            begun=[begun(s, ago, pending=not ago % 2) for t, s, ago in before if t == name],
        )
        for name in "abcd"
    ]
    planned = plan_fleet(fleet(f"[budget]\n{LIMITS}"), looks, NOON)
    every = Counter([*chosen(planned), *codes(planned)])
    assert every == Counter(f"p{n}" for n in range(len(wanted)))
    hour = sum(s for _, s, ago in before if ago < 60)
    new = [each.offer.size / MIB for each in planned.chosen]
    assert not new or hour + sum(new) <= 20 or (not hour and len(new) == 1)
    pending = Counter(f"g/{t}" for t, _, ago in before if not ago % 2)
    counts = Counter(each.table for each in planned.chosen)
    assert not new or pending.total() + counts.total() <= 3
    assert all(pending[name] + count <= 2 for name, count in counts.items())


@examples(40)
@given(st.integers(0, 10**6))
def test_nothing_starves(seed: int) -> None:
    """Beside a stream of better small plans, a poor large one begins within some hours."""
    random = Random(seed)
    found = fleet(f"[budget]\n{LIMITS}")
    large = replace(offer("large", random.choice([5, 18, 40]), gain=1.01), since=NOON)
    done: list[Begun] = []
    for minute in range(0, 60 * 48, 5):
        now = NOON + minute * MINUTE_US
        done = [replace(each, pending=now - each.at < 10 * MINUTE_US) for each in done]
        fresh = [
            replace(offer(f"s{n}", random.choice([1, 4]), gain=40), since=now) for n in range(6)
        ]
        looks = [look("a", large), look("b", *fresh), look("c", begun=done)]
        planned = plan_fleet(found, looks, now)
        if "large" in chosen(planned):
            return
        done += [Begun(at=now, size=each.offer.size) for each in planned.chosen]
    pytest.fail("the large plan never began")
