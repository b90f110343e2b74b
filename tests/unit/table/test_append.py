"""Appends: ids, locks and refusals; how incoming rows are split by time chunk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    OutcomeUnknown,
)
from airflow_provider_segtable.core.locks.lockbox import Allocation, Generation, Mode
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time.interval import DAY_US, HOUR_US, Granularity, Interval
from airflow_provider_segtable.core.time.layout import GranularityOverride, Layout
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.table.writes.append import (
    TRIES,
    AppendTicket,
    Write,
    append,
    append_request,
)
from airflow_provider_segtable.table.writes.incoming import split_by_chunk
from airflow_provider_segtable.testing.builders import first
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
    assert append(table.ports, never, commit_id="c1").n == 5
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

        def create(self, path: str, data: bytes) -> None:
            """Create nothing."""
            if "timeline" in path:
                raise OutcomeUnknown(path)
            table.ports.storage.create(path, data)

    ports = replace(table.ports, storage=Lost())  # type: ignore[arg-type]
    with pytest.raises(CommitUnknown, match="run it again with commit id 'c1'"):
        append(ports, one(segment_in), commit_id="c1")  # type: ignore[arg-type]
    assert held(table) == 0
    assert append(table.ports, one(segment_in), commit_id="c1").n == 5  # type: ignore[arg-type]


def test_ids_follow_those_that_were_settled_meanwhile(table: Table) -> None:
    """The log that the writer has read may be old: what it was given is free all the same."""
    old = table.state()
    table.append(rows(range(40, 50)))
    done = append(table.ports, one(segment_in), commit_id="c1", state=old)  # type: ignore[arg-type]
    assert {s.id.partition for s in done.state.timeline.segments(HOUR)} == set(range(6))


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
