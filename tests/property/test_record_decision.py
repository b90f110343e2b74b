"""Corrections of random records against an oracle that knows no time chunks.

Records of a few keys have few ordering values and instants, so that all kinds of ties occur.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.record_index import (
    DELETED,
    INSTANT,
    LOG_VERSION,
    ORDERING,
    TOKEN,
)
from airflow_provider_segtable.core.time import DAY_US, Granularity, Layout
from airflow_provider_segtable.data.indexes.records import (
    Decision,
    below,
    correction_orders,
    decided,
    places_of,
)
from tests.examples import examples

Fact = dict[str, Any]
DAYS = 6
SCHEMA = pa.schema(
    [
        (START, pa.timestamp("us", "UTC")),
        ("key_0", pa.int64()),
        (ORDERING, pa.float64()),
        (INSTANT, pa.int64()),
        (LOG_VERSION, pa.int32()),
        (TOKEN, pa.string()),
        (DELETED, pa.bool_()),
    ]
)
ORDERINGS = st.sampled_from([None, 0.0, 1.5, 2.0, float("nan")])


@st.composite
def records(draw: st.DrawFn, most: int = 14) -> list[Fact]:
    """Return records: at most one of a key has a token, as a file has one record a key."""
    numbers = st.integers(0, 3)
    tokens = draw(st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=most, unique=True))
    return [
        {
            START: draw(st.integers(0, DAYS - 1)) * DAY_US,
            "key_0": draw(st.integers(0, 2)),
            ORDERING: draw(ORDERINGS),
            INSTANT: draw(numbers) + 10,
            LOG_VERSION: draw(st.integers(0, 1)),
            TOKEN: f"{token:016x}",
            DELETED: draw(st.booleans()),
        }
        for token in tokens
    ]


def some_of(count: int) -> st.SearchStrategy[set[int]]:
    """Return some of the first numbers."""
    return st.sets(st.integers(0, count - 1))


def rank(fact: Fact) -> tuple[Any, ...]:
    """Return the order of a record: null lowest, NaN highest."""
    value = fact[ORDERING]
    kind = 0 if value is None else 2 if value != value else 1  # noqa: PLR0124  # NaN
    return kind, value if kind == 1 else 0, fact[INSTANT], fact[LOG_VERSION], fact[TOKEN]


def shown(facts: list[Fact], days: int) -> dict[int, list[Fact]]:
    """Return the rows of each key, if a time chunk has so many days."""
    tops: dict[tuple[int, int], Fact] = {}
    for fact in sorted(facts, key=rank):
        tops[fact["key_0"], fact[START] // (days * DAY_US)] = fact
    found: dict[int, list[Fact]] = {}
    for (key, _), fact in tops.items():
        if not fact[DELETED]:
            found.setdefault(key, []).append(fact)
    return found


def corrected(facts: list[Fact], ordering: bool) -> list[Fact]:  # noqa: FBT001
    """Return the corrections of records that were decided by the day."""
    known = pa.Table.from_pylist(facts, SCHEMA)
    known = known if ordering else known.drop_columns([ORDERING])
    places, _ = places_of(known, Layout(granularity=Granularity.DAY))
    return corrections(facts, decided(known, places, ["key_0"]), known)


def corrections(facts: list[Fact], decision: Decision, known: pa.Table | None = None) -> list[Fact]:
    """Return the corrections of a decision."""
    known = pa.Table.from_pylist(facts, SCHEMA) if known is None else known
    orders = correction_orders(known, decision)
    return [
        {
            **facts[loser],
            DELETED: True,
            ORDERING: facts[winner][ORDERING],
            INSTANT: int(orders.instants[at]),
            LOG_VERSION: int(orders.versions[at]),
            TOKEN: orders.tokens[at] + f"{at:016x}",
        }
        for at, (loser, winner) in enumerate(
            zip(decision.losers.tolist(), decision.over.tolist(), strict=True)
        )
    ]


@examples(300)
@given(facts=records(), ordering=st.booleans())
def test_corrected_records_are_those_of_one_chunk(facts: list[Fact], ordering: bool) -> None:  # noqa: FBT001
    """Each key has the row that it had without time chunks, whichever chunks are joined later."""
    if not ordering:
        facts = [{**fact, ORDERING: None} for fact in facts]
    expected = shown(facts, DAYS)
    after = [*facts, *corrected(facts, ordering)]
    for days in range(1, DAYS + 1):
        assert shown(after, days) == expected
    assert corrected(after, ordering) == []


@examples(100)
@given(facts=records())
def test_few_instants_are_taken(facts: list[Fact]) -> None:
    """One writer's corrections of older records have its instant, so they share their files."""
    old = [{**fact, DELETED: False} for fact in facts]
    new = [
        {
            **old[0],
            "key_0": key,
            START: 9 * DAY_US,
            INSTANT: 99,
            ORDERING: 2.5,
            TOKEN: f"{key:016x}",
        }
        for key in range(3)
    ]
    some = [fact for fact in old if rank(fact) < rank(new[0])]
    made = corrected([*some, *new], ordering=True)
    assert {each[INSTANT] for each in made} <= {99}


@examples(600)
@given(facts=records(6), gone=some_of(6), new=some_of(2))
def test_entries_that_outlived_their_records_hide_no_loser(
    facts: list[Fact], gone: set[int], new: set[int]
) -> None:
    """Each key either has one row after the corrections below a new record, or is looked at."""
    facts = [{**fact, "key_0": 0, START: fact[START] % (2 * DAY_US)} for fact in facts]
    sure = [at in new - gone for at in range(len(facts))]
    there = [fact for at, fact in enumerate(facts) if at not in gone]
    known = pa.Table.from_pylist(facts, SCHEMA)
    places, _ = places_of(known, Layout(granularity=Granularity.DAY))
    decision = decided(known, places, ["key_0"], np.asarray(sure))
    over = [winner for winner in decision.over.tolist() if not sure[winner]]
    looked_at = {facts[winner]["key_0"] for winner in over}
    left = [fact for fact in there if fact["key_0"] not in looked_at]
    made = [fact for fact in corrections(facts, decision) if fact["key_0"] not in looked_at]
    assert shown([*left, *made], 1) == shown(left, DAYS)


@examples(200)
@given(facts=records(), unsure=st.booleans())
def test_tops_are_the_highest_of_each_key_and_place(facts: list[Fact], unsure: bool) -> None:  # noqa: FBT001
    """Whether entries are sure or not, and whether they are live."""
    known = pa.Table.from_pylist(facts, SCHEMA)
    places, _ = places_of(known, Layout(granularity=Granularity.DAY))
    sure = np.arange(len(facts)) % 2 == 0 if unsure else None
    highest: dict[tuple[int, int], int] = {}
    for at in sorted(range(len(facts)), key=lambda at: rank(facts[at])):
        highest[facts[at]["key_0"], facts[at][START]] = at
    found = decided(known, places, ["key_0"], sure).tops.tolist()
    assert sorted(found) == sorted(highest.values())


def test_texts_next_below_a_token() -> None:
    """They are higher than all tokens that are lower, and of any length."""
    for token in ("0000000000000001", "00f0", "8000000000000000", "ab" * 16):
        start = below(token)
        lower = f"{int(token, 16) - 1:0{len(token)}x}"
        assert lower < start + "0" < token
    assert below("10") == "0f"
