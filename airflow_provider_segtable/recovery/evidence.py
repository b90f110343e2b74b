"""What is left of a table: its log as far as it can be read, and its files' footers.

1. The log counts up to the last event that can be read without a gap, from event 0 or from any
   checkpoint. What lies beyond is *torn*: evidence of what was committed, but no log any more.
2. What an earlier repair put aside and did not finish is evidence too.
3. A data file is a segment of this table, foreign (another table's, or no segment), or unreadable.
   Files of running sorts are left-overs: no segment is ever there.
4. A segment's file is lost if it is not there, or has another size than the log says.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    NotATable,
    NotFound,
    UnsupportedFormat,
    VersionExpired,
)
from airflow_provider_segtable.core.log.codec import decode
from airflow_provider_segtable.core.log.events import (
    Appended,
    Event,
    PlanCompleted,
    RowsChanged,
    TableCreated,
    TableRepaired,
)
from airflow_provider_segtable.core.log.state import State, apply
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    TABLE_KEY,
    decode_definition,
    described,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.data.sort.runs import FOLDER as RUNS
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint
from airflow_provider_segtable.table.log.event_log import (
    CHECKPOINTS,
    TIMELINE,
    EventLog,
    checkpoint_path,
    number,
)

LOST = "_segtable/lost"
READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLeft:
    """What is left of a log.

    Attributes:
        state: what it says; None if it cannot be read at all.
        torn: files of ``_segtable`` that are no log any more, to be put aside.
        events: the readable ones among them, and among what an unfinished repair put aside.
        unfinished: folders of repairs that began and did not end.
        sound: readers can open the table as it is.
    """

    state: State | None
    torn: tuple[Entry, ...]
    events: tuple[Event, ...]
    unfinished: tuple[str, ...]
    sound: bool

    @property
    def damaged(self) -> bool:
        """Tell whether events were lost."""
        return self.state is None or bool(self.torn) or bool(self.unfinished)

    @property
    def published(self) -> dict[str, Segment]:
        """Return the segments that torn events name, by path: they were committed."""
        found: dict[str, Segment] = {}
        for event in self.events:
            if isinstance(event.action, Appended | RowsChanged | PlanCompleted | TableRepaired):
                found |= {s.path: s for s in event.action.segments if s.path}
        return found


def read_log(ports: TableContext) -> LogLeft:
    """Load what is left of the log.

    Raises:
        UnsupportedFormat: a newer segtable wrote to it.
    """
    entries = [*ports.storage.list("_segtable")]
    aside = [entry for entry in entries if entry.path.startswith(f"{LOST}/")]
    live = [entry for entry in entries if not entry.path.startswith(f"{LOST}/")]
    state, sound = _newest(ports)
    torn = [*live] if state is None else [e for e in live if _beyond(e, state)]
    unfinished = _unfinished(aside)
    evidence = [*torn, *(e for e in aside if any(e.path.startswith(f) for f in unfinished))]
    return LogLeft(
        state=state,
        torn=tuple(torn),
        events=tuple(_events(ports, evidence)),
        unfinished=unfinished,
        sound=sound,
    )


def _newest(ports: TableContext) -> tuple[State | None, bool]:
    """Return the newest state that can be read, and whether readers find it, too."""
    log = EventLog(ports.storage)
    try:
        return log.load(), True
    except UnsupportedFormat:
        raise
    except (CorruptTable, NotATable, VersionExpired, NotFound):
        pass
    found: list[State] = []
    for base in (*_checkpoints(ports, log), None):
        start = base.n + 1 if base else 0
        state = _folded(log, base, start)
        found += [state] if state else []
    return max(found, key=lambda state: state.n, default=None), False


def _checkpoints(ports: TableContext, log: EventLog) -> Iterator[State]:
    for n in log.checkpoints():
        try:
            yield read_checkpoint(ports.storage.read(checkpoint_path(n)))
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
                yield decode(ports.storage.read(entry.path), entry.path)
            except (CorruptTable, NotFound):
                continue


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFound:
    """What lies under ``data/``; ``definitions`` by footer, with how many files have each."""

    segments: tuple[Segment, ...] = ()
    foreign: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    definitions: Mapping[bytes, int] = field(default_factory=dict)


def read_files(
    ports: TableContext, entries: Iterable[Entry], published: Mapping[str, Segment]
) -> FilesFound:
    """Load the footers of files, several at once, and sort them by what they are.

    Args:
        ports: the table's ports.
        entries: the files.
        published: segments that events name, by path: their footers' checksums are known.
    """
    entries = [*entries]
    runs = [e.path for e in entries if e.path.startswith(f"{RUNS}/")]
    data = [e.path for e in entries if not e.path.startswith(f"{RUNS}/")]
    with ThreadPoolExecutor(READERS) as pool:
        read = [*pool.map(lambda path: _read(ports, path, published.get(path)), data)]
    definitions = Counter(found[1] for found in read if isinstance(found, tuple) and found[1])
    return FilesFound(
        segments=tuple(found[0] for found in read if isinstance(found, tuple)),
        foreign=tuple(p for p, found in zip(data, read, strict=True) if found is None),
        unreadable={p: f for p, f in zip(data, read, strict=True) if isinstance(f, str)},
        leftovers=tuple(runs),
        definitions=definitions,
    )


def _read(
    ports: TableContext, path: str, known: Segment | None
) -> tuple[Segment, bytes] | str | None:
    """Return descriptor and definition, or why there is none, or None if it is foreign."""
    if not path.endswith(".parquet"):
        return None
    try:
        with SegmentFiles(ports.files, [known] if known else []).open(path) as source:
            footer = read_footer(source)
            if KEY not in footer.metadata:
                return None
            segment = described(source, footer)
            if segment.rows != footer.rows:
                return f"it has {footer.rows} rows and says {segment.rows}"
            return segment, footer.metadata.get(TABLE_KEY, b"")
    except (CorruptTable, NotFound) as error:
        return str(error)


def definition_of(
    found: FilesFound, events: Iterable[Event], given: TableCreated | None
) -> TableCreated:
    """Return what the table is, by a left event, by footers, or as given.

    Raises:
        InvalidInput: files of several tables lie here, or nothing tells what the table is.
    """
    for event in events:
        if isinstance(event.action, TableCreated):
            return event.action
    known = [decode_definition(data, "a footer")[0] for data in found.definitions]
    tables = sorted({table.table_id for table in known})
    if len(tables) > 1:
        raise InvalidInput(
            f"files of {len(tables)} tables lie here ({', '.join(tables)}): move the others away"
        )
    if known:
        return max(zip(found.definitions.values(), known, strict=True), key=lambda pair: pair[0])[1]
    if given is None:
        raise InvalidInput(
            "no file tells what the table is, they were written before files did: "
            "say it with --time and --granularity"
        )
    return given


def lost_files(state: State, entries: Iterable[Entry]) -> tuple[Segment, ...]:
    """Return the present segments whose files are gone, or are not what they were."""
    sizes = {entry.path: entry.size for entry in entries}
    segments = (s for s in state.timeline.segments() if s.path)
    return tuple(s for s in segments if sizes.get(s.path) != s.size)
