"""Facts about reads: sums do not depend on an order, fade, stay small, and come back as written."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    IsNull,
    Not,
    Predicate,
    columns_of,
)
from airflow_provider_segtable.core.reads.read_facts import (
    MOST_CHUNKS,
    MOST_SHAPES,
    ChunkReads,
    FilterKind,
    OneRead,
    ReadCounts,
    ReadFacts,
    ReadShape,
    ReadTally,
    filters_of,
)
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.planning.read_summary import HALF_LIFE_H, MOST_HEAT, summarized

NAMES = st.sampled_from(["at", "carrier", 'odd "name"', "ä,ö"])
COUNTS = st.integers(0, 1000).map(float)
HOURS = st.integers(0, 5).map(lambda n: Interval(n * HOUR_US, (n + 1) * HOUR_US))
SECRET = "SECRET"
GOLDEN = Path(__file__).parents[1] / "golden" / "reads" / "20130101T07-0123456789abcdef.json"

shapes = st.builds(
    ReadShape,
    filters=st.lists(st.tuples(NAMES, st.sampled_from(FilterKind)), max_size=3).map(tuple),
    columns=st.lists(NAMES, max_size=3).map(tuple),
    measured=st.booleans(),
)
counts = st.builds(
    ReadCounts,
    reads=st.just(1.0),
    opened=COUNTS,
    bytes=COUNTS,
    possible=COUNTS,
    pruned=st.dictionaries(st.sampled_from(["event_times", "bloom_filter"]), COUNTS),
)
chunk_reads = st.builds(ChunkReads, reads=st.just(1.0), opened=COUNTS, wasted=COUNTS)
reads = st.builds(
    OneRead, shape=shapes, counts=counts, chunks=st.dictionaries(HOURS, chunk_reads, max_size=3)
)
leaves: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(Compares), st.just(SECRET)),
    st.builds(Among, NAMES, st.just((SECRET, 1))),
    st.builds(IsNull, NAMES),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


def tally(some: list[OneRead], at: int = 0) -> ReadFacts:
    made = ReadTally(table_id="t", start=0, end=0)
    for one in some:
        made.add(one, 2.0, at)
    return made.facts()


@given(st.lists(reads, max_size=8))
def test_facts_come_back_and_their_order_does_not_matter(some: list[OneRead]) -> None:
    """Also in two objects instead of one: the summary is the same."""
    whole = tally(some, HOUR_US)
    assert ReadFacts.decoded(whole.encoded()) == whole
    assert tally(some[::-1], HOUR_US) == whole
    halves = (tally(some[::2], HOUR_US), tally(some[1::2], HOUR_US))
    one, two = summarized([whole], HOUR_US), summarized(halves, HOUR_US)
    assert (one.reads, one.shapes, one.chunks) == (2 * len(some), two.shapes, two.chunks)


@given(predicates)
def test_no_value_of_a_condition_is_kept(predicate: Predicate) -> None:
    """Each tested column is, with the kind of its tests."""
    filters = filters_of([predicate], ["computed"])
    names = {column for column, _ in filters}
    assert names == {*columns_of(predicate), "computed"}
    shape = ReadShape(filters=filters)
    data = tally([OneRead(shape=shape, counts=ReadCounts(reads=1.0))]).encoded()
    assert SECRET.encode() not in data


@given(st.lists(reads, min_size=1, max_size=5), st.integers(0, 5))
def test_facts_fade_and_heat_is_bounded(some: list[OneRead], halvings: int) -> None:
    """Averages stay as they are; a chunk gains at most ``MOST_HEAT`` times."""
    later = int(halvings * HALF_LIFE_H * HOUR_US)
    fresh, old = summarized([tally(some)], 0), summarized([tally(some)], later)
    assert fresh.reads == old.reads == 2 * len(some)
    for shape, found in fresh.shapes.items():
        assert old.shapes[shape].faded.opened == found.faded.opened / 2**halvings
        average = found.per_read(found.faded.opened)
        assert old.shapes[shape].per_read(old.shapes[shape].faded.opened) == average
    factors = [fresh.factor(at) for at in fresh.chunks]
    assert all(1 <= factor <= MOST_HEAT for factor in factors)
    wasted = any(each.wasted for each in fresh.chunks.values())
    assert not factors or (MOST_HEAT if wasted else 1.0) == max(factors)


def test_memory_and_objects_stay_small() -> None:
    """Shapes and chunks beyond the bounds are only counted."""
    chunks = {Interval(n, n + 1): ChunkReads(reads=1.0) for n in range(MOST_CHUNKS + 5)}
    some = [
        OneRead(shape=ReadShape(columns=(str(n),)), counts=ReadCounts(reads=1.0))
        for n in range(MOST_SHAPES + 7)
    ]
    wide = OneRead(shape=some[0].shape, counts=ReadCounts(reads=1.0), chunks=chunks)
    found = tally([*some, wide])
    assert (len(found.shapes), len(found.chunks)) == (MOST_SHAPES, MOST_CHUNKS)
    assert found.unlisted == 2 * (7 + 1)
    assert len(found.encoded()) < 100_000


def test_a_golden_object_is_read_and_written() -> None:
    """The format on disk stays; a later key or format is left to later readers."""
    data = GOLDEN.read_bytes()
    found = ReadFacts.decoded(data)
    assert found is not None
    assert found.encoded() == data
    assert [shape.measured for shape in found.shapes] == [True, False]
    assert ReadFacts.decoded(data.replace(b'"unlisted"', b'"later":1,"unlisted"')) == found
    assert ReadFacts.decoded(data.replace(b'"format":1', b'"format":2')) is None
