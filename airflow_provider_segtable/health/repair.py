"""Repair: rebuild a lost log from files, and replace lost outputs by their inputs.

1. *Read*: the remains of the log (``health.evidence``), the missing files that the log names,
   and, if events were lost, the footers of files that the log does not name.
2. *Plan*: ``core.recovery.replay`` recovers the segments, ``health.delete_recovery`` the
   deletions. The plan is a value, equal for a dry run, and lists all doubts: among them lost rows,
   if the log is still readable, and lost indexes. While a doubt blocks, nothing is written.
3. *Put aside*: torn files of the log are copied to ``_segtable/lost/<time>/``, then deleted at
   their old place. A folder without ``done`` marks an unfinished repair.
4. *Write*: if a prefix of the log remains, one event ``TableRepaired`` follows it. Otherwise event
   1 (``TableRepaired``) is written before event 0 (``TableCreated``): without event 0 there is no
   table, so no reader ever sees an empty one.
5. Every step may be repeated, and two repairs write the same events. Writers must be stopped
   meanwhile: a writer that has read the old log could continue it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CorruptTable,
    InvalidInput,
    NotATable,
    NotFound,
    OutcomeUnknown,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import folder, name_of
from airflow_provider_segtable.core.log.events import Event, decode, encode
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.replacement import home
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.claims import (
    Doubt,
    Reason,
    Recovered,
    holes,
    missing,
    unproven,
)
from airflow_provider_segtable.core.recovery.replay import recover
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import ALL_TIME, united
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.health.delete_recovery import (
    DeleteRecovery,
    DeletesLeft,
    Verdict,
    addressed,
    adopted,
    deletes_of,
    left_out,
    lost_predicates,
    read_deletes,
    recover_deletes,
)
from airflow_provider_segtable.health.evidence import (
    LOST,
    FilesFound,
    LogLeft,
    candidates,
    data_entries,
    definition_of,
    log_buckets,
    lost_files,
    read_files,
    read_log,
)
from airflow_provider_segtable.planning.planner_context import deleted_in
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.adopted_files import adopted_by_path
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog


def lost_rows(state: State, found: Recovered) -> list[Doubt]:
    """Return a doubt for each time interval that would lose visible rows."""
    before, after = state.timeline.visible_segments(), found.shown
    doubts: list[Doubt] = []
    for piece in united({s.id.interval for s in (*before, *after)}):
        was = [s for s in before if piece.encloses(s.id.interval)]
        will = [s for s in after if piece.encloses(s.id.interval)]
        fewer = round(_live(state, was) - _live(state, will))
        if fewer > 0:
            gone = {s.path for s in was} - {s.path for s in will}
            doubts.append(
                Doubt(
                    reason=Reason.ROWS_LOST,
                    interval=piece,
                    note=f"lost: {counted(fewer, 'row')} that no other file has",
                    paths=tuple(sorted(gone)),
                    rows=fewer,
                )
            )
    return doubts


def lost_indexes(ids: Sequence[str]) -> Iterator[Doubt]:
    """Yield a remark about the indexes whose requests were lost with the log; it blocks nothing."""
    names = [name_of(index) for index in ids]
    if ids:
        yield Doubt(
            reason=Reason.INDEXES,
            interval=ALL_TIME,
            note=f"indexes whose definitions were in the lost log: {', '.join(names)}; create them "
            "again: segtable index create TABLE NAME; cleaning deletes their old files",
            paths=tuple(map(folder, ids)),
            blocking=False,
        )


def _live(state: State, segments: Sequence[Segment]) -> float:
    """Return the estimated number of rows in some segments that are not deleted."""
    shown = replace(state, timeline=Timeline.empty().with_changes(add=segments))
    return sum(s.events for s in segments) - deleted_in(shown).rows_of(segments)


def fits(found: Recovered, state: State) -> bool:
    """Return whether the log's layout overrides fit the recovered segments."""
    return all(s.tombstone or home(s, state.layout) == s.id.chunk.place for s in found.shown)


def fell_across(found: Recovered, state: State) -> Iterator[Doubt]:
    """Yield a doubt if a dropped version leaves segments of another granularity."""
    torn = [s for s in found.dropped if s.id in state.timeline and s.shard.core]
    if torn and not fits(found, state):
        yield Doubt(
            reason=Reason.LAYOUT,
            interval=torn[0].id.interval,
            note=f"version {torn[0].id.version} repartitioned time, but is torn: restore its files",
            paths=tuple(segment.path for segment in torn),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The user's decisions.

    Attributes:
        without: paths of files to exclude from the table.
        also: paths of files to include although another file has the same id.
        accept_loss: accept the loss of rows that no other file contains.
        definition: the table's definition, if neither events nor footers have it.
        deletes: whether to apply unproven deletions.
    """

    without: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    accept_loss: bool = False
    definition: TableDefinition | None = None
    deletes: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """The plan of a repair; a dry run shows the same object.

    Attributes:
        table: the table's definition.
        log: the remains of its log.
        files: the files found that the log does not name.
        lost: segments whose files are lost.
        shown: the segments that readers will see.
        event: the event to write; None if the table needs no change.
        doubts: questions that the files alone do not answer.
        accept_loss: whether the user accepts lost rows.
        deletes: vector files that the log does not name.
        delete_recovery: the result of delete recovery.
    """

    table: TableDefinition
    log: LogLeft
    files: FilesFound
    lost: tuple[Segment, ...]
    shown: tuple[Segment, ...]
    event: TableRepaired | None
    doubts: tuple[Doubt, ...]
    accept_loss: bool = False
    deletes: DeletesLeft = field(default_factory=DeletesLeft)
    delete_recovery: DeleteRecovery = field(default_factory=DeleteRecovery)

    def facts(self) -> Facts:
        """Return the plan as plain JSON values."""
        event = self.event
        return {
            "table": self.table.name,
            "needed": self.needed,
            "new_log": self.fresh,
            "last_event": self.log.state.n if self.log.state else None,
            "put_aside": [entry.path for entry in self.log.torn],
            "lost_files": [segment.path for segment in self.lost],
            "adopted": [segment.path for segment in event.segments if segment.path]
            if event
            else [],
            "left_out": [str(segment_id) for segment_id in event.lost] if event else [],
            "foreign": list(self.files.foreign),
            "unreadable": dict(self.files.unreadable),
            "leftovers": list(self.files.leftovers),
            "deletes": [
                {
                    "path": path,
                    "rows": sum(len(each) for each in rows.values()),
                    "rows_there": self.delete_recovery.there.get(path, 0),
                    "proven": path in self.deletes.proven,
                }
                for path, rows in sorted(self.deletes.files.items())
            ],
            "unreadable_deletes": dict(self.deletes.unreadable),
            "deleted_again": sum(len(rows) for rows in self.delete_recovery.rows.values()),
            "rows": sum(segment.rows for segment in self.shown),
            "doubts": [
                {
                    "reason": doubt.reason.value,
                    "interval": str(doubt.interval),
                    "note": doubt.note,
                    "rows": doubt.rows,
                    "paths": list(doubt.paths),
                    "blocking": doubt in self.blocking,
                }
                for doubt in self.doubts
            ],
        }

    @property
    def blocking(self) -> tuple[Doubt, ...]:
        """Return the doubts that the user must decide first."""
        forgiven = {Reason.ROWS_LOST} if self.accept_loss else set()
        return tuple(d for d in self.doubts if d.blocking and d.reason not in forgiven)

    @property
    def fresh(self) -> bool:
        """Return whether the repair begins a new log."""
        return self.log.state is None

    @property
    def needed(self) -> bool:
        """Return whether a repair is needed."""
        return self.event is not None or self.log.damaged or not self.log.sound


def plan_repair(ports: TableContext, decisions: Decisions | None = None) -> RepairPlan:
    """Return the plan of a repair, without writing.

    Raises:
        NotATable: there is neither a log nor a data file.
        InvalidInput: no source has the table's definition, or a decision names an unknown file.
        UnsupportedFormat: a newer segtable wrote here.
    """
    decided, log = decisions or Decisions(), read_log(ports)
    state, records = log.state, adopted_by_path(ports.storage)
    entries = data_entries(ports, state, records)
    lost = lost_files(state, entries) if state else ()
    gone = {segment.path for segment in lost}
    named = log.named
    fresh = [e for e in entries if e.path not in named] if log.damaged else []
    files = read_files(ports, fresh, log.published, records)
    if state is None and not files.segments:
        raise NotATable(f"{ports.uri} holds no segtable table: neither a log nor data files")
    deletes = read_deletes(ports, log) if log.damaged else DeletesLeft()
    _check_decisions(decided, files, deletes)
    deletes = deletes.but(decided.without)
    table = definition_of(files, log.events, decided.definition, state.table if state else None)
    present = [s for s in state.timeline.segments() if s.path not in gone] if state else []
    new = [s for s in candidates(files, state) if s.path not in decided.without]
    found = recover(
        (*present, *new),
        table.layout(),
        also=decided.also,
        gone=lost,
        deletes=deletes_of(deletes, log, table.kind),
        merged=files.merged,
    )
    again = recover_deletes(ports, deletes, state, found.shown, decided.deletes)
    event = _event(found, log, lost, files, again, table)
    wrong = log.damaged or bool(lost)
    return RepairPlan(
        table=table,
        log=log,
        files=files,
        lost=lost,
        shown=found.shown,
        event=event if wrong and _changes(event, log) else None,
        doubts=tuple(_doubts(found, log, again, event, present, table)) if wrong else (),
        accept_loss=decided.accept_loss,
        deletes=deletes,
        delete_recovery=again,
    )


def _doubts(
    found: Recovered,
    log: LogLeft,
    again: DeleteRecovery,
    event: TableRepaired,
    present: Sequence[Segment],
    table: TableDefinition,
) -> Iterator[Doubt]:
    if log.state is not None:
        yield from lost_rows(log.state, found)
        yield from fell_across(found, log.state)
    yield from found.doubts
    yield from again.doubts
    if log.damaged:
        yield from unproven(found, {*log.published, *(s.path for s in present)})
        yield from missing(found, event.voided)
        yield from lost_predicates(log, table.kind)
        yield from lost_indexes(log.indexes)


def _check_decisions(decided: Decisions, files: FilesFound, deletes: DeletesLeft) -> None:
    there = {segment.path for segment in files.segments} | {*deletes.files}
    for path in sorted(decided.without | decided.also):
        if path not in there:
            raise InvalidInput(
                f"{path} is not a candidate for adoption: choose a file that the plan lists"
            )


def _event(
    found: Recovered,
    log: LogLeft,
    lost: Sequence[Segment],
    files: FilesFound,
    again: DeleteRecovery,
    table: TableDefinition,
) -> TableRepaired:
    fresh = {segment.path for segment in files.segments}
    unsafe = left_out(found, again.past)
    both = (s for s in (*found.kept, *found.carried) if s.id not in unsafe)
    whole = tuple(addressed(adopted(segment, log.state, fresh) for segment in both))
    seen = {segment.id for segment in files.segments}
    if log.state is None:
        return TableRepaired(
            segments=whole,
            vectors=again.file,
            voided=holes(whole, seen),
            overrides=found.overrides,
            log_buckets=log_buckets(log, files),
            reason="the log was lost; rebuilt from files",
        )
    present = {segment.id for segment in log.state.timeline.segments()}
    out = ({segment.id for segment in (*lost, *found.dropped)} | unsafe) & present
    new = tuple(segment for segment in whole if segment.id not in present - out)
    stays = present - out | {segment.id for segment in new}
    unwanted = (i for i in sorted(seen - stays) if _free(i, log.state))
    what = "the log was torn" if log.damaged else f"lost: {counted(len(lost), 'file')}"
    return TableRepaired(
        segments=new,
        lost=tuple(sorted(out)),
        vectors=again.file,
        voided=tuple(unwanted),
        overrides=None if fits(found, log.state) else found.overrides,
        table=None if table == log.state.table else table,
        log_buckets=log_buckets(log, files),
        reason=f"{what}; repaired",
    )


def _free(segment_id: SegmentId, state: State) -> bool:
    voided = state.voided.get(segment_id.chunk, frozenset())
    return not segment_id.provisional and segment_id.partition not in voided


def _changes(event: TableRepaired, log: LogLeft) -> bool:
    rows = event.segments or event.lost or event.voided or event.vectors
    return log.state is None or bool(rows or event.table or event.log_buckets)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: the table's ``state``, and the folder of torn log files."""

    state: State
    aside: str = field(default="")


def repair(ports: TableContext, plan: RepairPlan) -> Repaired:
    """Execute a plan; a repeated execution changes nothing.

    Raises:
        InvalidInput: a blocking doubt is not decided.
        CommitConflict: the table changed since the plan was made; plan again.
        StorageError: a read or write failed; run the same repair again.
    """
    if plan.blocking:
        raise InvalidInput(
            f"{ports.uri}: {counted(len(plan.blocking), 'doubt')} to resolve before the repair: "
            f"{plan.blocking[0].note}"
        )
    plan.delete_recovery.keep(ports)
    aside = _put_aside(ports, plan) if plan.log.torn else ""
    state = _begin_log(ports, plan) if plan.fresh else _go_on(ports, plan)
    EventLog(ports.storage).checkpoint(state)
    for place in {*plan.log.unfinished, *([aside] if aside else [])}:
        _create(ports, f"{place}done", b"")
    return Repaired(state, aside)


def _put_aside(ports: TableContext, plan: RepairPlan) -> str:
    now = {entry.path: entry for entry in ports.storage.list("_segtable")}
    torn = [e for e in plan.log.torn if e.path in now and not _ours(ports, plan, e)]
    changed = next((e for e in torn if now[e.path] != e), None)
    if changed:
        raise CommitConflict(f"{changed.path} changed after the plan was made: plan again")
    if not torn:
        return ""
    folder = f"{LOST}/{max(ports.clock.now(), _newest_time(plan))}/"
    _create(ports, f"{folder}begun", b"")
    for entry in torn:
        data = ports.storage.read(entry.path)
        _create(ports, f"{folder}{entry.path.removeprefix('_segtable/')}", data)
    _flush(ports, (f"{folder}{entry.path.removeprefix('_segtable/')}" for entry in torn))
    for entry in torn:
        ports.storage.delete(entry.path)
    _flush(ports, (entry.path for entry in torn))  # else a crash may restore them
    return folder


def _flush(ports: TableContext, paths: Iterable[str]) -> None:
    for place in sorted({path.rpartition("/")[0] for path in paths}):
        ports.storage.flush(place)


def _ours(ports: TableContext, plan: RepairPlan, entry: Entry) -> bool:
    """Return whether a repair with the same plan wrote this file."""
    return plan.fresh and entry.path == event_path(1) and _second(ports, plan) is not None


def _second(ports: TableContext, plan: RepairPlan) -> Event | None:
    try:
        found = decode(ports.storage.read(event_path(1)), event_path(1))
    except (NotFound, CorruptTable):
        return None
    return found if found.action == plan.event else None


def _create(ports: TableContext, path: str, data: bytes) -> None:
    try:
        ports.storage.create(path, data)
    except (AlreadyExists, OutcomeUnknown):
        if ports.storage.read(path) != data:
            raise


def _begin_log(ports: TableContext, plan: RepairPlan) -> State:
    if plan.event is None:
        raise InvalidInput(f"{ports.uri}: the plan has no event to begin a log with: plan again")
    event = Event(
        n=1,
        time=max(ports.checked_now(), _newest_time(plan) + 2),
        commit=_commit_id(plan),
        author=ports.author,
        action=plan.event,
    )
    try:
        ports.storage.create(event_path(1), encode(event))
    except (AlreadyExists, OutcomeUnknown):
        event = _second(ports, plan) or _overtaken(ports)
    first = replace(event, n=0, time=event.time - 1, commit=f"{event.commit}-0", action=plan.table)
    try:
        ports.storage.create(event_path(0), encode(first))
    except (AlreadyExists, OutcomeUnknown):
        if EventLog(ports.storage).event(0) != first:
            _overtaken(ports)
    return EventLog(ports.storage).load()


def _overtaken(ports: TableContext) -> Event:
    raise CommitConflict(f"{ports.uri}: another repair wrote a log meanwhile: plan again")


def _go_on(ports: TableContext, plan: RepairPlan) -> State:
    state = plan.log.state
    if state is None or plan.event is None:
        return state or EventLog(ports.storage).load()
    if not plan.log.sound:
        EventLog(ports.storage).checkpoint(state)  # makes the log readable
    change = Change(action=plan.event, commit_id=_commit_id(plan))
    return commit_or_raise(ports, state, change).state


def _newest_time(plan: RepairPlan) -> int:
    """Return the newest time in the old table's segments and remaining events."""
    times = [t for s in plan.files.segments for t in (s.created, s.id.version)]
    return max((*times, *(event.time for event in plan.log.events)), default=0)


def _commit_id(plan: RepairPlan) -> str:
    """Return the plan's commit id; equal plans have equal ids, so two repairs commit once."""
    n = plan.log.state.n if plan.log.state else 0
    stand_in = Event(n=n, time=0, commit="", author="", action=plan.event or plan.table)
    return f"repair-{hashlib.sha256(encode(stand_in)).hexdigest()[:16]}"
