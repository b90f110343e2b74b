"""Build what an index lacks, one piece of time after the other.

1. A piece is the earliest time that is lacking (``core.indexes.next_build``). Files of it that are
   known already are left out: their writer or an earlier attempt indexed them.
2. The entries are read before the log is read again. So an entry is about a file that the state
   has, or about a file that is gone: the build deletes the latter.
3. ``IndexBuilt`` commits a piece, and brings its entries as a feed. A piece with many bytes takes
   several events, so that the entries of each fit into memory; only the last one says that the time
   is built. If another attempt took over, or the index was dropped, the log refuses the event, and
   the build ends.
4. Once ``timeout_s`` is over no further event is begun. That is a pause: what is built stays, and
   the next attempt at the plan goes on. Every attempt brings at least one event.
5. The build ends when nothing is lacking any more. What is published meanwhile is fed by its
   writers, or is lacking, and then built, too.
6. Keys with several rows are settled (``settle``) before the event after which an index of records
   lacks nothing. So an index that is current keeps its promise, also after a build that was killed.
"""

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from airflow_provider_segtable.core.catch_up import chunks_lacking, files_in, next_piece
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import IndexBuilt
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.index_plan import without
from airflow_provider_segtable.core.log.plan import BuildIndex
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.entries import IndexJob, in_jobs
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.compaction.attempt import Attempt
from airflow_provider_segtable.services.compaction.execution import Paused, Stop
from airflow_provider_segtable.services.indexing.known_entries import known_entries
from airflow_provider_segtable.services.indexing.settle import settle
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import write_feed
from airflow_provider_segtable.table.log.committer import Change, Committed, Outcome, commit

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
    """Build what an index lacks; yield the jobs of each event, and receive their entries."""
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
    """Commit the entries of a piece; before the last event of an index of records, settle keys.

    Raises:
        CommitConflict: keys could not be settled.
    """
    if not _is_last(piece):
        return _entered(ports, attempt, piece, parts)
    entered = _entered(ports, attempt, replace(piece, whole=False), parts)
    if not isinstance(entered, Committed):
        return entered
    settle(ports, piece.index.definition.id, attempt.token, attempt.lease.check)
    return _entered(ports, attempt, replace(piece, stale=piece.stale.slice(0, 0)), ())


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
