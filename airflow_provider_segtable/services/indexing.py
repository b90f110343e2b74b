"""Build the time that an index lacks, piece by piece, and correct keys with several rows.

The build:

1. A piece is the earliest time that is lacking (``core.catch_up``). Its known files are left out:
   their writer or an earlier attempt indexed them.
2. An index knows the files that its entries name (``data.indexes.entries``). An entry about a file
   that the table no longer has is *stale*: the build deletes it. Entries about records name none.
3. The entries are read before the log is read again. So each of them is about a file of the state,
   or about a deleted file.
4. ``IndexBuilt`` commits a piece, with its entries as a feed. A piece with many bytes takes several
   events, so that the entries of each fit into memory; only the last one marks the time as built.
   If another attempt took over, or the index was dropped, the log refuses the event, and the build
   ends.
5. After ``timeout_s`` no further event is begun. That is a pause: all committed pieces stay, and
   the next attempt at the plan goes on. Every attempt commits at least one event.
6. The build ends when nothing is lacking. A file that is published meanwhile is fed by its writer,
   or is lacking, and then built, too.
7. The output of a compaction is never lacking in an index of records, which knows the records by
   the compacted files. If one of these was cleaned before it was read, the index does not know its
   records. So its time is not built yet, and the next piece has the output.

Corrections (``correct_keys``), before the event after which an index of records lacks nothing. So
an index that is current keeps its promise, also after a killed build:

8. Writers route the keys that they write (``table.indexes.routing``). Rows that are older than an
   index of records, or were written while it lacked a time, were not routed. So keys with several
   entries are looked for.
9. Feeds are copied first, and the index's own table is read in the order of its keys, so memory
   holds a batch. A later row was routed by its writer, who knew all entries.
10. The records of these keys are read. Their corrections are one event for each batch of keys,
    under a commit id of its own. If another writer wrote such a key meanwhile, the batch is read
    again.
11. Corrections may be repeated, at any time and by any process: a key with one row needs none.
"""

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.catch_up import chunks_lacking, files_in, next_piece
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, SegtableError
from airflow_provider_segtable.core.indexes.index_kind import FILE, START
from airflow_provider_segtable.core.indexes.index_state import IndexState, index_table
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.index_plan import pending_plan, without
from airflow_provider_segtable.core.log.plan import BuildIndex, PlanState
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.entries import TRUST_COLUMNS, IndexJob, in_jobs, view_of
from airflow_provider_segtable.data.indexes.records import decided, places_of
from airflow_provider_segtable.data.keyed.merging import key_codes
from airflow_provider_segtable.planning.finders.index import index_plan
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Attempt, Paused, Stop
from airflow_provider_segtable.table.committer import (
    Change,
    Committed,
    Outcome,
    Unknown,
    commit,
    commit_files,
    forward_feeds,
    way_out,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import index_named
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    entry_rules,
    index_ports,
    write_feed,
)
from airflow_provider_segtable.table.indexes.key_entries import entries_of_keys
from airflow_provider_segtable.table.indexes.routing import Route, discard, holds, rerouted
from airflow_provider_segtable.table.parts import MergedScan, groups_to_read


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntries:
    """Entries of an index about files of a time: their keys and columns of trust."""

    index: IndexState
    interval: Interval
    rows: pa.Table

    def missing(self, segments: Iterable[Segment], state: State) -> tuple[Segment, ...]:
        """Return the files that are not known."""
        view = view_of(self.index.definition, state.table, self.rows)
        return tuple(segment for segment in segments if not view.knows(segment))

    def stale(self, state: State) -> pa.Table:
        """Return the entries about files that a state, read later, does not have."""
        if not self.rows.num_rows:
            return self.rows
        near = (path for c in state.timeline.chunks(self.interval) for path in c.paths())
        left = _not_about(near, self.rows)  # a file that was carried over may lie elsewhere
        return _not_about(state.timeline.paths(), left) if left.num_rows else left


def _not_about(paths: Iterable[str], rows: pa.Table) -> pa.Table:
    known = pa.array(paths, pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column(FILE), known)))


def known_entries(
    ports: TableContext, index: IndexState, interval: Interval, segments: Sequence[Segment]
) -> KnownEntries:
    """Return the entries about files of an interval, and about some segments.

    Raises:
        SegtableError: the entries cannot be read.
    """
    spans = [interval, *(segment.file_id.interval for segment in segments)]
    whole = Interval(min(each.start for each in spans), max(each.end for each in spans))
    kind = index.definition.kind
    columns = dict.fromkeys((*kind.key, START, *TRUST_COLUMNS))
    rows = entries_in(ports, index, whole, [*columns]) if kind.about_files else pa.table({})
    return KnownEntries(index=index, interval=whole, rows=rows)


COMMIT = "settled-"
"""The begin of the commit ids."""
MOST_ENTRIES = 65_536
"""Number of entries from which on a batch takes no further one."""
TRIES = 20


class _Overtaken(Exception):  # not an error: the batch is looked at again
    """Another event has a key of the batch."""


def correct_keys(
    ports: TableContext, index_id: str, token: str, check: Callable[[], None] = lambda: None
) -> None:
    """Correct the records of all keys that have several rows.

    Args:
        ports: the table's ports.
        index_id: the index; nothing is done if it is not about records, or gone.
        token: the attempt; commit ids begin with it.
        check: called before each event; raises if the attempt lost its lease.

    Raises:
        CommitConflict: others wrote the same keys, repeatedly.
        CommitUnknown: the last reply was lost; run the index again.
    """
    state = ports.log.load()
    index = index_of(index_id, state)
    if index is None or index.definition.kind.about_files:
        return
    forward_feeds(ports, state)
    for number, entries in enumerate(_doubled(ports, index)):
        _corrected_keys(ports, check, index_id, entries, f"{COMMIT}{token}-{number}")


def _doubled(ports: TableContext, index: IndexState) -> Iterator[pa.Table]:
    """Yield entries of keys that may have several rows by these entries."""
    own = index_ports(ports, index.definition)
    state = own.log.load()
    key = index.definition.kind.divided_by
    held: list[pa.Table] = []
    for entries in _by_key(own, state, key):
        layout = ports.log.load().layout
        unsure = np.zeros(entries.num_rows, bool)
        losers = decided(entries, places_of(entries, layout)[0], key, unsure).losers
        if len(losers):
            held.append(entries.take(pa.array(losers)))
        if sum(some.num_rows for some in held) >= MOST_ENTRIES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _by_key(own: TableContext, state: State, key: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield all entries of an index's own table, in the order of keys."""
    scan = MergedScan(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        columns=state.table.schema.names,
        found=groups_to_read(state, None),
        in_order=True,
    )
    left: pa.Table | None = None
    for batch in scan.batches():
        rows = pa.Table.from_batches([batch])
        rows = rows if left is None else pa.concat_tables([left, rows])
        codes = key_codes(rows, MergeRules(key=key)).rows
        last = np.flatnonzero(codes != codes[-1])  # the last key may go on in the next batch
        end = int(last[-1]) + 1 if len(last) else 0
        left = rows.slice(end)
        if end:
            yield rows.slice(0, end)
    if left is not None and left.num_rows:
        yield left


def _corrected_keys(
    ports: TableContext, check: Callable[[], None], index_id: str, entries: pa.Table, commit_id: str
) -> None:
    """Correct the records of some keys, as the newest version has them."""
    reason = "nothing was tried"
    for attempt in range(TRIES):
        state = ports.log.refresh(ports.log.load())
        index = index_of(index_id, state)
        if index is None:
            return
        route = rerouted(ports, state, index, entries_of_keys(ports, index, entries))
        if not route.corrections:
            discard(ports, route)
            return
        outcome = _corrections_committed(ports, check, state, route, f"{commit_id}-{attempt}")
        if outcome is None:
            return
        reason = outcome
    raise CommitConflict(
        f"{ports.uri}: keys could not be corrected, because {reason} {TRIES} times: run the index "
        "again"
    )


def _corrections_committed(
    ports: TableContext, check: Callable[[], None], state: State, route: Route, commit_id: str
) -> str | None:
    """Commit the corrections of a route; return why they were refused, None if they were not."""

    def guard() -> None:
        check()
        if not holds(ports, route, ports.log.refresh(state)):
            raise _Overtaken

    change = Change(
        action=Appended(segments=route.corrections),
        commit_id=commit_id,
        guard=guard,
        feeds=(route.feed,),
    )
    try:
        outcome = commit_files(ports, state, change, route.corrections)
    except _Overtaken:
        return "others wrote them"
    if isinstance(outcome, Unknown):
        raise CommitUnknown(way_out(ports, change, outcome.n))
    return outcome.reason if isinstance(outcome, Conflict) else None


Result = TypeVar("Result")

EVENT_BYTES = 4 << 30
"""Size of the files from which on an event takes no further one: its entries are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The number of files that an attempt indexed, and why it stopped early; None if it did not."""

    files: int
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A piece as of a version.

    Attributes:
        state: the version.
        index: the index.
        interval: the time of the piece.
        missing: the files that are not known, as many as one event takes.
        whole: whether these are all of them.
        stale: the entries about files that are gone.
    """

    state: State
    index: IndexState
    interval: Interval
    missing: tuple[Segment, ...]
    whole: bool
    stale: pa.Table


Building: TypeAlias = Generator[Sequence[Job], Sequence[Any], Built]


def build(
    ports: TableContext,
    attempt: Attempt,
    step: BuildIndex,
    *,
    timeout_s: float,
    parallelism: int,
) -> Building:
    """Build the time that an index lacks; yield the jobs of each event, receive entries."""
    deadline = ports.clock.monotonic() + timeout_s
    state, done = attempt.state, dict[str, None]()
    while True:
        piece = _unless_dropped(ports, step, state, partial(_next, ports, step, state, done))
        if not isinstance(piece, _Piece):
            return Built(files=len(done), stop=piece)
        jobs = [*_jobs(ports, attempt, piece, parallelism)]
        parts = (yield jobs) if jobs else ()
        commit_it = partial(_committed, ports, attempt, piece, parts)
        outcome = _unless_dropped(ports, step, piece.state, commit_it)
        if not isinstance(outcome, Committed):
            return Built(files=len(done), stop=outcome)
        done |= dict.fromkeys(segment.path for segment in piece.missing)
        state = outcome.state
        late = ports.clock.monotonic() >= deadline
        if late and (left := _left(step, state)):
            why = f"paused after {timeout_s:g} s: {counted(left, 'time chunk')} of the index left"
            return Built(files=len(done), stop=Paused(reason=why))


def _unless_dropped(
    ports: TableContext, step: BuildIndex, state: State, work: Callable[[], Result]
) -> Result | Conflict:
    """Return the result of some work; a conflict if it failed because the index is gone."""
    try:
        return work()
    except SegtableError:
        if index_of(step.index, ports.log.refresh(state)) is not None:
            raise
        return _dropped(step)


def _dropped(step: BuildIndex) -> Conflict:
    return Conflict(reason=f"index {step.index} was dropped or rebuilt meanwhile")


def _next(
    ports: TableContext, step: BuildIndex, state: State, done: Container[str]
) -> _Piece | Conflict | None:
    """Return the next piece; None if nothing is left, a conflict if the index is gone.

    Files that this attempt has ``done`` are known, whether or not entries name their files.
    """
    seen = ports.log.refresh(state)
    index = index_of(step.index, seen)
    if index is None:
        return _dropped(step)
    time = next_piece(without(index, step.apart), seen)
    if time is None:
        return None
    known = known_entries(ports, index, time.interval, time.segments)
    state = ports.log.refresh(seen)
    there = (each for each in files_in(state, time.interval) if each.path not in done)
    missing = known.missing(there, state)
    some = _some(missing)
    return _Piece(
        state=state,
        index=index,
        interval=time.interval,
        missing=some,
        whole=len(some) == len(missing),
        stale=known.stale(state),
    )


def _some(missing: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the first files, as many as one event takes: at least one."""
    sizes = accumulate(segment.size for segment in missing)
    return tuple(s for s, size in zip(missing, sizes, strict=True) if size - s.size < EVENT_BYTES)


def _jobs(
    ports: TableContext, attempt: Attempt, piece: _Piece, parallelism: int
) -> Iterator[IndexJob]:
    share = -(-len(piece.missing) // parallelism) or 1
    shares = (piece.missing[at : at + share] for at in range(0, len(piece.missing), share))
    for segments in (some for each in shares for some in in_jobs(each)):
        yield IndexJob(
            uri=ports.uri,
            storage_options=ports.storage_options,
            index=piece.index.definition,
            table=piece.state.table,
            segments=segments,
            attempt=attempt.token,
        )


def _committed(
    ports: TableContext, attempt: Attempt, piece: _Piece, parts: Sequence[pa.Table]
) -> Outcome:
    """Commit the entries of a piece; before the last event of an index of records, correct keys.

    Raises:
        CommitConflict: keys could not be corrected.
    """
    piece = _as_read(ports, piece)
    if not _is_last(piece):
        return _entered(ports, attempt, piece, parts)
    entered = _entered(ports, attempt, replace(piece, whole=False), parts)
    if not isinstance(entered, Committed):
        return entered
    correct_keys(ports, piece.index.definition.id, attempt.token, attempt.lease.check)
    return _entered(ports, attempt, replace(piece, stale=piece.stale.slice(0, 0)), ())


def _as_read(ports: TableContext, piece: _Piece) -> _Piece:
    """Return a piece whose files were read: not whole if one may have been cleaned before (rule 7).

    A cleaning is in the log before it deletes a file, so the log tells after a read.
    """
    if piece.index.definition.kind.about_files:
        return piece
    wanted = {segment.path for segment in piece.missing}
    timeline = ports.log.refresh(piece.state).timeline
    for chunk in timeline.chunks(piece.interval):
        wanted.difference_update(chunk.paths())
    if wanted:  # a file that was carried over may lie elsewhere
        wanted.difference_update(timeline.paths())
    return replace(piece, whole=False) if wanted else piece


def _is_last(piece: _Piece) -> bool:
    """Return whether an index of records lacks nothing after a piece."""
    left = piece.index.built(piece.interval, piece.state.n)
    return piece.whole and left.current and not piece.index.definition.kind.about_files


def _entered(
    ports: TableContext, attempt: Attempt, piece: _Piece, parts: Sequence[pa.Table]
) -> Outcome:
    """Write the entries of a piece, and commit them."""
    index, state = piece.index.definition, piece.state
    schema = to_arrow(index_table(index, state.table).schema)
    entries = pa.concat_tables([schema.empty_table(), *parts])
    attempt.lease.check()
    feed = write_feed(ports, index, entries, piece.stale)
    action = IndexBuilt(
        index=index.id,
        interval=piece.interval,
        through=state.n if piece.whole else 0,
        plan_id=attempt.plan.id,
        attempt=attempt.token,
    )
    change = Change(
        action=action,
        commit_id=f"built-{attempt.token}-{state.n}{'' if piece.whole else '-part'}",
        guard=attempt.lease.check,
        feeds=(feed,),
    )
    return commit(ports, state, change)


def _left(step: BuildIndex, state: State) -> int:
    """Return the number of time chunks that are left to build."""
    index = index_of(step.index, state)
    return 0 if index is None else chunks_lacking(without(index, step.apart), state)


ATTEMPTS = 5
"""Most requests, if other events forbid the plan each time."""


def requested_plan(ports: TableContext, name: str) -> PlanState | None:
    """Return the pending plan of an index, requested now unless it is there already.

    Args:
        ports: the table's ports.
        name: the index.

    Returns:
        None if the index lacks nothing.

    Raises:
        InvalidInput: there is no index of this name.
        CommitConflict: other requests were first, repeatedly.
        CommitUnknown: request it again, it is not requested twice.
    """
    state, reason = ports.log.load(), ""
    for _ in range(ATTEMPTS):
        index = index_named(state, name, ports.uri)
        known = pending_plan(index.definition.id, state.pending_plans())
        plan = index_plan(state, index, f"asked for by {ports.author}")
        if known is not None or plan is None:
            return known
        change = Change(
            action=PlanRequested(plan=plan), commit_id=f"request-{ports.randomness.token()}"
        )
        outcome = commit(ports, state, change)
        if isinstance(outcome, Unknown):
            raise CommitUnknown(way_out(ports, change, outcome.n))
        if isinstance(outcome, Committed):
            return outcome.state.plans[plan.id]
        state, reason = ports.log.refresh(state), outcome.reason
    raise CommitConflict(f"{ports.uri}: index {name} cannot be planned: {reason}; request it again")
