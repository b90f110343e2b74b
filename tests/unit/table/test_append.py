"""Appends: ids, locks and refusals; how incoming rows are split by time chunk."""

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    LockLost,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.core.locks import Allocation, Generation, LockRequest, Mode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import (
    DAY_US,
    HOUR_US,
    Granularity,
    GranularityOverride,
    Interval,
    Layout,
)
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.data.rows import split_by_chunk
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.table.append import (
    PROMPT_S,
    TRIES,
    AppendTicket,
    Write,
    append,
    append_request,
)
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.support.builders import first
from tests.unit.table.conftest import SCHEMA, files, numbers, rows

HOUR = Interval(0, HOUR_US)
NEXT = Interval(HOUR_US, 2 * HOUR_US)


def held(table: Table) -> int:
    return len(table.ports.coordinator.locks(table.state().table.table_id))


def one(segment_of: Callable[[AppendTicket], Segment]) -> Callable[[State], object]:
    """Return a ``Prepare`` of one segment in the first hour."""

    def prepare(_: State) -> tuple[Mapping[Interval, int], Write]:
        def write(ticket: AppendTicket) -> Sequence[Segment]:
            return [segment_of(ticket)]

        return {HOUR: 1}, write

    return prepare


def test_an_append_locks_new_ids_and_nothing_else(table: Table) -> None:
    """As many as each time chunk needs, in its visible version, from the first unused one on."""
    state = table.state()
    request = append_request(table.ports, state, {NEXT: 2, HOUR: 1}, "c1", 75)
    assert (request.table, request.holder, request.priority) == ("t", "first", 75)
    assert request.group.startswith("append-c1-")
    assert request.purpose == "append c1"
    assert (request.mode, request.segments, request.intervals) == (Mode.APPEND, frozenset(), ())
    assert request.allocate == tuple(
        Allocation(
            chunk=ChunkKey(interval, state.base_version),
            generation=Generation.FIRST,
            count=count,
            at_least=4,
        )
        for interval, count in ((HOUR, 1), (NEXT, 2))
    )
    again = append_request(table.ports, state, {HOUR: 1}, "c1", 75)
    assert again.group != request.group


def test_an_append_is_done_once(table: Table) -> None:
    """Run again with its commit id, it returns its first event and locks and writes nothing."""
    once = table.append(rows(range(40, 50)), commit_id="c1")
    table.append(rows(range(50, 60)))
    before = files(table)

    def never(_: State) -> tuple[Mapping[Interval, int], Write]:
        raise AssertionError("it was prepared again")

    again = append(table.ports, never, commit_id="c1", state=once.state)
    assert (once.n, again.n) == (5, 5)
    late = append(table.ports, never, commit_id="c1")
    assert (late.n, late.state) == (5, table.state())
    same = table.append(rows(range(40, 50)), commit_id="c1")
    assert (same.n, same.rows, same.segments) == (5, once.rows, once.segments) == (5, 10, 2)
    assert files(table) == before
    assert numbers(table) == list(range(60))


def test_nothing_is_appended_without_rows(table: Table) -> None:
    """No segment, or an empty one, is a mistake; the lock is released."""
    for nothing in ([], [replace(first(0), path="", rows=0, events=0)]):

        def prepare(
            _: State, found: Sequence[Segment] = tuple(nothing)
        ) -> tuple[Mapping[Interval, int], Write]:
            return {HOUR: 1}, lambda _: found

        with pytest.raises(InvalidInput, match="no rows to append to memory://t"):
            append(table.ports, prepare, commit_id="c1")
        assert held(table) == 0
    assert table.state().n == 4


def segment_in(ticket: AppendTicket, chunk_end: int = HOUR.end) -> Segment:
    """Return a segment under the ticket's id, with times up to ``chunk_end``."""
    (segment_id,) = ticket.ids[HOUR]
    made = first(segment_id.partition, chunk=segment_id.chunk, created=ticket.created)
    return replace(made, time_max=chunk_end - 1)


def test_a_refused_append_is_tried_a_bounded_number_of_times(table: Table) -> None:
    """Each time it is split anew; in the end the last reason is told and no lock is left."""
    tickets: list[AppendTicket] = []

    def wide(ticket: AppendTicket) -> Segment:
        tickets.append(ticket)
        return segment_in(ticket, NEXT.end)

    with pytest.raises(CommitConflict, match=f"append to memory://t was refused {TRIES} times: .*"):
        append(table.ports, one(wide), commit_id="c1")  # type: ignore[arg-type]
    assert len(tickets) == TRIES
    assert len({ticket.ids[HOUR] for ticket in tickets}) == TRIES
    assert held(table) == 0
    assert table.state().n == 4


def test_a_lost_reply_says_how_to_go_on(table: Table) -> None:
    """Run again with the same commit id; whether or not the event landed, it is there once."""

    class Lost:
        """A storage that loses all replies to events."""

        def __getattr__(self, name: str) -> object:
            return getattr(table.ports.storage, name)

        def create(self, path: str, data: bytes, **given: Any) -> None:
            """Create nothing."""
            if "timeline" in path:
                raise OutcomeUnknown(path)
            table.ports.storage.create(path, data, **given)

    ports = replace(table.ports, storage=Lost())  # type: ignore[arg-type]
    with pytest.raises(CommitUnknown, match=r"event 5 was lost.* commit id 'c1'"):
        append(ports, one(segment_in), commit_id="c1")  # type: ignore[arg-type]
    assert held(table) == 0
    assert append(table.ports, one(segment_in), commit_id="c1").n == 5  # type: ignore[arg-type]


def test_ids_follow_those_that_were_settled_meanwhile(table: Table) -> None:
    """The log that the writer has read may be old: what it was given is free all the same."""
    old = table.state()
    table.append(rows(range(40, 50)))
    done = append(table.ports, one(segment_in), commit_id="c1", state=old)  # type: ignore[arg-type]
    assert {s.id.partition for s in done.state.timeline.segments(HOUR)} == set(range(6))


class Watched:
    """A coordinator that notes what it is asked for, and acts before it grants."""

    def __init__(self, table: Table, before: Callable[[], object] = lambda: None) -> None:
        self.inner, self.before = table.ports.coordinator, before
        self.asked: list[tuple[str, float]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Act if it is the first time, note and grant."""
        if not self.asked:
            self.before()
        self.asked.append((request.purpose, wait_s))
        return self.inner.acquire_for_append(request, wait_s=wait_s)

    def of(self, table: Table) -> TableContext:
        """Return the table's context with this coordinator."""
        return replace(table.ports, optional_coordinator=self)  # type: ignore[arg-type]


def named(ticket: AppendTicket, interval: Interval, at: int = 0) -> Segment:
    """Return a segment under one of a ticket's ids."""
    segment_id = ticket.ids[interval][at]
    return first(segment_id.partition, chunk=segment_id.chunk, created=ticket.created)


def test_rows_are_split_again_if_time_was_cut_anew_while_waiting(table: Table) -> None:
    """Nothing is written for the old layout; a writer waits a minute unless it is told."""
    other = GranularityOverride(Interval(DAY_US, 2 * DAY_US), Granularity.DAY)
    cut = Change(
        action=TableRepaired(segments=(), overrides=(other,), reason="cut"), commit_id="cut"
    )

    def cut_anew() -> None:
        commit_or_raise(table.ports, table.state(), cut)
        table.ports.clock.sleep(2 * PROMPT_S)

    watched = Watched(table, cut_anew)
    layouts: list[Layout] = []

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        layouts.append(state.layout)
        return {HOUR: 1}, lambda ticket: [named(ticket, HOUR)]

    done = append(watched.of(table), prepare, commit_id="c1")
    assert [layout.overrides for layout in layouts] == [(), (other,)]
    assert done.n == 6
    assert watched.asked == [("append c1", 60.0)] * 2
    assert held(table) == 0
    append(watched.of(table), prepare, commit_id="c2", wait_s=5)
    assert watched.asked[2:] == [("append c2", 5)]


def test_a_writer_gets_its_ids_by_chunk_and_the_time_it_began(table: Table) -> None:
    """As many as it asked for; what it wrote is published in the order of the ids."""
    tickets: list[AppendTicket] = []

    def write(ticket: AppendTicket) -> Sequence[Segment]:
        tickets.append(ticket)
        return [named(ticket, NEXT), named(ticket, HOUR, 1), named(ticket, HOUR)]

    done = append(table.ports, lambda _: ({HOUR: 2, NEXT: 1}, write), commit_id="c1")
    (ticket,) = tickets
    assert [len(ticket.ids[interval]) for interval in (HOUR, NEXT)] == [2, 1]
    assert ticket.created == table.ports.clock.now()
    (event,) = table.ports.log.events(done.n)
    assert isinstance(event.action, Appended)
    assert [s.id for s in event.action.segments] == [*ticket.ids[HOUR], *ticket.ids[NEXT]]


def test_a_writer_that_lost_its_lock_does_not_commit(table: Table) -> None:
    """The lock is asked right before the event is put."""

    def write(ticket: AppendTicket) -> Sequence[Segment]:
        (lock,) = table.ports.coordinator.locks("t")
        table.ports.coordinator.break_lock("t", lock.group)
        return [segment_in(ticket)]

    with pytest.raises(LockLost):
        append(table.ports, lambda _: ({HOUR: 1}, write), commit_id="c1")
    assert table.state().n == 4


def at(*times: int) -> pa.Table:
    """Return rows at the given hours, numbered in order."""
    given = [
        {"at": time * HOUR_US, "row": number, "name": "n", "price": 1.0}
        for number, time in enumerate(times)
    ]
    return pa.Table.from_pylist(given, SCHEMA)


def test_rows_are_split_by_chunk_and_sorted_by_time() -> None:
    """Rows of equal times stay in their order; a chunk's end belongs to the next chunk."""
    layout = Layout(granularity=Granularity.DAY)
    parts = split_by_chunk(at(24, 3, 0, 47, 3, 48), "at", layout)
    days = [Interval(day * DAY_US, (day + 1) * DAY_US) for day in range(3)]
    assert {chunk: part.column("row").to_pylist() for chunk, part in parts.items()} == {
        days[0]: [2, 1, 4],
        days[1]: [0, 3],
        days[2]: [5],
    }


def test_rows_around_an_override_are_one_part() -> None:
    """A wide chunk that an override interrupts gets the rows before and after it together."""
    hour = Interval(2 * HOUR_US, 3 * HOUR_US)
    layout = Layout(
        granularity=Granularity.DAY, overrides=(GranularityOverride(hour, Granularity.HOUR),)
    )
    parts = split_by_chunk(at(1, 2, 3), "at", layout)
    assert {chunk: part.column("row").to_pylist() for chunk, part in parts.items()} == {
        Interval(0, DAY_US): [0, 2],
        hour: [1],
    }


def test_no_rows_cannot_be_split() -> None:
    """An append without rows is a mistake."""
    with pytest.raises(InvalidInput, match="no rows"):
        split_by_chunk(at(), "at", Layout(granularity=Granularity.DAY))


@pytest.mark.parametrize("broken_at", [1, 2])
def test_files_are_durable_before_the_event_that_names_them(
    table: Table, tmp_path: Path, broken_at: int
) -> None:
    """If one of two files cannot be synced, nothing is committed, and no file stays."""
    synced: list[int] = []

    def sync(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            synced.append(fd)
            if len(synced) == broken_at:
                raise OSError(errno.EIO, "broken")

    before = table.state().n
    local = Table(replace(table.ports, files=LocalFiles(tmp_path, sync=sync)))
    with pytest.raises(StorageError, match=r"\.parquet"):
        local.append(rows(range(20)))
    assert table.state().n == before
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    done = local.append(rows(range(20)))
    assert (done.n, done.segments) == (before + 1, 2)
    assert len([path for path in tmp_path.rglob("*.parquet") if path.is_file()]) == 2
