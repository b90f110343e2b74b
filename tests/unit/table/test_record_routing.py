"""Routing by an index of records: one row for each key in the whole table."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services import indexing
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.indexes import feeding, index_entries, routing
from airflow_provider_segtable.table.indexes.feeding import Feeder
from airflow_provider_segtable.table.indexes.index_entries import index_ports, write_feed
from tests.unit.table.interleaving import Killed, Overtaken, before_event, die
from tests.unit.table.keyed_indexed import (
    DELETED,
    KEYS,
    facts,
    new_table,
    read,
    rows,
    unique,
    upsert,
    writer,
)

pytestmark = pytest.mark.usefixtures("memory_zookeeper")


def test_a_key_moves_to_the_time_chunk_of_its_newest_record(tmp_path: Path) -> None:
    """In one event, which leaves one fact of the key; other keys stay where they are."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 1})
    n = upsert(table, {"key": 1, "day": 3, "seq": 2})
    assert read(table) == [(1, 3, 2), (2, 0, 1)]
    assert facts(table) == [(1, 3), (2, 0)]
    assert n == 3
    assert read(Table(table.ports)) == read(table)
    assert not list(violations(table.state()))


def test_a_late_record_in_another_time_chunk_loses(tmp_path: Path) -> None:
    """As it would in the same one; its own tombstone comes in its own event."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "day": 3, "seq": 5})
    upsert(table, {"key": 1, "day": 4, "seq": 4})
    upsert(table, {"key": 1, "day": 3, "seq": 3})
    assert read(table) == [(1, 3, 5)]


def test_a_delete_reaches_the_row_wherever_it_is(tmp_path: Path) -> None:
    """A late upsert elsewhere loses against it; a newer one wins."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "day": 3, "seq": 5})
    upsert(table, {"key": 1, "day": 0, "seq": 6, DELETED: True})
    assert read(table) == []
    upsert(table, {"key": 1, "day": 7, "seq": 5})
    assert read(table) == []
    upsert(table, {"key": 1, "day": 7, "seq": 7})
    assert read(table) == [(1, 7, 7)]


def test_of_equal_keys_in_one_write_the_later_row_wins(tmp_path: Path) -> None:
    """Also in different time chunks, and without an ordering column."""
    for ordering in ("", "seq"):
        for seed in range(4):
            table = new_table(tmp_path / f"{ordering}{seed}", ordering=ordering)
            given = [{"key": 1, "day": day, "v": day} for day in (2, 5, 1)]
            upsert(table, *given)
            assert read(table) == [(1, 1, 1)]


@pytest.mark.parametrize("granularity", ["month", "hour"])
def test_a_compaction_to_other_time_chunks_keeps_the_winners(
    tmp_path: Path, granularity: str
) -> None:
    """Winners and corrections meet in one chunk, or part; equal ordering values do not matter."""
    table = new_table(tmp_path)
    upsert(table, *({"key": key, "day": 0, "seq": 1, "v": 0} for key in range(4)))
    upsert(table, *({"key": key, "day": key, "seq": 1, "v": 1} for key in range(3)))
    upsert(table, {"key": 0, "day": 5, "seq": 0, "v": 2}, {"key": 1, "day": 6, "seq": 2, "v": 2})
    expected = [(0, 0, 1), (1, 6, 2), (2, 2, 1), (3, 0, 0)]
    assert read(table) == expected
    table.compact(kind="major", granularity=granularity)
    assert read(table) == expected
    upsert(table, *({"key": key, "day": 9, "seq": 3} for key in range(4)))
    assert read(table) == [(key, 9, 3) for key in range(4)]
    table.compact(kind="major", granularity="year")
    assert read(table) == [(key, 9, 3) for key in range(4)]


def test_a_key_that_moved_within_a_chunk_has_one_row_after_that_chunk_is_divided(
    tmp_path: Path,
) -> None:
    """Its earlier record is in the same month, so no correction hides it once days are apart."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "day": 0, "seq": 1})
    table.compact(kind="major", granularity="month")
    upsert(table, {"key": 1, "day": 1, "seq": 2})
    assert read(table) == [(1, 1, 2)]
    table.compact(kind="major", granularity="day")
    assert read(table) == [(1, 1, 2)]


def test_weeks_that_become_months_keep_the_winners(tmp_path: Path) -> None:
    """A week may lie in two months: what readers did not see in it is in neither."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "day": 27, "seq": 1}, {"key": 2, "day": 27, "seq": 1})
    table.compact(kind="major", granularity="week")
    upsert(table, {"key": 1, "day": 32, "seq": 2}, {"key": 2, "day": 33, "seq": 0})
    upsert(table, {"key": 2, "day": 26, "seq": 2})
    expected = read(table)
    assert unique(expected)
    table.compact(kind="major", granularity="month")
    assert read(table) == expected
    assert codes(table) == []


def test_a_division_shows_what_readers_saw_without_an_index(tmp_path: Path) -> None:
    """A key that has one row in a month has that one row by the day, whatever was below it."""
    table = new_table(tmp_path, index=False)
    upsert(table, {"key": 1, "day": 0, "seq": 1}, {"key": 2, "day": 0, "seq": 1}, {"key": 3})
    table.compact(kind="major", granularity="month")
    upsert(table, {"key": 1, "day": 1, "seq": 2}, {"key": 2, "day": 4, "seq": 2, DELETED: True})
    before = read(table)
    assert before == [(1, 1, 2), (3, 0, 0)]
    table.compact(kind="major", granularity="day")
    assert read(table) == before


LATE = (
    (
        {"key": 1, "day": 7, "seq": 4},
        {"key": 2, "day": 7, "seq": 2},
        {"key": 3, "day": 7, "seq": 4, DELETED: True},
        {"key": 4, "day": 8, "seq": 1, DELETED: True},
    ),
    ({"key": 1, "day": 1, "seq": 4}, {"key": 5, "day": 9, "seq": 3}, {"key": 9, "day": 9}),
)
"""Two writes that come late: they win, lose, delete, delete in vain, win again, and are new."""


@pytest.mark.parametrize("granularity", ["day", "week"])
def test_what_comes_beside_a_division_keeps_one_row_a_key(tmp_path: Path, granularity: str) -> None:
    """Each write comes right before the event of the compaction, and in the old time chunks."""
    table = new_table(tmp_path)
    upsert(table, *({"key": key, "day": key, "seq": 2} for key in range(1, 6)))
    upsert(table, {"key": 5, "day": 40, "seq": 1})
    table.compact(kind="major", granularity="month")
    upsert(table, *({"key": key, "day": key + 1, "seq": 3} for key in range(1, 4)))
    deeds = [partial(upsert, writer(table, 7 + at), *late) for at, late in enumerate(LATE)]
    ports = before_event(table.ports, deeds[0], word="PlanCompleted")
    assert isinstance(ports.storage, Overtaken)
    ports.storage.deeds[:0] = deeds[:0:-1]
    Table(ports).compact(kind="major", granularity=granularity)
    assert not ports.storage.deeds
    expected = oracle()
    assert read(table) == expected
    assert table.index(KEYS).current
    assert codes(table) == []
    Table(ports).compact(kind="semi-major")
    assert read(table) == expected
    assert not list(violations(table.state()))
    upsert(table, *({"key": key, "day": 20, "seq": 9} for key in range(1, 6)))
    assert unique(read(table))


def oracle() -> list[tuple[int, int, int]]:
    """Return the rows of the highest records, the later ones of equal orders."""
    top: dict[int, Mapping[str, Any]] = {key: {"day": key, "seq": 2} for key in range(1, 6)}
    top |= {key: {"day": key + 1, "seq": 3} for key in range(1, 4)}
    for row in (row for late in LATE for row in late):
        if row.get("seq", 0) >= top.get(row["key"], {"seq": -1})["seq"]:
            top[row["key"]] = row
    return sorted(
        (key, row["day"], row.get("seq", 0)) for key, row in top.items() if not row.get(DELETED)
    )


def test_updates_and_deletes_by_a_condition_are_routed(tmp_path: Path) -> None:
    """They write a record in the place that they read, which may be a place of before."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 1})
    seen = writer(table, 7)
    late = before_event(table.ports, lambda: upsert(seen, {"key": 1, "day": 3, "seq": 1, "v": 8}))
    Table(late).update({"v": 9}, "key = 1")
    assert unique(read(table))
    table.delete("key = 1")
    assert read(table) == [(2, 0, 1)]


def race(table: Table, *writes: Callable[[Table], object]) -> None:
    """Let each write overtake the one before it, right before its event."""
    first, *others = writes

    def deed() -> None:
        if others:
            race(table, *others)

    ports = writer(table, 100 + len(writes)).ports
    first(Table(before_event(ports, deed, word="Appended")))


def known_files(table: Table, name: str) -> bool:
    """Return whether an index has entries about all visible files; it says that it is current."""
    assert table.index(name).current
    visible = {segment.path for segment in table.state().timeline.each_visible() if segment.path}
    return visible <= {*table.index_entries(name)["file"].to_pylist()}


@pytest.mark.parametrize("most_inline", [0, 8192])
def test_other_indexes_know_corrections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_inline: int
) -> None:
    """Of a key that moves, of writers that race for it, and of a run that corrects it."""
    monkeypatch.setattr(index_entries, "MOST_INLINE", most_inline)
    table = new_table(tmp_path, index=False)
    table.create_index("listing", "files")
    upsert(table, {"key": 2, "seq": 1}, {"key": 3, "seq": 1})
    upsert(table, {"key": 2, "day": 1, "seq": 2})
    table.create_index(KEYS, "record_index")
    assert table.run_index(KEYS).settled == 1
    upsert(table, {"key": 3, "day": 3, "seq": 2})
    assert known_files(table, "listing")
    race(table, *(partial(_upserted, {"key": 3, "day": day, "seq": day}) for day in (7, 5, 6)))
    assert read(table) == [(2, 1, 2), (3, 7, 7)]
    assert known_files(table, "listing")
    assert codes(table) == []
    own = index_ports(table.ports, table.index("listing").definition)
    named = {s.path for _, feed in table.index("listing").feeds for s in feed.segments}
    copied = {*own.log.load().timeline.paths()}
    assert {entry.path for entry in own.storage.list("data")} == named | copied


def test_a_feed_about_a_part_of_the_files_leaves_the_index_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Current means that every file is covered, not that the event brought something."""
    table = new_table(tmp_path)
    table.create_index("listing", "files")
    right = Feeder.prepare

    def forgetful(feeder: Feeder, state: State, files: Sequence[Segment]) -> None:
        right(feeder, state, files[:1])

    with monkeypatch.context() as patch:
        patch.setattr(Feeder, "prepare", forgetful)
        patch.setattr(Feeder, "ready", lambda *_: True)
        upsert(table, {"key": 1, "seq": 1}, {"key": 1, "day": 2, "seq": 3}, {"key": 2, "seq": 2})
    assert not table.index("listing").current
    assert table.index(KEYS).current
    assert table.run_index("listing").left == 0
    assert known_files(table, "listing")


@pytest.mark.parametrize("ordering", ["", "seq"])
def test_writers_that_race_leave_one_row(tmp_path: Path, ordering: str) -> None:
    """Two or three, with one key in different chunks, in every order of their events."""
    table = new_table(tmp_path, ordering=ordering)
    orders = ((1, 2), (2, 1), (1, 2, 3), (3, 1, 2), (2, 3, 1))
    upsert(table, *({"key": key, "day": 9, "seq": -1} for key in (1, 3, 4)))
    for key, days in enumerate(orders):
        given = ({"key": key, "day": day, "seq": day} for day in days)
        race(table, *(partial(_upserted, row) for row in given))
    found = read(table)
    assert [row[0] for row in found] == [*range(len(orders))]
    if ordering:
        assert found == [(key, max(days), max(days)) for key, days in enumerate(orders)]
    assert {key for key, _ in facts(table)} == {*range(len(orders))}


def _upserted(row: Mapping[str, object], table: Table) -> None:
    upsert(table, row)


def test_a_writer_that_dies_leaves_orphans_alone(tmp_path: Path) -> None:
    """Its corrections are in no event, so nothing was corrected."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1})
    with pytest.raises(Killed):
        upsert(
            Table(before_event(table.ports, die, word="Appended")), {"key": 1, "day": 3, "seq": 2}
        )
    assert read(table) == [(1, 0, 1)]


def test_a_run_corrects_keys_that_were_there_before(tmp_path: Path) -> None:
    """Keys with several rows get one, in one event a batch; a second run has nothing to correct."""
    table = new_table(tmp_path, index=False)
    for day in range(4):
        upsert(table, *({"key": key, "day": day, "seq": 9 - (day - key) ** 2} for key in range(4)))
    upsert(table, {"key": 3, "day": 8, "seq": 10, DELETED: True})
    assert not unique(read(table))
    table.create_index(KEYS, "record_index")
    done = table.run_index(KEYS)
    assert (done.left, done.settled) == (0, 3 + 3 + 3 + 4)
    assert read(table) == [(0, 0, 9), (1, 1, 9), (2, 2, 9)]
    assert facts(table) == [(0, 0), (1, 1), (2, 2), (3, 8)]
    assert table.run_index(KEYS).settled == 0
    table.rebuild_index(KEYS)
    assert table.run_index(KEYS).settled == 0
    assert read(table) == [(0, 0, 9), (1, 1, 9), (2, 2, 9)]


def test_keys_are_corrected_after_a_plan_that_was_aborted_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that is aborted between its entries and the keys is not current before a run."""
    table = new_table(tmp_path, index=False)
    for day in range(2):
        upsert(table, {"key": 1, "day": day, "seq": day})
    table.create_index(KEYS, "record_index")
    with monkeypatch.context() as planted:
        planted.setattr(indexing, "correct_keys", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            table.run_index(KEYS)
    (known,) = table.ports.log.load().pending_plans()
    aborted = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason="gave up")
    commit_or_raise(table.ports, table.ports.log.load(), Change(action=aborted, commit_id="abort"))
    assert not table.index(KEYS).current
    assert not unique(read(table))
    assert table.run_index(KEYS).settled == 1
    assert table.index(KEYS).current
    assert read(table) == [(1, 1, 1)]


@pytest.mark.parametrize("bound", ["MOST_FEED_BYTES", "MOST_WAITING"])
def test_a_load_that_was_not_routed_is_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """A write that is large, or comes when many feeds wait, commits; the next run corrects it."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 5})
    with monkeypatch.context() as patch:
        patch.setattr(feeding, bound, 0)
        upsert(table, {"key": 1, "day": 3, "seq": 2}, {"key": 2, "day": 3, "seq": 4})
    assert not table.index(KEYS).current
    assert read(table) == [(1, 0, 1), (1, 3, 2), (2, 0, 5), (2, 3, 4)]
    assert table.run_index(KEYS).settled == 2
    assert read(table) == [(1, 3, 2), (2, 0, 5)]


def test_a_restore_takes_corrections_back_with_the_winner(tmp_path: Path) -> None:
    """What is known of it after that is no reason to correct a new record."""
    table = new_table(tmp_path)
    n = upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 1})
    upsert(table, {"key": 1, "day": 3, "seq": 9}, {"key": 3, "day": 3, "seq": 9})
    table.restore(version=n)
    assert read(table) == [(1, 0, 1), (2, 0, 1)]
    upsert(table, {"key": 1, "day": 5, "seq": 2}, {"key": 3, "day": 5, "seq": 2})
    table.run_index(KEYS)
    assert read(table) == [(1, 5, 2), (2, 0, 1), (3, 5, 2)]
    upsert(table, {"key": 3, "day": 6, "seq": 3})
    assert read(table) == [(1, 5, 2), (2, 0, 1), (3, 6, 3)]


@pytest.mark.parametrize("again", [False, True])
def test_a_row_below_an_entry_that_a_restore_outlived_is_corrected(
    tmp_path: Path,
    again: bool,  # noqa: FBT001
) -> None:
    """The entry is of a record that was taken back, so it hides nothing."""
    made = new_table(tmp_path, ordering="seq", index=False)
    version = upsert(made, {"key": 1, "day": 0, "seq": 1})
    if again:
        version = upsert(made, {"key": 1, "day": 1, "seq": 5, DELETED: True})
    made.create_index(KEYS, "record_index")
    made.run_index(KEYS)
    upsert(made, {"key": 1, "day": 0, "seq": 9, DELETED: True})
    made.restore(version=version)
    made.run_index(KEYS)
    assert read(made) == ([] if again else [(1, 0, 1)])
    upsert(made, {"key": 1, "day": 2, "seq": 7})
    assert read(made) == [(1, 2, 7)]


def test_an_index_that_cannot_be_read_keeps_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is not routed, and the index lacks it."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1})

    def lost(*_: object) -> None:
        raise NotFound("a file of the index is gone")

    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_segtable.table.indexes.routing.entries_of_keys", lost)
        upsert(table, {"key": 1, "day": 3, "seq": 2})
    assert not table.index(KEYS).current
    assert len(read(table)) == 2
    table.run_index(KEYS)
    assert read(table) == [(1, 3, 2)]
    assert rows().num_rows == 0


def codes(table: Table) -> list[str]:
    """Return what a deep verification finds."""
    return [each.code for each in table.verify(deep=True).findings]


def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no run corrected, and records without facts; nothing in a sound table."""
    table = new_table(tmp_path, index=False)
    upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 1})
    upsert(table, {"key": 1, "day": 3, "seq": 2})
    table.create_index(KEYS, "record_index")
    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_segtable.services.indexing.correct_keys", lambda *_: None)
        table.run_index(KEYS)
    assert codes(table) == ["doubled-keys"]
    table.rebuild_index(KEYS)
    table.run_index(KEYS)
    upsert(table, {"key": 2, "day": 4, "seq": 3})
    assert codes(table) == []
    state, definition = table.state(), table.index(KEYS).definition
    schema, known = table.index_entries(KEYS).slice(0, 0), table.index_entries(KEYS)
    feed = write_feed(table.ports, definition, schema, known.slice(0, 1))
    change = Change(
        action=IndexBuilt(index=definition.id, interval=ALL_TIME, through=0),
        commit_id="planted",
        feeds=(feed,),
    )
    commit_or_raise(table.ports, state, change)
    assert codes(table) == ["unknown-records"]


def test_files_alone_keep_the_corrections(tmp_path: Path) -> None:
    """After a repair without any log the rows are those of before: orders are in files' names."""
    table = new_table(tmp_path)
    upsert(table, *({"key": key, "seq": 1} for key in range(4)))
    upsert(table, *({"key": key, "day": 3, "seq": 1} for key in range(3)))
    table.compact("semi-major")
    upsert(table, {"key": 0, "day": 5, "seq": 0}, {"key": 1, "day": 5, "seq": 2})
    before = read(table)
    rmtree(tmp_path / "_segtable")
    repair(table.ports, plan_repair(table.ports))
    assert read(table) == before == [(0, 3, 1), (1, 5, 2), (2, 3, 1), (3, 0, 1)]


def test_a_writer_whose_files_are_cleaned_meanwhile_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read an old version to decide; the newest one has the same records in other files."""
    table = new_table(tmp_path)
    upsert(table, {"key": 1, "seq": 1})
    upsert(table, {"key": 1, "day": 3, "seq": 5})
    right, deeds = routing.records_of, [partial(compacted_and_cleaned, writer(table, 7))]

    def late(*given: Any) -> Any:
        while deeds:
            deeds.pop()()
        return right(*given)

    monkeypatch.setattr(routing, "records_of", late)
    upsert(table, {"key": 1, "day": 4, "seq": 4})
    assert not deeds
    assert table.index(KEYS).current
    assert read(table) == [(1, 3, 5)]


def compacted_and_cleaned(table: Table) -> None:
    table.compact(kind="semi-major")
    clean(table.ports, retention=Retention(hours=0, versions=1, orphan_hours=6))
