"""Gather the evidence for a repair: the readable part of the log, and the footers of files.

1. The log is valid up to the last event that is readable without a gap, from event 0 or from any
   checkpoint. Later files are *torn*: evidence of commits, but not part of the log.
2. Files that an unfinished repair put aside are evidence, too.
3. A data file is a segment, foreign (not a segtable segment), or unreadable. Files of running sorts
   are leftovers: they never contain a segment.
4. An adopted file has no descriptor in its footer: the record of its adoption stands in for it, if
   the file is still the one that was adopted. Other files outside of ``data/`` are no evidence.
5. A segment's file is lost if it is missing, or its size differs from the log's record.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    NotATable,
    NotFound,
    TableGone,
    UnsupportedFormat,
    VersionExpired,
)
from airflow_provider_segtable.core.indexes.index_state import INDEXES
from airflow_provider_segtable.core.log.events import Event, decode_file
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.table_events import (
    TableAltered,
    TableDropped,
    altered,
)
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, TIMELINE, number
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_adopted
from airflow_provider_segtable.core.recovery.claims import MergedRoots
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.file_offsets import decode_offsets
from airflow_provider_segtable.data.keyed.group_reader import merged_roots
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    TABLE_KEY,
    SegmentFiles,
    check_identity,
    decode_definition,
    described,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.data.sort.blocks import FOLDER as RUNS
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.adopted_files import FOLDER as ADOPTED
from airflow_provider_segtable.table.adopted_files import AdoptedFile, adopted_entries
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import indexes_with_logs
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_files import proved

LOST = "_segtable/lost"
READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLeft:
    """The remains of a log.

    Attributes:
        state: the newest readable state; None if no state is readable.
        torn: files of ``_segtable`` that are not part of the log any more, to be put aside.
        events: the readable events in ``torn`` and in unfinished repairs.
        unfinished: folders of unfinished repairs.
        sound: whether readers can open the table in its current form.
        indexes: ids of the indexes whose tables have a log, and are not in ``state``.
    """

    state: State | None
    torn: tuple[Entry, ...]
    events: tuple[Event, ...]
    unfinished: tuple[str, ...]
    sound: bool
    indexes: tuple[str, ...] = ()

    @property
    def damaged(self) -> bool:
        """Return whether the log is lost, torn, or under an unfinished repair."""
        return self.state is None or bool(self.torn) or bool(self.unfinished)

    @property
    def named(self) -> frozenset[str]:
        """Return the data files that the newest readable state names."""
        if self.state is None:
            return frozenset()
        return self.state.pending_delete.union(self.state.timeline.paths())

    @property
    def published(self) -> dict[str, Segment]:
        """Return the segments in torn events, by path: they were committed."""
        found: dict[str, Segment] = {}
        for event in self.events:
            if isinstance(event.action, Appended | RowsChanged | PlanCompleted | TableRepaired):
                found |= {s.path: s for s in event.action.segments if s.path}
        return found


def read_log(ports: TableContext) -> LogLeft:
    """Load the remains of the log; those of the indexes' own logs are no part of it.

    Raises:
        UnsupportedFormat: a newer segtable wrote to it.
        TableGone: the table was dropped.
    """
    entries = [*ports.storage.list("_segtable")]
    aside = [entry for entry in entries if entry.path.startswith(f"{LOST}/")]
    inner = f"{INDEXES}/"
    beside = (f"{LOST}/", inner, f"{ADOPTED}/")
    live = [entry for entry in entries if not entry.path.startswith(beside)]
    state, sound = _newest(ports)
    torn = [*live] if state is None else [e for e in live if _beyond(e, state)]
    unfinished = _unfinished(aside)
    evidence = [*torn, *(e for e in aside if any(e.path.startswith(f) for f in unfinished))]
    events = tuple(_events(ports, evidence))
    if any(isinstance(event.action, TableDropped) for event in events):
        raise TableGone(f"{ports.uri} was dropped, but not whole: run `segtable table drop` again")
    folders = indexes_with_logs(entry.path for entry in entries)
    known = {each.definition.id for each in state.indexes.values()} if state else set()
    return LogLeft(
        indexes=tuple(sorted(folders - known)),
        state=state,
        torn=tuple(torn),
        events=events,
        unfinished=unfinished,
        sound=sound,
    )


def _newest(ports: TableContext) -> tuple[State | None, bool]:
    """Return the newest readable state, and whether ordinary readers find it."""
    log = EventLog(ports.storage)
    try:
        return log.load(), True
    except (UnsupportedFormat, TableGone):
        raise
    except (CorruptTable, NotATable, VersionExpired, NotFound):
        pass
    found: list[State] = []
    for base in (*_checkpoints(log), None):
        start = base.n + 1 if base else log.begin()
        state = _folded(log, base, start)
        found += [state] if state else []
    return max(found, key=lambda state: state.n, default=None), False


def _checkpoints(log: EventLog) -> Iterator[State]:
    for n in log.checkpoints():
        try:
            yield proved(log, n)
        except (CorruptTable, NotFound):
            continue


def _folded(log: EventLog, base: State | None, start: int) -> State | None:
    state = base
    try:
        for event in log.events(start):
            state = apply(state, event)
    except CorruptTable:
        return state
    return state


def _beyond(entry: Entry, state: State) -> bool:
    n = number(entry.path)
    folder = entry.path.rsplit("/", 1)[0]
    return folder in (TIMELINE, CHECKPOINTS) and n is not None and n > state.n


def _unfinished(aside: Sequence[Entry]) -> tuple[str, ...]:
    paths = {entry.path for entry in aside}
    folders = {"/".join(path.split("/")[:3]) for path in paths}
    return tuple(f"{folder}/" for folder in sorted(folders) if f"{folder}/done" not in paths)


def _events(ports: TableContext, entries: Iterable[Entry]) -> Iterator[Event]:
    for entry in entries:
        if number(entry.path) is not None and entry.path.endswith(".json"):
            try:
                yield from decode_file(ports.storage.read(entry.path), entry.path)
            except (CorruptTable, NotFound):
                continue


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFound:
    """The files under ``data/`` by kind.

    ``definitions`` counts files per table definition; ``merged`` has the log files whose records
    are in a file. ``log_buckets`` are those of the log store whose records are in files.
    """

    segments: tuple[Segment, ...] = ()
    foreign: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    definitions: Mapping[bytes, int] = field(default_factory=dict)
    merged: MergedRoots = field(default_factory=dict)
    log_buckets: frozenset[int] = frozenset()


def data_entries(
    ports: TableContext, state: State | None, records: Mapping[str, AdoptedFile]
) -> list[Entry]:
    """Return the data files that are there: those below ``data/``, and adopted ones."""
    named = state.timeline.paths() if state and state.adopts else ()
    outside = {path for path in (*named, *records) if is_adopted(path)}
    return [*ports.storage.list("data"), *adopted_entries(ports.storage, outside)]


def read_files(
    ports: TableContext,
    entries: Iterable[Entry],
    published: Mapping[str, Segment],
    records: Mapping[str, AdoptedFile],
) -> FilesFound:
    """Load the footers of files concurrently, and classify the files.

    Args:
        ports: the table's ports.
        entries: the files.
        published: segments in events, by path, with the checksums of their footers.
        records: the records of adopted files, by path.
    """
    entries = [*entries]
    runs = [e.path for e in entries if e.path.startswith(f"{RUNS}/")]
    data = [e.path for e in entries if not e.path.startswith(f"{RUNS}/")]
    with ThreadPoolExecutor(READERS) as pool:
        read = [
            *pool.map(
                lambda path: (
                    _adopted(ports, records[path])
                    if path in records
                    else _read(ports, path, published.get(path))
                ),
                data,
            )
        ]
    found = [each for each in read if isinstance(each, Descriptors)]
    return FilesFound(
        segments=tuple(each.segment for each in found),
        foreign=tuple(p for p, found in zip(data, read, strict=True) if found is None),
        unreadable={p: f for p, f in zip(data, read, strict=True) if isinstance(f, str)},
        leftovers=tuple(runs),
        definitions=Counter(each.definition for each in found if each.definition),
        merged={each.segment.path: each.merged for each in found if each.merged},
        log_buckets=frozenset(bucket for each in found for bucket in each.log_buckets),
    )


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The entries of one footer: the segment, the table, the log files that were merged.

    ``log_buckets`` are those of the log store whose records are in the file.
    """

    segment: Segment
    definition: bytes
    merged: tuple[int, ...]
    log_buckets: tuple[int, ...]


def _read(ports: TableContext, path: str, known: Segment | None) -> Descriptors | str | None:
    """Return a footer's entries, or the error, or None if the file is foreign."""
    if not path.endswith(".parquet"):
        return None
    try:
        with SegmentFiles(ports.files, [known] if known else []).open(path) as source:
            footer = read_footer(source)
            if KEY not in footer.metadata:
                return None
            segment = described(source, footer)
            if segment.rows != footer.rows:
                return f"it has {counted(footer.rows, 'row')}, its descriptor has {segment.rows}"
            merged = merged_roots(footer.metadata, segment)
            logged = tuple(each.bucket for each in decode_offsets(footer.metadata))
            return Descriptors(segment, footer.metadata.get(TABLE_KEY, b""), merged, logged)
    except (CorruptTable, NotFound) as error:
        return str(error)


def _adopted(ports: TableContext, record: AdoptedFile) -> Descriptors | str:
    """Return the entries of the record of an adopted file, or how the file differs from it."""
    segment = record.segment
    try:
        with SegmentFiles(ports.files, [segment]).open(segment.path) as source:
            footer = read_footer(source)
            check_identity(segment, rows=footer.rows, row_groups=footer.group_count, entry=None)
    except (CorruptTable, NotFound) as error:
        return str(error)
    return Descriptors(segment, record.definition, (), ())


def candidates(files: FilesFound, state: State | None) -> list[Segment]:
    """Return the segments that may be adopted; voided ids are excluded permanently."""
    if state is None:
        return [*files.segments]
    return [
        s for s in files.segments if s.id.partition not in state.voided.get(s.id.chunk, frozenset())
    ]


def log_buckets(log: LogLeft, files: FilesFound) -> tuple[int, ...]:
    """Return the buckets of the log store of which events may be lost."""
    if not log.damaged:
        return ()
    known = {*files.log_buckets, *(log.state.log_store if log.state else ())}
    for event in log.events:
        match event.action:
            case LogEpochBegun(buckets=buckets):
                known |= {*buckets}
            case Appended(log=ranges):
                known |= {each.bucket for each in ranges}
    return tuple(sorted(known))


def definition_of(
    found: FilesFound,
    events: Iterable[Event],
    given: TableDefinition | None,
    logged: TableDefinition | None = None,
) -> TableDefinition:
    """Return the table's newest definition: of the log, of remaining events, or of footers.

    Footers have the definition as of their file, so they know of alterations that the log lost.

    Args:
        found: the files that the log does not name.
        events: the readable events that are no part of the log.
        given: the definition to take if there is none.
        logged: the definition in the remains of the log.

    Raises:
        InvalidInput: there are files of several tables, or no source has a definition.
    """
    events = sorted(events, key=lambda event: event.n)
    created = [event.action for event in events if isinstance(event.action, TableDefinition)]
    first = logged or (created[0] if created else _of_footers(found, given))
    newer = (decode_definition(data, "a footer")[0] for data in found.definitions)
    same = (table for table in newer if table.table_id == first.table_id)
    newest = max((first, *same), key=lambda table: table.altered)
    for event in events:
        if isinstance(event.action, TableAltered) and event.action.after == newest.altered:
            newest = altered(newest, event.action, event.n)
    return newest


def _of_footers(found: FilesFound, given: TableDefinition | None) -> TableDefinition:
    known = [decode_definition(data, "a footer")[0] for data in found.definitions]
    tables = sorted({table.table_id for table in known})
    if len(tables) > 1:
        raise InvalidInput(
            f"files of {len(tables)} tables were found ({', '.join(tables)}): move the others away"
        )
    if known:
        return max(zip(found.definitions.values(), known, strict=True), key=lambda pair: pair[0])[1]
    if given is None:
        raise InvalidInput(
            "no file has the table's definition, because an older segtable wrote them: "
            "give --time and --granularity"
        )
    return given


def lost_files(state: State, entries: Iterable[Entry]) -> tuple[Segment, ...]:
    """Return the present segments whose files are missing or have another size."""
    sizes = {entry.path: entry.size for entry in entries}
    segments = (s for s in state.timeline.segments() if s.path)
    return tuple(s for s in segments if sizes.get(s.path) != s.size)
