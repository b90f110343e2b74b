"""The lake: one load at once, the last known answer of a slow store, bounded memory."""

import asyncio
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import NotATable, StorageError
from airflow_provider_segtable.core.log.log_paths import EXPIRED, event_path
from airflow_provider_segtable.page.answer import Answer, Unanswered, about_bytes
from airflow_provider_segtable.page.lake import Limits, Seen
from airflow_provider_segtable.page.table_states import STATE_BYTES
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from tests.support.shown_lake import ShownLake

BRIEF = Limits(limit_s=0.05)


def version_of(seen: Seen) -> int:
    return seen.state.n


def asked(made: ShownLake, name: str = "events") -> Answer[int]:
    return asyncio.run(made.lake.answer(name, version_of))


def test_an_answer_has_the_newest_version_and_its_time() -> None:
    """A new event is seen by the next question."""
    made = ShownLake("events")
    before = asked(made)
    made.append("events", 2)
    after = asked(made)
    assert (before.version, before.data) == (0, 0)
    assert (after.version, after.data, after.late, after.age_seconds) == (2, 2, "", 0.0)


def test_an_answer_is_given_again_while_it_is_fresh() -> None:
    """Within a second, equal questions cost no request at all."""
    made = ShownLake("events")
    asked(made)
    made.store.requests.clear()
    asked(made)
    assert not made.store.requests


def test_an_unchanged_table_is_asked_for_its_next_event() -> None:
    """After a second, a question costs two requests: this one, and one for markers of expiry."""
    made = ShownLake("events")
    asked(made)
    made.store.requests.clear()
    made.clock.advance(2)
    asked(made)
    assert dict(made.store.requests) == {f"read {event_path(1)}": 1, f"list {EXPIRED}": 1}


def test_a_hundred_readers_share_one_load() -> None:
    """Questions that come while a table is loaded wait for that load."""
    made = ShownLake("events")

    async def readers() -> list[Answer[int]]:
        made.store.gate.clear()
        waiting = [asyncio.create_task(made.lake.answer("events", version_of)) for _ in range(100)]
        await asyncio.to_thread(made.store.waiting.acquire)
        made.store.gate.set()
        return await asyncio.gather(*waiting)

    answers = asyncio.run(readers())
    assert {each.data for each in answers} == {0}
    assert max(made.store.requests.values()) == 1


def test_different_questions_share_one_load() -> None:
    """Two views of a table that is not known yet load it once."""
    made = ShownLake("events")

    def rows_of(seen: Seen, *, twice: bool) -> int:
        return seen.state.n * (1 + twice)

    async def both() -> None:
        await asyncio.gather(
            made.lake.answer("events", version_of),
            made.lake.answer("events", rows_of, twice=True),
            made.lake.answer("events", rows_of, twice=False),
        )

    asyncio.run(both())
    assert max(made.store.requests.values()) == 1


def test_a_store_that_hangs_gets_the_last_known_answer() -> None:
    """The answer has its age, and the reason; no credential is in it."""
    made = ShownLake("events", limits=BRIEF)
    asked(made)
    made.store.gate.clear()
    made.clock.advance(90)
    late = asked(made)
    made.store.gate.set()
    assert (late.data, late.age_seconds) == (0, 90.0)
    assert late.late == "memory://lake has not answered within 0.05 s"


def test_nothing_is_known_of_a_table_while_its_store_hangs() -> None:
    """A first question fails after the limit, and the run goes on: a later one has its answer."""
    made = ShownLake("events", limits=BRIEF)
    made.store.gate.clear()
    with pytest.raises(Unanswered, match="not answered within"):
        asked(made)
    made.store.gate.set()
    assert asked(made).data == 0


def test_a_store_that_fails_gets_the_last_known_answer() -> None:
    """The reason is the store's, without its credentials."""
    made = ShownLake("events")
    asked(made)
    made.clock.advance(5)
    made.store.fault = "403 for key-of-the-store"
    assert asked(made).late == "403 for ***"


def test_a_fault_of_the_first_question_is_its_error() -> None:
    """Without a last answer the store's own error is raised."""
    made = ShownLake("events")
    made.store.fault = "no route"
    with pytest.raises(StorageError, match="no route"):
        asked(made)


def test_more_questions_than_may_wait_are_refused() -> None:
    """A hanging store keeps a bounded number of questions."""
    made = ShownLake(*(f"t{n}" for n in range(6)), limits=replace(BRIEF, threads=2, most_waiting=2))
    made.store.gate.clear()

    async def many() -> list[BaseException | Answer[int]]:
        questions = (made.lake.answer(f"t{n}", version_of) for n in range(6))
        return await asyncio.gather(*questions, return_exceptions=True)

    outcomes = asyncio.run(many())
    made.store.gate.set()
    assert all(isinstance(each, Unanswered) for each in outcomes)
    assert sum("requests wait" in str(each) for each in outcomes) >= 2


def test_states_are_kept_within_their_bytes() -> None:
    """The table that was used longest ago is forgotten, and loaded again when it is asked for."""
    made = ShownLake("a", "b", limits=Limits(state_bytes=STATE_BYTES))
    asked(made, "a")
    asked(made, "b")
    assert made.lake.states.names() == ("b",)
    made.clock.advance(2)
    assert asked(made, "a").data == 0


def test_answers_are_kept_within_their_bytes() -> None:
    """Those that were made last are kept; one is, whatever its size."""
    made = ShownLake("events", limits=Limits(answer_bytes=100_000))

    def text_of(seen: Seen, *, size: int) -> str:
        return "x" * size + str(seen.state.n)

    for size in (40_000, 40_001, 40_002, 200_000):
        asyncio.run(made.lake.answer("events", text_of, size=size))
        kept = [len(each.data) for each in made.lake._answers.values()]
        assert sum(kept) <= 100_000 or len(kept) == 1
    assert kept == [200_001]


def test_the_size_of_an_answer_is_about_right() -> None:
    """Entries of a list count as the first one does."""
    one = Answer[list[str]](version=1, as_of="", age_seconds=0.0, data=["abc"])
    many = one.model_copy(update={"data": ["abc"] * 1000})
    assert about_bytes(many) - about_bytes(one) == 999 * about_bytes("abc")
    assert about_bytes({"a": 1}) < about_bytes({"a": 1, "b": 2})


@pytest.mark.parametrize(
    "name", ["../events", "a/../../b", "/etc", "s3://other/events", "events/_segtable", "a\\b"]
)
def test_a_name_that_leads_out_of_the_root_is_no_table(name: str) -> None:
    """Only tables below the root, and those that the fleet file names, are opened."""
    made = ShownLake("events")
    with pytest.raises(NotATable, match="there is no table"):
        asked(made, name)
    assert not made.store.requests


def test_a_changed_fleet_file_keeps_what_is_known_of_its_tables() -> None:
    """The sources are read again after a while; the session of the old ones goes on."""
    made = ShownLake("events")
    asked(made)
    other = read_fleet('[fleet]\nname = "new"\n[groups.all]\ntables = ["**"]', "fleet.toml")
    first = made.source
    made.source = replace(first, fleet=other, opening=None)  # type: ignore[arg-type]
    made.clock.advance(61)
    asyncio.run(made.lake.sources())
    eventually_read(made)
    made.clock.advance(2)
    assert asked(made).data == 0
    (source,) = asyncio.run(made.lake.sources())
    assert (source.fleet.name, source.opening) == ("new", first.opening)


def test_another_place_forgets_what_was_known() -> None:
    """Names mean other tables there, and the old session is ended."""
    made, there, ended = ShownLake("events"), ShownLake("events"), list[str]()
    made.append("events", 3)
    made.source = replace(made.source, close=lambda: ended.append("first"))
    assert asked(made).data == 3
    made.source = replace(there.source, place="there")
    made.clock.advance(61)
    asyncio.run(made.lake.sources())
    eventually_read(made)
    assert asked(made).data == 0
    assert ended == ["first"]


def eventually_read(made: ShownLake) -> None:
    """Wait until the sources are read again."""
    if made.lake._reading is not None:
        made.lake._reading.result(timeout=10)
