"""Which service has which bucket, from any state of claims."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log_store.assignment import assign
from tests.examples import examples

names = st.sampled_from("abcde")
services = st.sets(names, min_size=1)
counts = st.integers(0, 12)


def loads(assigned: dict[int, str], live: set[str]) -> list[int]:
    """Return how many buckets each live service has."""
    return [list(assigned.values()).count(name) for name in sorted(live)]


@st.composite
def settled(draw: st.DrawFn) -> tuple[range, set[str], dict[int, str]]:
    """Draw buckets that live services share evenly."""
    buckets, live = range(draw(counts)), draw(services)
    return buckets, live, assign("t", buckets, live, {})


@examples(100)
@given(counts, services, st.dictionaries(st.integers(0, 14), names))
def test_every_bucket_has_a_live_service_and_shares_are_even(
    count: int, live: set[str], held: dict[int, str]
) -> None:
    """Whatever was held before; shares differ by one at most, and no bucket moves without need."""
    assigned = assign("t", range(count), live, held)
    assert assigned.keys() == set(range(count))
    assert set(assigned.values()) <= live
    assert max(loads(assigned, live)) - min(loads(assigned, live)) <= 1
    kept = sum(held.get(bucket) == name for bucket, name in assigned.items())
    fit = [sum(held.get(b) == name for b in range(count)) for name in live]
    assert kept >= sum(min(each, count // len(live)) for each in fit)


@examples(100)
@given(settled(), names)
def test_only_the_share_of_a_service_that_comes_moves(
    now: tuple[range, set[str], dict[int, str]], new: str
) -> None:
    """All moves are to it, at most its share; nothing moves if nobody comes."""
    buckets, live, held = now
    assert assign("t", buckets, live, held) == held
    moved = assign("t", buckets, live | {new}, held)
    moves = [name for bucket, name in moved.items() if held[bucket] != name]
    assert set(moves) <= {new} - live
    assert len(moves) <= -(-len(buckets) // len(live | {new}))


@examples(100)
@given(settled(), st.data())
def test_only_the_buckets_of_a_service_that_goes_move(
    now: tuple[range, set[str], dict[int, str]], data: st.DataObject
) -> None:
    """The others stay where they are."""
    buckets, live, held = now
    gone = data.draw(st.sampled_from(sorted(live)))
    left = assign("t", buckets, live - {gone}, held)
    stay = {bucket: name for bucket, name in held.items() if name != gone}
    assert len(live) == 1 or {b: left[b] for b in stay} == stay


@examples(60)
@given(counts, services, st.dictionaries(st.integers(0, 11), names), st.randoms())
def test_services_with_views_of_different_times_come_to_rest(
    count: int, live: set[str], held: dict[int, str], chance: "st.Random"
) -> None:
    """Each acts alone, on what it saw some time ago; claims are exclusive. Then nothing moves."""
    buckets, seen = range(count), {key: dict(held) for key in sorted(live)}
    claims = {b: name for b, name in held.items() if name in live and b < count}
    for _ in range(60):
        name = chance.choice(sorted(live))
        for bucket, wanted in assign("t", buckets, live, seen[name]).items():
            if wanted == name:
                claims.setdefault(bucket, name)
            elif claims.get(bucket) == name:
                del claims[bucket]
        seen[chance.choice(sorted(live))] = dict(claims)
    for name in 3 * sorted(live):
        target = assign("t", buckets, live, claims)
        claims = {b: n for b, n in claims.items() if n != name or target[b] == name}
        claims |= {b: n for b, n in target.items() if n == name and b not in claims}
    assert claims == assign("t", buckets, live, claims)
    assert claims.keys() == set(buckets)


def test_single_buckets_of_many_tables_spread() -> None:
    """Tables of one bucket do not all go to the same service."""
    taken = [assign(f"table-{n}", [0], ["a", "b"], {})[0] for n in range(40)]
    assert 10 <= taken.count("a") <= 30
