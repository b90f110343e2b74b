"""The locks that a waiter waits for."""

from dataclasses import replace

from airflow_provider_segtable.core.locks import FencingToken, Lock, Mode
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library.lock_facts import waited_for

JANUARY, FEBRUARY = Interval(0, 100), Interval(100, 200)
CHUNK = ChunkKey(JANUARY, 7)
HELD = Lock(
    group="held",
    purpose="minor-x",
    holder="a",
    priority=25,
    segments=frozenset({CHUNK.segment(0)}),
    allocated=(),
    since=0,
    token=FencingToken("e", 1),
)
BARE = replace(HELD, segments=frozenset(), waiting=True)


def test_a_waiter_for_a_time_chunk_waits_for_locks_on_its_segments() -> None:
    """And not for those of other chunks."""
    place = replace(BARE, group="mine", mode=Mode.REPLACE, intervals=(JANUARY,))
    elsewhere = replace(place, intervals=(FEBRUARY,))
    assert waited_for(place, [HELD]) == ["held"]
    assert waited_for(elsewhere, [HELD]) == []


def test_a_waiter_waits_for_the_places_before_its_own() -> None:
    """If they contest what it asks for."""
    before = replace(BARE, group="before", intervals=(JANUARY,))
    place = replace(BARE, group="mine", segments=frozenset({CHUNK.segment(3)}))
    assert waited_for(place, [HELD, before]) == ["before"]


def test_an_append_waits_for_a_lock_on_its_time_chunk() -> None:
    """It asks for new ids there, and locks no segment."""
    place = replace(BARE, group="mine", mode=Mode.APPEND, chunks=(CHUNK,))
    exclusive = replace(BARE, group="exclusive", intervals=(JANUARY,))
    replacing = replace(exclusive, group="replacing", mode=Mode.REPLACE)
    assert waited_for(place, [exclusive, replacing]) == ["exclusive"]
