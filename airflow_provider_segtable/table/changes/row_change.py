"""Commit a row change (delete, update, merge, overwrite) as one event, without locking its rows.

1. ``find`` reads one snapshot and returns the rows to delete, by root address, and the rows to
   append. Deletion vectors and new segments are written, then committed together.
2. Changes and compactions do not block each other, because root addresses never change. Appended
   rows need ids and an append's lock; a delete needs neither lock nor coordinator.
3. If the granularity changed since the snapshot, the appended rows are split by the new time
   chunks and written again. They are the same rows: nothing is evaluated again.
4. If another change landed first in one of our roots, its vectors are read; if the vectors were
   cleaned, our rows are looked up in the newest snapshot. If the rows differ, our change is put
   again unchanged. If theirs is a plain delete and our new rows do not depend on the deleted ones
   (a delete, an overwrite), ours leaves the common rows out, unless a restore has brought them
   back by then. Otherwise ``find`` runs again on the newest snapshot, a bounded number of times
   (snapshot isolation, first committer wins). ``find`` never runs again for any other reason.
5. Files are deleted only when the change certainly did not land.
6. A row engine, of Arrow or Spark, selects rows, joins a source, and writes rows. It evaluates a
   request on one snapshot and decides nothing else. The order of a change, its commit and its
   conflicts are decided here and in ``run_change``, for all engines alike.
7. Appended rows are in the engine's own form (``New``), from the same evaluation as the deleted
   ones. So are the records of a change of a primary-key table (``Rec``).

Source of the idea: CarbonData's parallel compaction and update; row-level concurrency as in Delta,
but without a table-wide lock, and never executed again because of a compaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from pyroaring import BitMap

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import Deletion, VectorFile
from airflow_provider_segtable.core.errors import (
    ChangeConflict,
    CommitUnknown,
    NotFound,
    SegtableError,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.state import State, rival
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import (
    ChangeKind,
    ChangeRequest,
    Delete,
    Merge,
    Update,
    Where,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.indexes.kept_rows import KeptRows
from airflow_provider_segtable.data.vector_file import Rows, deleted_rows, write_vectors
from airflow_provider_segtable.table.append import (
    BATCH_PRIORITY,
    AppendResult,
    Prepare,
    append_request,
    written,
)
from airflow_provider_segtable.table.changes.matching import present
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.new_files import NewFiles
from airflow_provider_segtable.table.snapshot import Snapshot

TRIES = 5
"""Number of times ``find`` runs before the change fails with a conflict."""
ROUNDS = 50
"""Number of puts of one ``Found`` while other writers change other rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The effect of a change on one snapshot.

    Attributes:
        rows: the rows to delete, by root; all visible in the snapshot.
        matched: number of matching rows.
        prepare: plans and writes the rows to append (``table.append``), if any.
        predicate: the predicate delete of a rollup table, instead of ``rows``.
        overwritten: outer bounds of the event times that an overwrite replaces.
        count: returns the number of rows to append, for a dry run.
    """

    rows: Rows
    matched: int
    prepare: Prepare | None = None
    predicate: Predicate | None = None
    overwritten: tuple[Interval, ...] = ()
    count: Callable[[], int] = lambda: 0

    @property
    def nothing(self) -> bool:
        """Return whether the change has no effect."""
        return not any(self.rows.values()) and self.prepare is None and self.predicate is None


Find = Callable[[Snapshot], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of a change: event ``n`` and row counts.

    ``n`` is None if there was nothing to do, and in a dry run, which counts as a real run on the
    same version does. ``deleted`` is None in rollup tables, where only a reader could count, and
    for a repeated merge by primary key, which counts records. It is less than ``matched`` if other
    writers deleted some of the rows first, or a merge ignores them.
    """

    n: int | None
    state: State = field(repr=False)
    matched: int
    deleted: int | None
    inserted: int
    dry_run: bool = False

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "event": self.n,
            "matched": self.matched,
            "deleted": self.deleted,
            "inserted": self.inserted,
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        """Return e.g. ``3 rows matched, 3 deleted, 0 inserted: event 7``."""
        gone = "an unknown number" if self.deleted is None else f"{self.deleted:,}"
        none = "a dry run" if self.dry_run else "nothing to do, no event"
        event = none if self.n is None else f"event {self.n}"
        matched = counted(self.matched, "row")
        return f"{matched} matched, {gone} deleted, {self.inserted:,} inserted: {event}"


@dataclass(frozen=True, slots=True)
class _ChangeOrder:
    """A change to commit: its table, kind, reason, commit id, and lock settings."""

    ports: TableContext
    kind: ChangeKind
    reason: str
    commit_id: str
    wait_s: float
    priority: int


def change(
    ports: TableContext,
    find: Find,
    *,
    kind: ChangeKind,
    reason: str,
    commit_id: str,
    wait_s: float = 60.0,
    priority: int = BATCH_PRIORITY,
    state: State | None = None,
) -> ChangeResult:
    """Delete rows and append others in one event.

    Args:
        ports: the table's ports; without a coordinator only deletes are possible.
        find: returns the effect on a snapshot; called again after a conflict on the same rows.
        kind: the change's kind in the log.
        reason: the request in readable form.
        commit_id: equal ids change once.
        wait_s: how long to wait for the coordinator.
        priority: lock priority of the appended rows against compactions.
        state: the newest state of the table, if the caller has read it for this change; on a
            local storage any earlier one.

    Raises:
        ChangeConflict: other writers changed the same rows first, ``TRIES`` times.
        LockLost: the session ended; nothing was committed.
        CommitUnknown: the last reply was lost; run again with the same commit id.
    """
    log = ports.log
    if state is None:
        state = log.load()
    elif not ports.storage.remote:
        state = log.refresh(state)
    before = landed_before(log, commit_id, state)
    if before is not None:
        return before
    asked = _ChangeOrder(ports, kind, reason, commit_id, wait_s, priority)
    lost = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        found = find(Snapshot(ports=ports, state=state))
        if found.nothing:
            return ChangeResult(n=None, state=state, matched=found.matched, deleted=0, inserted=0)
        done = _ChangeCommit(asked, found, state).run()
        if isinstance(done, ChangeResult):
            return done
        lost, state = done, log.refresh(state)
    won = "" if lost.winner is None else f" (event {lost.winner} won)"
    raise ChangeConflict(
        f"{kind} in {ports.uri} was overtaken {TRIES} times: {lost.reason}{won}; nothing was "
        "changed: run it again, or make changes of the same rows one after another"
    )


def landed_before(log: EventLog, commit_id: str | None, state: State) -> ChangeResult | None:
    """Return the change that the log has under a commit id; None if it has not landed."""
    n = state.commits.get(commit_id) if commit_id else None
    return None if n is None else _landed(log, n, state)


def _landed(log: EventLog, n: int, state: State) -> ChangeResult:
    event = log.last_event(state) if n == state.n else log.event(n)
    action = event.action if event else None
    if not isinstance(action, RowsChanged):
        return ChangeResult(n=n, state=state, matched=0, deleted=None, inserted=0)
    return ChangeResult(
        n=n,
        state=state,
        matched=action.matched,
        deleted=None if action.predicate else action.deleted,
        inserted=sum(segment.rows for segment in action.segments),
    )


class _ChangeCommit:
    """Commits one ``Found`` while other writers change other rows.

    ``state`` is the newest version with all of its rows known to be visible.
    """

    def __init__(self, asked: _ChangeOrder, found: Found, state: State) -> None:
        self.asked, self.found, self.state = asked, found, state
        self.log = asked.ports.log
        self.rows = {root: rows for root, rows in found.rows.items() if rows}
        self.left_out: dict[SegmentId, BitMap] = {}
        self.segments: tuple[Segment, ...] = ()
        self.guard: Callable[[], None] = lambda: None
        self.file: VectorFile | None = None
        self.kept: KeptRows | None = None

    def run(self) -> ChangeResult | Conflict:
        """Commit; return a conflict on the same rows. Keep files only if the commit may land.

        Raises:
            ChangeConflict: other row changes or granularity changes prevented the commit too often.
        """
        prepare = self.found.prepare
        try:
            done = self._rounds() if prepare is None else self._split(prepare)
        except CommitUnknown:
            raise
        except Exception:  # not BaseException: an interrupted put may have landed
            self._discard()
            raise
        if isinstance(done, Conflict) or done.n is None:
            self._discard()
        return done

    def _split(self, prepare: Prepare) -> ChangeResult | Conflict:
        """Write the new rows and commit; repeat after each granularity change."""
        newest = self.log.refresh(self.state)
        for _ in range(TRIES):
            outcome = self._written(prepare, newest)
            if outcome is not None:
                return outcome
            newest = self.log.refresh(newest)
        raise self._out_of_tries(f"time was repartitioned {TRIES} times")

    def _written(self, prepare: Prepare, newest: State) -> ChangeResult | Conflict | None:
        """Write the new rows in a version's time chunks and commit; None if the chunks changed."""
        asked, ports = self.asked, self.asked.ports
        counts, write = prepare(newest)
        request = append_request(ports, newest, counts, asked.commit_id, asked.priority)
        lease = ports.coordinator.acquire_for_append(request, wait_s=asked.wait_s)
        with ports.leased(lease, request.table):
            if self.log.refresh(newest).layout != newest.layout:
                return None  # the granularity changed while we waited
            files = NewFiles.of(newest)
            self.segments, self.guard = written(ports, lease, write, files), lease.check
            files.wait_durable()
            self.kept = files.kept
            done = self._rounds()
        if isinstance(done, Conflict) and self._spans_chunks(newest):
            self._discard_segments()
            return None
        return done

    def _spans_chunks(self, known: State) -> bool:
        """Return whether a new segment now spans two time chunks."""
        layout = self.log.refresh(known).layout
        return any(layout.holds(s.time_min, s.time_max) is None for s in self.segments)

    def _rounds(self) -> ChangeResult | Conflict:
        for _ in range(ROUNDS):
            change = self._change()
            outcome = commit(self.asked.ports, self.state, change)
            if isinstance(outcome, Committed):
                return self._committed(outcome)
            if isinstance(outcome, Unknown):
                raise CommitUnknown(way_out(self.asked.ports, change, outcome.n))
            lost = self._conflict_on_rows(outcome)
            if lost is not None:
                return lost
            if not self.rows and not self.segments:
                return self._result(None, self.state)
        raise self._out_of_tries(f"other writers changed neighbouring rows {ROUNDS} times")

    def _out_of_tries(self, why: str) -> ChangeConflict:
        asked = self.asked
        return ChangeConflict(
            f"{asked.kind} in {asked.ports.uri} could not be committed: {why}; nothing was "
            "changed: run it again"
        )

    def _committed(self, outcome: Committed) -> ChangeResult:
        """Return the event's result; the event may be a late put of an earlier run."""
        try:
            return _landed(self.asked.ports.log, outcome.n, outcome.state)
        except SegtableError:  # committed, although the event cannot be read
            return self._result(outcome.n, outcome.state)

    def _change(self) -> Change:
        if self.rows and self.file is None:
            token = self.asked.ports.randomness.token()
            self.file = write_vectors(self.asked.ports.files, self.rows, token)
        action = RowsChanged(
            kind=self.asked.kind.value,
            segments=self.segments,
            vectors=(self.file,) if self.file else (),
            seen=self.state.n,
            predicate=self.found.predicate,
            matched=self.found.matched,
            reason=self.asked.reason,
            overwritten=self.found.overwritten,
        )
        return Change(
            action=action, commit_id=self.asked.commit_id, guard=self.guard, kept=self.kept
        )

    def _conflict_on_rows(self, conflict: Conflict) -> Conflict | None:
        """Return the conflict if it affects our rows or splits a new segment; None: put again.

        On None, ``state`` becomes the newest version, in which the remaining rows are visible.
        """
        newest = self.log.refresh(self.state)
        if rival(newest.overwritten, self.state.n, self.found.overwritten):
            return conflict
        try:
            if newest.vectors_pruned_through > self.state.n:
                lost = None if self._still_right(newest) else conflict
            else:
                lost = self._conflict_of_vectors(conflict, newest)
        except NotFound:  # a file was cleaned meanwhile: compare again with the newest state
            return None
        if lost is None:
            self.state = newest
        return lost

    def _still_right(self, newest: State) -> bool:
        """Return whether all our rows are visible, and no row that was left out is, after a prune.

        A restore undoes deletions, also those for which rows were left out.
        """
        snapshot = Snapshot(ports=self.asked.ports, state=newest)
        again = present(snapshot, self.left_out) if self.left_out else {}
        return present(snapshot, self.rows) == self.rows and not again

    def _conflict_of_vectors(self, conflict: Conflict, newest: State) -> Conflict | None:
        """Compare our rows with other deletes; leave out rows that plain deletes removed."""
        ports = self.asked.ports
        rivals = {root: _since(newest, root, self.state.n) for root in self.rows}
        rivals = {root: some for root, some in rivals.items() if some}
        if not rivals:
            return conflict if self._spans_chunks(newest) else None
        theirs = deleted_rows(ports.files, rivals)
        common = {root: rows for root in theirs if (rows := self.rows[root] & theirs[root])}
        if common and not (self._is_independent() and _all_plain(ports, common, rivals)):
            return conflict
        if common:
            self._leave_out(common)
        return None

    def _is_independent(self) -> bool:
        """Return whether the new rows, if any, do not depend on the deleted ones."""
        return self.asked.kind in (ChangeKind.DELETE, ChangeKind.OVERWRITE)

    def _leave_out(self, common: Rows) -> None:
        for root, rows in common.items():
            self.left_out[root] = self.left_out.get(root, BitMap()) | rows
        left = {root: rows - common.get(root, BitMap()) for root, rows in self.rows.items()}
        self.rows = {root: rows for root, rows in left.items() if rows}
        if self.file:
            self.asked.ports.files.delete(self.file.path)
        self.file = None

    def _result(self, n: int | None, state: State) -> ChangeResult:
        by_predicate = self.found.predicate is not None
        return ChangeResult(
            n=n,
            state=state,
            matched=self.found.matched,
            deleted=None if by_predicate else sum(map(len, self.rows.values())),
            inserted=sum(segment.rows for segment in self.segments),
        )

    def _discard(self) -> None:
        self._discard_segments()
        if self.file:
            self.asked.ports.files.delete(self.file.path)

    def _discard_segments(self) -> None:
        for segment in self.segments:
            self.asked.ports.files.delete(segment.path)
        self.segments = ()


def _since(state: State, root: SegmentId, n: int) -> tuple[Deletion, ...]:
    return tuple(each for each in state.vectors.get(root, ()) if each.n > n)


def _all_plain(
    ports: TableContext, common: Rows, rivals: Mapping[SegmentId, Sequence[Deletion]]
) -> bool:
    """Return whether only plain deletes changed these roots, so that rows may be left out."""
    log = ports.log
    events = (log.event(n) for n in {each.n for root in common for each in rivals[root]})
    return all(
        event is not None and isinstance(event.action, RowsChanged) and not event.action.segments
        for event in events
    )


New = TypeVar("New")
Rec = TypeVar("Rec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected(Generic[New]):
    """The selected rows of a snapshot, and their new values.

    Attributes:
        matched: number of matching rows of the table.
        rows: the addresses of the rows to delete, by root.
        new: the rows to append; None if there are none.
        count: returns the number of rows to append; may run a query.
    """

    matched: int
    rows: Mapping[SegmentId, BitMap] = field(default_factory=dict)
    new: New | None = None
    count: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Generic[Rec]):
    """The records of a change of a primary-key table.

    Attributes:
        matched: number of matching rows of the table.
        deleted: number of deleted or replaced rows.
        inserted: number of upserted rows.
        new: the records; None if there are none.
    """

    matched: int
    deleted: int
    inserted: int
    new: Rec | None


class RowEngine(Protocol[New]):
    """Evaluates change requests on a snapshot; rows from files are already read."""

    def select(
        self, snapshot: Snapshot, request: Delete | Update, *, addressed: bool
    ) -> Selected[New]:
        """Return the rows that a delete or update selects, and their new values.

        Args:
            snapshot: the table at one version.
            request: the change; ``where`` may be a ``core.predicate.Predicate``, too.
            addressed: False if the table's rows have no addresses and are only counted.

        Raises:
            InvalidInput: the engine cannot evaluate the request, or a value does not fit.
        """
        ...

    def condition(self, snapshot: Snapshot, where: Where) -> Condition | None:
        """Return a condition that bounds the selected rows; None if there is no bound.

        Raises:
            InvalidInput: no engine can evaluate it.
        """
        ...

    def join(self, snapshot: Snapshot, request: Merge) -> Selected[New]:
        """Return the rows that a merge deletes and appends.

        Raises:
            InvalidInput: as ``select``, or several source rows would update one row.
        """
        ...

    def write(self, snapshot: Snapshot, new: New) -> Prepare:
        """Return the step of an append that plans and writes rows; it does nothing yet."""
        ...


class KeyEngine(Protocol[Rec]):
    """Evaluates change requests on a snapshot of a primary-key table, and writes records."""

    def records(self, snapshot: Snapshot, request: ChangeRequest) -> Recorded[Rec]:
        """Return the records of a change.

        Raises:
            InvalidInput: the engine cannot evaluate the request, a value does not fit, or several
                source rows would update one row.
        """
        ...

    def upsert(self, snapshot: Snapshot, records: Rec, commit_id: str) -> AppendResult:
        """Commit records in one event; the snapshot is the version that was read for them.

        Raises:
            CommitUnknown: run again with the same commit id.
        """
        ...


class Engine(RowEngine[New], KeyEngine[Rec], Protocol[New, Rec]):
    """Evaluates change requests for tables of all kinds."""
