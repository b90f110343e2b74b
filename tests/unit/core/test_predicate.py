"""Predicates as data: their JSON, their columns, and the time they can reach."""

import json
from decimal import Decimal

import pytest

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.predicate import (
    EVERYWHERE,
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    columns_of,
    decode_predicate,
    encode_predicate,
    reach,
)
from airflow_provider_segtable.core.time import DAY_US

FIRST, LAST = EVERYWHERE


def at(how: Compares, us: int) -> Compare:
    return Compare("at", how, Moment(us))


WHOLE = AnyOf(
    (
        AllOf((at(Compares.MORE, 5), Not(IsNull("a")))),
        Among("b", (None, True, 1, 1.5, "x", Decimal("1.50"), Day(3))),
        AllOf(()),
        Compare("a", Compares.UNEQUAL, False),
    )
)


def test_a_predicate_survives_its_json() -> None:
    """Every kind of test and of value comes back from JSON as it was."""
    assert decode_predicate(json.loads(json.dumps(encode_predicate(WHOLE)))) == WHOLE


def test_columns_are_named_in_order() -> None:
    """The columns are yielded as they occur, repeated where they are."""
    assert list(columns_of(WHOLE)) == ["at", "a", "b", "a"]


@pytest.mark.parametrize("body", [[], ["like", "a", "b"], ["=", "a", {"odd": 1}], ["in", "a"]])
def test_what_is_no_predicate_is_corrupt(body: list[object]) -> None:
    """JSON of another form is a corrupt table, not a guess."""
    with pytest.raises(CorruptTable, match="predicate"):
        decode_predicate(body)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (at(Compares.EQUAL, 5), (5, 5)),
        (at(Compares.LESS, 5), (FIRST, 5)),
        (at(Compares.AT_LEAST, 5), (5, LAST)),
        (at(Compares.UNEQUAL, 5), EVERYWHERE),
        (Compare("at", Compares.EQUAL, Day(1)), (DAY_US, DAY_US)),
        (Compare("at", Compares.EQUAL, None), EVERYWHERE),
        (Compare("other", Compares.EQUAL, Moment(5)), EVERYWHERE),
        (Among("at", (Moment(9), None, Moment(5))), (5, 9)),
        (AllOf((at(Compares.MORE, 5), at(Compares.LESS, 9), IsNull("a"))), (5, 9)),
        (AnyOf((at(Compares.EQUAL, 5), at(Compares.EQUAL, 9))), (5, 9)),
        (AnyOf((at(Compares.EQUAL, 5), IsNull("a"))), EVERYWHERE),
        (Not(at(Compares.EQUAL, 5)), EVERYWHERE),
        (AllOf(()), EVERYWHERE),
    ],
)
def test_reach_is_the_time_it_can_hold(predicate: Predicate, expected: tuple[int, int]) -> None:
    """Bounds on the time column are found through AND and OR, and given up elsewhere."""
    assert reach(predicate, "at") == expected


@pytest.mark.parametrize(
    "predicate", [AnyOf(()), AllOf((at(Compares.LESS, 5), at(Compares.MORE, 9))), Among("at", ())]
)
def test_what_never_holds_reaches_nowhere(predicate: Predicate) -> None:
    """A predicate that holds for no time ends before it begins."""
    first, last = reach(predicate, "at")
    assert first > last
