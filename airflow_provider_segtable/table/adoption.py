"""Adopt the Parquet files of a folder: make them files of a table, where they are.

1. *Look*: list the folder, read all footers, and derive a definition unless there is a table.
2. *Decide* (``data.adoption.decision``): each file is adopted, copied, refused or skipped. A dry
   run ends here. So does a run that would adopt nothing: the table is not even created.
3. *Create* the table at the root of the folder, unless it is there.
4. *Adopt* some files at a time: finish what another run left, lock new ids, make the files durable
   and compare them with their facts once more, put the record (``table.adopted_files``), commit
   the event. Nothing is moved, written again or deleted.
5. *Copy* the rest if that is wanted: rows are appended, each file once; the files stay.

Every step may be repeated. A run that is killed leaves the user's files as they were, and the next
one goes on. Adopted files belong to the table from then on: compaction replaces them, and cleaning
deletes them when no kept version needs them.

Source of the idea: ``add_files`` of Iceberg and ``CONVERT TO DELTA``, which leave chunks and
ownership to the user.
"""

import contextlib
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    NotATable,
    OutcomeUnknown,
    TableGone,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Adopted, copy_commit
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import OWN
from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity, Instant, Interval, Layout
from airflow_provider_segtable.data.adoption.decision import Action, Decision, decide, once
from airflow_provider_segtable.data.adoption.derivation import (
    derived_granularity,
    derived_schema,
    derived_time_column,
    fitting,
)
from airflow_provider_segtable.data.adoption.file_facts import (
    FileFacts,
    read_facts,
    settle_file,
    with_times,
)
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.adopted_files import (
    COPIED,
    AdoptionRecord,
    copied_path,
    listed_records,
    read_record,
    record_path,
)
from airflow_provider_segtable.table.append import BATCH_PRIORITY, append_request, check_filled
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import (
    begin_log,
    checked_schema,
    given_schema,
    known_granularity,
)
from airflow_provider_segtable.table.load import FileColumns, append_rows
from airflow_provider_segtable.table.property_checks import check_properties

SUFFIXES = (".parquet", ".parq", ".pq")
FILES_AN_EVENT = 4096
CHUNKS_AN_EVENT = 256
"""The most time chunks of one event: their ids are locked in one transaction."""
TRIES = 20
_THREADS = 16

Report = Callable[[str, int, int], None]
"""Called with the stage, the number of files that are done, and of all."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRequest:
    """What to adopt, and how.

    Attributes:
        time_column: the event time; by default the only timestamp of the files.
        granularity: the length of time chunks; by default as the files lie in time.
        schema: the columns; by default those of the files.
        name: the table's name; by default the last part of its address.
        properties: the table's properties.
        ignored: columns of files, or of folder names, to leave out.
        copy_rest: append the rows of files that cannot be adopted.
    """

    time_column: str | None = None
    granularity: Granularity | str | None = None
    schema: pa.Schema | None = None
    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    copy_rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """An adoption, or the plan of one.

    Attributes:
        table: the table's definition.
        decisions: what became of each Parquet file, by path.
        created: whether the run made the table, or would make it.
        version: the newest event; None before the table was created.
        events: the events that adopted files.
        copied: the paths of files whose rows were appended.
        fits: by granularity, the number of files that lie in one time chunk.
        others: the number of files that are not Parquet by their names.
        dry_run: whether nothing was written.
    """

    table: TableDefinition
    decisions: tuple[Decision, ...]
    created: bool
    version: int | None = None
    events: tuple[int, ...] = ()
    copied: tuple[str, ...] = ()
    fits: Mapping[Granularity, int] = field(default_factory=dict)
    others: int = 0
    dry_run: bool = False

    def those(self, action: Action) -> tuple[Decision, ...]:
        """Return the decisions of one action."""
        return tuple(each for each in self.decisions if each.action is action)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "name": self.table.name,
            "version": self.version,
            "dry_run": self.dry_run,
            "created": self.created,
            "time_column": self.table.time_column,
            "granularity": self.table.granularity.value,
            "fits": {each.value: count for each, count in self.fits.items()},
            "columns": [
                {"name": each.name, "type": each.type} for each in self.table.schema.columns
            ],
            "events": list(self.events),
            "copied": list(self.copied),
            "others": self.others,
            "totals": {each.value: self._total(each) for each in Action},
            "files": [_file_facts(each) for each in self.decisions],
        }

    def _total(self, action: Action) -> Facts:
        some = self.those(action)
        return {
            "files": len(some),
            "rows": sum(each.facts.rows for each in some),
            "bytes": sum(each.facts.size for each in some),
        }

    def __repr__(self) -> str:
        """Return the counts, on one line."""
        counts = Counter(each.action.value for each in self.decisions)
        said = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        return f"Adoption(version={self.version}, {said})"


def _file_facts(decision: Decision) -> Facts:
    return {
        "file": decision.facts.path,
        "rows": decision.facts.rows,
        "bytes": decision.facts.size,
        "chunk": str(decision.chunk) if decision.chunk else None,
        "action": decision.action.value,
        "reason": decision.reason,
    }


def plan_adoption(
    ports: TableContext, request: AdoptionRequest, report: Report = silent
) -> Adoption:
    """Return what an adoption would do, without writing; errors as ``adopt``."""
    seen = _look(ports, request, report)
    return replace(seen.outcome, dry_run=True)


def adopt(ports: TableContext, request: AdoptionRequest, report: Report = silent) -> Adoption:
    """Adopt the files of a folder.

    Args:
        ports: the ports of the table at the folder's root.
        request: what to adopt.
        report: called with the progress.

    Raises:
        InvalidInput: the folder is a table of another kind, no file can be adopted, or the event
            time is not known; nothing was written.
        CoordinatorUnavailable: there is no ZooKeeper; nothing was written.
        SchemaMismatch, InvalidName: the columns cannot be stored; nothing was written.
        CommitConflict, CommitUnknown, StorageError: run it again; it goes on.
    """
    seen = _look(ports, request, report)
    _ = ports.coordinator  # fails first if there is no ZooKeeper
    outcome = seen.outcome
    work = outcome.those(Action.ADOPT) or (request.copy_rest and outcome.those(Action.COPY))
    if not work and outcome.created:
        raise InvalidInput(f"{ports.uri}: {_nothing(outcome)}")
    if outcome.created:
        begin_log(ports, outcome.table)
    return seen.carried_out(report)


def _nothing(outcome: Adoption) -> str:
    left = next((each for each in outcome.decisions if each.reason), None)
    if left is None:
        return "there is no Parquet file with rows: check the path"
    copy = any(each.action is Action.COPY for each in outcome.decisions)
    hint = "; --copy-rest appends their rows" if copy else ""
    return f"no file can be adopted, e.g. {left.facts.path}: {left.reason}{hint}"


# Look: the folder, the footers, the definition
def _look(ports: TableContext, request: AdoptionRequest, report: Report) -> "_Run":
    entries, others, copied = _listed(ports)
    state = _state(ports)
    _check_folder(ports, entries, state)
    own = tuple(f"{name}/" for name in OWN) if state else ()  # a new table has nothing there
    some = [e for e in entries if _is_parquet(e.path) and not e.path.lower().startswith(own)]
    known: Collection[str] = named_paths(state) if state else ()
    new = [each for each in some if each.path not in known]
    facts = read_facts(ports.files, new, lambda done, total: report("footers", done, total))
    there = [FileFacts(path=e.path, size=e.size) for e in some if e.path in known]
    facts = sorted((*facts, *there), key=lambda each: each.path)
    sound = [each for each in facts if not each.problem]
    table = state.table if state else _definition(ports, request, sound)
    _check_request(request, table, state)
    times = lambda done, total: report("event times", done, total)  # noqa: E731
    facts = with_times(ports.files, facts, table.time_column, times)
    found = [b for each in facts if (b := each.times.get(table.time_column)) and each.rows]
    if state is None and request.granularity is None:
        table = replace(table, granularity=derived_granularity(found))
    run = _Run(ports=ports, request=request, table=table, state=state, facts=facts, copied=copied)
    run.others, run.fits = others, fitting(found)
    run.decide(planned=True)
    return run


def _listed(ports: TableContext) -> tuple[list[Entry], int, frozenset[str]]:
    """Return the user's files, the number of those that are not Parquet, the marks of copies."""
    every = [*ports.storage.list("")]
    copied = frozenset(each.path for each in every if each.path.startswith(f"{COPIED}/"))
    shown = [each for each in every if not _is_hidden(each.path)]
    _refuse_tables(ports, every)
    return shown, sum(not _is_parquet(each.path) for each in shown), copied


def _is_hidden(path: str) -> bool:
    """Return whether readers of folders skip a path, e.g. ``_SUCCESS`` and ``.part.crc``."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


_MARKS = (
    ("_delta_log/", "a Delta table"),
    (".hoodie/", "a Hudi table"),
    (".metadata.json", "an Iceberg table"),
)


def _refuse_tables(ports: TableContext, entries: Sequence[Entry]) -> None:
    """Refuse a folder of which another log says which files count."""
    paths = {entry.path for entry in entries}
    own = any(path.startswith("_segtable/timeline/") for path in paths)
    for path in sorted(paths):
        if own and path.startswith(("_delta_log/", "_iceberg/", "_segtable/")):
            continue
        for mark, title in _MARKS:
            if f"/{mark}" in f"/{path}" or path.endswith(mark):
                raise InvalidInput(
                    f"{ports.uri} is {title} ({path}), and its log says which files count: copy "
                    "it by its own reader, as the guide 'Move a table here' shows"
                )


def _state(ports: TableContext) -> State | None:
    try:
        return ports.log.load()
    except NotATable:
        return None


def _check_folder(ports: TableContext, entries: Sequence[Entry], state: State | None) -> None:
    """Refuse user's files in the folders that segtable writes, and cleans."""
    for entry in entries:
        top = entry.path.partition("/")[0]
        if state is None and "/" in entry.path and top.lower() in OWN:
            raise InvalidInput(
                f"{ports.uri} has {entry.path}, and a table keeps its own files in {top}/: rename "
                "this folder, or make the table one folder above"
            )


def _definition(
    ports: TableContext, request: AdoptionRequest, facts: Sequence[FileFacts]
) -> TableDefinition:
    """Return the definition of a new table; its granularity is derived later."""
    schema = request.schema or derived_schema(facts, request.ignored)
    time_column = request.time_column or derived_time_column(schema)
    table = TableDefinition(
        table_id=str(uuid.uuid4()),
        name=request.name or ports.uri.rstrip("/").rsplit("/", 1)[-1],
        schema=checked_schema(schema, time_column),
        time_column=time_column,
        granularity=known_granularity(request.granularity or Granularity.DAY),
        properties=dict(request.properties),
    )
    check_properties(table, table.properties)
    return table


def _check_request(request: AdoptionRequest, table: TableDefinition, state: State | None) -> None:
    """Refuse settings that the table does not have."""
    names = {*table.schema.names}
    for name in request.ignored:
        if name in names:
            raise InvalidInput(
                f"{name!r} is to be ignored, and is a column of the table: leave one of both out"
            )
    if state is None:
        return
    given = {
        "event time": (request.time_column, table.time_column),
        "granularity": (request.granularity, table.granularity),
        "name": (request.name, table.name),
    }
    for title, (wanted, there) in given.items():
        if wanted is not None and str(wanted) != str(there):
            raise InvalidInput(
                f"the table is there already, and its {title} is {there!s}, not {wanted!s}: leave "
                "this out"
            )


# Carry out
@dataclass(slots=True, kw_only=True)
class _Run:
    """One run: the facts about the files, and the table as it was last read."""

    ports: TableContext
    request: AdoptionRequest
    table: TableDefinition
    state: State | None
    facts: Sequence[FileFacts]
    copied: frozenset[str]
    others: int = 0
    fits: Mapping[Granularity, int] = field(default_factory=dict)
    adopted: dict[str, Decision] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    appended: list[str] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    seen: int = -1
    judged: dict[str, Decision] = field(default_factory=dict)
    judged_for: tuple[TableDefinition, Layout] | None = None
    newest: AdoptionRecord | None = field(init=False, default=None)
    created: bool = field(init=False)

    def __post_init__(self) -> None:
        """Remember whether there was a table, and which files were adopted before."""
        self.created = self.state is None
        self.newest = self._read_records()

    def _read_records(self) -> AdoptionRecord | None:
        """Read the records that are new; return the newest one of the table, unless it is known.

        A record of an earlier table was put too late: the event of none of its files is in a log.
        """
        storage, newest = self.ports.storage, None
        new = [n for n in listed_records(storage) if n > self.seen]
        with ThreadPoolExecutor(_THREADS) as pool:
            for n, record in zip(new, pool.map(partial(read_record, storage), new), strict=True):
                self.seen = n
                if self.state is None or record.table_id == self.state.table.table_id:
                    self.recorded |= {segment.path for segment in record.segments}
                    newest = record
        return newest

    @property
    def outcome(self) -> Adoption:
        """Return what has been done so far."""
        return Adoption(
            table=self.table,
            decisions=tuple(self.adopted.get(d.facts.path, d) for d in self.decisions),
            created=self.created,
            version=self.state.n if self.state else None,
            events=tuple(self.events),
            copied=tuple(self.appended),
            fits=self.fits,
            others=self.others,
        )

    def decide(self, *, planned: bool = False) -> None:
        """Decide about each file, by the table as it is.

        ``planned`` says that the newest record's event may be committed first.
        """
        layout = self.state.layout if self.state else self.table.layout()
        known: Collection[str] = named_paths(self.state) if self.state else ()
        recorded = self.recorded - (self._open_paths() if planned else set())
        self.decisions = [
            self._unless_copied(once(self._judged(each, layout), known=known, recorded=recorded))
            for each in self.facts
        ]

    def _judged(self, facts: FileFacts, layout: Layout) -> Decision:
        """Return the decision about a new file, which holds until the table is altered."""
        given = self.table, layout
        if self.judged_for != given:
            self.judged_for, self.judged = given, {}
        found = self.judged.get(facts.path)
        if found is None or found.facts is not facts:
            found = decide(facts, self.table, layout, ignored=self.request.ignored)
            self.judged[facts.path] = found
        return found

    def _unless_copied(self, decision: Decision) -> Decision:
        """Return the decision, or that its rows are there: other time chunks may fit it now."""
        commits = self.state.commits if self.state else {}
        there = _mark(decision.facts) in self.copied or _commit_id(decision.facts) in commits
        if decision.action is not Action.SKIP and there:
            return replace(decision, action=Action.SKIP, reason="its rows were copied already")
        return decision

    def carried_out(self, report: Report) -> Adoption:
        """Adopt and copy; return the outcome."""
        self.state = self.ports.log.load()
        tries = 0
        while True:
            before = len(self.events)
            total = len(self.adopted) + len(self._wanted())
            more = self._adopt_some()
            report("adopted", len(self.adopted), total)
            if not more:
                break
            tries = 0 if len(self.events) > before else tries + 1
            if tries > TRIES:
                raise CommitConflict(
                    f"{self.ports.uri}: others changed the table at each of {TRIES} tries: run it "
                    "again, it goes on"
                )
        if self.request.copy_rest:
            self._copy_rest(report)
        return self.outcome

    def _wanted(self) -> list[Decision]:
        return [each for each in self.decisions if each.action is Action.ADOPT]

    def _adopt_some(self) -> bool:
        """Adopt some files; return whether to go on."""
        self._finish()
        self.decide()
        some = self._settled(_batch(self._wanted()))
        if not some:
            return bool(self._wanted())
        self._commit(some, self.seen + 1)
        return True

    def _finish(self) -> None:
        """Commit the event of the newest record, if it has no outcome."""
        ports = self.ports
        self.newest = self._read_records() or self.newest
        self.state = ports.log.refresh(self._state)
        record = self.newest
        if record and self._is_open(record):
            change = Change(action=Adopted(segments=record.segments), commit_id=record.commit_id)
            self._take(commit(ports, self._state, change), change, record.segments)
        self.table = self._state.table

    def _is_open(self, record: AdoptionRecord) -> bool:
        """Return whether the table's record may lack its outcome: none of its ids was settled."""
        if record.table_id != self._state.table.table_id:
            return False
        if record.commit_id in self._state.commits:
            return False
        ids = (segment.id for segment in record.segments)
        free = all(self._state.id_space(i.chunk, Generation.FIRST).free(i.partition) for i in ids)
        facts = {each.path: each for each in self.facts}
        return free and all(
            (known := facts.get(s.path)) is not None and known.footer == s.footer
            for s in record.segments
        )

    def _open_paths(self) -> set[str]:
        record = self.newest if self.state else None
        return {s.path for s in record.segments} if record and self._is_open(record) else set()

    @property
    def _state(self) -> State:
        assert self.state is not None  # noqa: S101 - after the table was created
        return self.state

    def _settled(self, some: Sequence[Decision]) -> list[Decision]:
        """Make files durable; leave out those that have changed, with the reason."""
        with ThreadPoolExecutor(_THREADS) as pool:
            changes = [*pool.map(lambda d: settle_file(self.ports.files, d.facts), some)]
        for folder in {each.facts.path.rpartition("/")[0] for each in some}:
            self.ports.storage.flush(folder)
        problems = {d.facts.path: why for d, why in zip(some, changes, strict=True) if why}
        if problems:
            self.facts = [
                replace(each, problem=problems[each.path]) if each.path in problems else each
                for each in self.facts
            ]
            self.decide()
        return [each for each in some if each.facts.path not in problems]

    def _commit(self, some: Sequence[Decision], number: int) -> None:
        ports, state = self.ports, self._state
        commit_id = f"adopt-{ports.randomness.token()}"
        counts = Counter(each.chunk for each in some if each.chunk is not None)
        request = append_request(ports, state, counts, commit_id, BATCH_PRIORITY)
        lease = ports.coordinator.acquire_for_append(request, wait_s=60.0)
        with ports.leased(lease, request.table):
            fresh = ports.log.refresh(state)
            if (fresh.layout, fresh.table) != (state.layout, state.table):
                self.state, self.table = fresh, fresh.table
                return  # decide again
            segments = described(some, lease.allocated, ports.clock.now())
            definition = encode_definition(fresh.table, fresh.base_version)
            record = AdoptionRecord(commit_id=commit_id, segments=segments, definition=definition)
            with contextlib.suppress(AlreadyExists, OutcomeUnknown):  # the next try finishes it
                ports.storage.create(record_path(number), record.encoded())
                change = Change(
                    action=Adopted(segments=segments), commit_id=commit_id, guard=lease.check
                )
                try:
                    self._take(commit(ports, fresh, change), change, segments)
                except TableGone:
                    ports.storage.delete(record_path(number))  # a drop may have listed the others
                    raise

    def _take(
        self, outcome: Committed | Conflict | Unknown, change: Change, segments: Sequence[Segment]
    ) -> None:
        if isinstance(outcome, Unknown):
            raise CommitUnknown(way_out(self.ports, change, outcome.n))
        if isinstance(outcome, Conflict):
            self.state = self.ports.log.refresh(self._state)
            return
        self.state = outcome.state
        self.events.append(outcome.n)
        paths = {segment.path for segment in segments}
        self.adopted |= {
            each.facts.path: replace(each, action=Action.ADOPT, reason="")
            for each in self.decisions
            if each.facts.path in paths
        }

    def _copy_rest(self, report: Report) -> None:
        rest = [each for each in self.decisions if each.action is Action.COPY]
        for done, decision in enumerate(rest, start=1):
            self._copy(decision.facts)
            report("copied", done, len(rest))
        self.state = self.ports.log.refresh(self._state)

    def _copy(self, facts: FileFacts) -> None:
        """Append the rows of a file; equal bytes under one name once, and none that was adopted."""
        ports, table = self.ports, self._state.table
        if facts.path in named_paths(ports.log.refresh(self._state)):
            return  # another run found a time chunk that holds it
        with ports.files.open(facts.path) as source:
            rows = parquet_file(SourceFile(source)).read()
        names = [name for name in rows.column_names if name not in self.request.ignored]
        columns = FileColumns(names={name: name for name in names}, cast=True)
        taken = columns.taken(rows, given_schema(table), table)
        append_rows(ports, taken, commit_id=_commit_id(facts), check=check_filled)
        with contextlib.suppress(AlreadyExists):
            ports.storage.create(_mark(facts), facts.path.encode())
        self.appended.append(facts.path)


def named_paths(state: State) -> frozenset[str]:
    """Return the paths of all files that the log names."""
    return state.pending_delete.union(state.timeline.paths())


def described(
    some: Sequence[Decision], ids: Sequence[SegmentId], created: Instant
) -> tuple[Segment, ...]:
    """Return the descriptors of files to adopt, under these ids; ordered by chunk and path."""
    left: dict[Interval, deque[SegmentId]] = {}
    for each in ids:
        left.setdefault(each.interval, deque()).append(each)
    return tuple(
        _segment(each, left[each.chunk].popleft(), created)
        for each in some
        if each.chunk is not None and each.bounds is not None
    )


def _segment(decision: Decision, segment_id: SegmentId, created: Instant) -> Segment:
    facts, bounds = decision.facts, decision.bounds
    assert bounds is not None  # noqa: S101 - an adopted file has rows in one chunk
    return Segment(
        id=segment_id,
        shard=Shard.first_generation(segment_id.partition),
        path=facts.path,
        rows=facts.rows,
        size=facts.size,
        row_groups=facts.row_groups,
        time_min=bounds.first,
        time_max=bounds.last,
        created=created,
        footer=facts.footer,
    )


def _batch(wanted: Sequence[Decision]) -> list[Decision]:
    """Return the files of the next event: those of the first time chunks."""
    ordered = sorted(wanted, key=lambda each: (str(each.chunk), each.facts.path))
    chunks = dict.fromkeys(each.chunk for each in ordered)
    first = {*[*chunks][:CHUNKS_AN_EVENT]}
    return [each for each in ordered if each.chunk in first][:FILES_AN_EVENT]


def _commit_id(facts: FileFacts) -> str:
    return copy_commit(facts.path, facts.size, facts.footer.crc if facts.footer else 0)


def _mark(facts: FileFacts) -> str:
    crc = facts.footer.crc if facts.footer else 0
    return copied_path(f"{facts.path} {facts.size} {crc}")
