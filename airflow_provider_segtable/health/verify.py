"""Verify a table: its log, its files, and their agreement. Reads only.

1. *The log*, as far as it is kept: numbers without gaps, every checksum, times strictly
   increasing, every event accepted by the fold, every checkpoint equal to the fold. If the log's
   start has expired, or an event is broken, the fold continues from the next checkpoint. Tagged
   versions have the checkpoint they need.
2. *The state*: the invariants at the newest version. With ``all_versions``, at every version, but
   only for the parts that its event changed. No file is visible twice.
3. *The files* of all visible segments (with ``all_versions``, of all present ones): footers; with
   ``deep``, every byte and row (``data.inspection``). A few threads read
   concurrently.
4. *The vectors* of the newest version, with every row number (``health.table_checks``).
5. The log store: committed ranges of offsets, and with ``deep`` or ``all_versions`` the records of
   their files (``health.table_checks``).
6. What is published in other formats: whether it and all that it refers to can be read, its files
   are there, and it has the rows of its event, by number, with ``deep`` by checksums
   (``health.published_rows``).
7. The indexes: their own tables, and whether entries agree with files (``health.table_checks``).
8. No coordinator and no lock is needed. The log as first listed is the version to verify. A
   missing file is reported lost only if the newest version still has its segment; findings during
   the removal of an index, of a target or of the table are not reported either.
9. A storage failure does not prove damage: a file that could not be read is UNCHECKED.
10. A run may verify a part of a large table: what was written lately, and some of the rest by rota
    (``health.verified_part``). A sidecar is read once in a run, however many checkpoints list it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from itertools import islice

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotATable,
    NotFound,
    OtherFormat,
    SegtableError,
    TableGone,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import (
    CHECKPOINTS,
    TAGS,
    TIMELINE,
    checkpoint_path,
    event_path,
    number,
    tag_path,
)
from airflow_provider_segtable.core.log.state import IdSpaces, State
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    Severity,
    bad_checkpoint,
    bad_tag,
    broken_event,
    broken_invariant,
    doubled_file,
    log_gap,
    log_without_base,
    shared_files,
    violations_since,
    worst,
    worst_first,
    wrong_checkpoint,
)
from airflow_provider_segtable.core.segment import ChunkKey, Segment, with_base_of
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.health.published_rows import check_targets
from airflow_provider_segtable.health.settlement_check import check_settlements
from airflow_provider_segtable.health.table_checks import (
    FileCheck,
    check_indexes,
    check_log_store,
    check_vectors,
)
from airflow_provider_segtable.health.verified_part import Part
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint
from airflow_provider_segtable.table.log.event_log import TRIES, EventLog
from airflow_provider_segtable.table.log.sidecar_files import proved
from airflow_provider_segtable.table.log.sidecars import layers_of

THREADS = 4
BLOCK = 256
"""Number of events that are read at once."""
FILES = 1024
"""Number of files whose descriptors are held at once."""

Report = Callable[[str, int, int], None]
"""Called with the stage, the finished amount and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The scope and the findings of a verification.

    ``first`` and ``version`` are the oldest and newest event read; ``versions``, ``checkpoints``
    and ``files`` are the numbers checked; ``rows`` is 0 unless ``deep``. Files of a ``keyed`` table
    have records instead of rows: several of a key, and tombstones.
    """

    first: int
    version: int
    versions: int
    checkpoints: int
    files: int
    rows: int
    findings: tuple[Finding, ...]
    keyed: bool = False

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "version": self.version,
            "first_event": self.first,
            "checked": {
                "versions": self.versions,
                "checkpoints": self.checkpoints,
                "files": self.files,
                "rows": 0 if self.keyed else self.rows,
                "records": self.rows if self.keyed else 0,
            },
            "findings": [finding.facts() for finding in worst_first(self.findings)],
        }

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong, and everything could be looked at."""
        return worst(self.findings) in (None, Severity.INFO)

    def __repr__(self) -> str:
        """Return the verdict and the counts, on one line."""
        counts = {"version": self.version, "files": self.files, "findings": len(self.findings)}
        said = ", ".join(f"{name}={count}" for name, count in counts.items())
        return f"Verification(sound={self.sound}, {said})"


def verify(
    ports: TableContext,
    *,
    all_versions: bool = False,
    deep: bool = False,
    part: Part | None = None,
    threads: int = THREADS,
    report: Report = lambda _stage, _done, _total: None,
) -> Verification:
    """Verify a table.

    Args:
        ports: the table's ports; no coordinator is needed.
        all_versions: check the invariants at every version, and hidden segments' files, too.
        deep: decode every row.
        part: verify a part of a large table; not with ``all_versions``.
        threads: number of files read concurrently.
        report: called with the progress.

    Raises:
        NotATable: the location has no log, or the table was dropped.
        UnsupportedFormat: a newer segtable wrote to it.
        StorageError: the log could not be listed or read.
    """
    log = EventLog(ports.storage)
    _refuse_dropped(log)
    scope = _Scope(all_versions=all_versions, deep=deep, part=part)
    found = _verified(ports, scope, threads, report)
    if not found.sound:
        _refuse_dropped(log)  # files that a drop removed meanwhile are no damage
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What a run looks at; arguments as for ``verify``."""

    all_versions: bool
    deep: bool
    part: Part | None

    def takes(self, name: str) -> bool:
        return self.part is None or self.part.takes(name)

    def states(self, ports: TableContext, state: State) -> Iterator[State]:
        """Yield the state, or parts of it."""
        return iter([state]) if self.part is None else self.part.states(ports.storage, state)

    def segments(self, timeline: Timeline) -> Iterator[Segment]:
        chosen = timeline.segments() if self.all_versions else timeline.each_visible()
        return (segment for segment in chosen if segment.path)

    def count(self, timeline: Timeline) -> int:
        return sum(1 for _ in timeline.paths()) if self.all_versions else _visible(timeline)


def _verified(ports: TableContext, scope: _Scope, threads: int, report: Report) -> Verification:
    """Look at all that the scope has."""
    deep = scope.deep
    with ThreadPoolExecutor(threads) as pool:
        walk = _walked(ports, pool, report, scope)
        findings = walk.findings
        state = walk.good
        if state is None:
            return _verification(ports, walk, 0, 0)
        files = FileCheck(ports=ports, state=state, deep=deep)
        total = 0
        for some in scope.states(ports, state):
            wrong = () if walk.checked == state.n else violations(some)
            findings += [broken_invariant(state.n, each) for each in wrong]
            findings += [doubled_file(*each) for each in shared_files(some)]
            findings += check_settlements(ports, some, deep=deep)
            total += scope.count(some.timeline)
            findings += _files(files, scope.segments(some.timeline), pool, report, total)
        findings += _bad_tags(walk, state, scope)
        findings += files.still_lost(EventLog(ports.storage))
        findings += check_vectors(ports, state)
        findings += check_targets(ports, state, deep=deep) if scope.takes("published") else ()
        begin = walk.first if scope.part else 0
        look = scope.all_versions or deep
        findings += check_log_store(ports, state, walk.logged, files=look, begin=begin)
    if scope.takes("indexes"):
        inner = partial(_inner, deep=deep, threads=threads)
        findings += check_indexes(ports, state, inner, deep=deep)
    return _verification(ports, walk, files.checked, files.rows if deep else 0)


def _files(
    files: FileCheck,
    segments: Iterator[Segment],
    pool: ThreadPoolExecutor,
    report: Report,
    total: int,
) -> Iterator[Finding]:
    """Yield findings about the files of some segments."""
    while batch := [*islice(segments, FILES)]:
        for found in pool.map(files.check, batch):
            yield from found
            files.checked += 1
            report("files", files.checked, total)
        files.rows += sum(segment.rows for segment in batch)


def _inner(ports: TableContext, *, deep: bool, threads: int) -> tuple[Finding, ...]:
    return verify(ports, deep=deep, threads=threads).findings


def _visible(timeline: Timeline) -> int:
    """Return the number of visible segments with a file."""
    summaries = timeline.visible_summaries().values()
    return sum(sum(summary.sizes.values()) for summary in summaries)


def _walked(
    ports: TableContext, pool: ThreadPoolExecutor, report: Report, scope: _Scope
) -> "_Walk":
    """Read the log; repeat if events expired meanwhile."""
    for _ in range(TRIES):
        begin = EventLog(ports.storage).first()
        walk = _Walk(ports=ports, all_versions=scope.all_versions)
        base = -1 if scope.part is None else scope.part.base(ports.storage)
        if scope.part is None or base < begin or not walk.begin_at(base, scope.part):
            walk.first = begin
        walk.go(pool, report)
        if begin == EventLog(ports.storage).first():
            break
    return walk


def _verification(ports: TableContext, walk: "_Walk", files: int, rows: int) -> Verification:
    return Verification(
        first=walk.first,
        version=walk.last,
        versions=walk.versions,
        checkpoints=walk.compared,
        files=files,
        rows=rows,
        findings=tuple(each.of_table(ports.uri) for each in walk.findings),
        keyed=walk.good is not None and walk.good.table.kind.rules is not None,
    )


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One pass over the log; ``state`` is the fold so far, None after a missing or broken event.

    ``first`` is the first event to read; ``sound`` are sidecars that were read, or need not be.
    ``good`` is the newest known state, ``checked`` the newest version with checked invariants;
    ``tagged`` are the expected states of the tags' checkpoints, ``logged`` the events that commit
    records of the log store.
    """

    ports: TableContext
    all_versions: bool
    first: int = 0
    last: int = -1
    state: State | None = None
    good: State | None = None
    before: Event | None = None
    versions: int = 0
    compared: int = 0
    checked: int = -1
    tagged: dict[int, State] = field(default_factory=dict)
    logged: dict[int, Event] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    sound: set[str] = field(default_factory=set)

    def begin_at(self, n: int, part: Part) -> bool:
        """Begin after a checkpoint, and read those of its sidecars that are due.

        Returns:
            Whether it has sidecars, and can be read.
        """
        log = EventLog(self.ports.storage)
        state = log.at_checkpoint(n)
        layers = None if state is None else layers_of(state)
        if state is None or layers is None or not layers.sidecars:
            return False
        self.state = self.good = state
        self.first = state.n + 1
        self.sound.update(each.path for each in layers.sidecars if not part.takes(each.path))
        self._checkpoint(n)  # a damaged sidecar is made again silently where it is looked at
        return True

    def go(self, pool: ThreadPoolExecutor, report: Report) -> None:
        """Read, fold and check all events and checkpoints."""
        storage, log = self.ports.storage, EventLog(self.ports.storage)
        numbers = sorted(n for e in storage.list(TIMELINE) if (n := number(e.path)) is not None)
        if not numbers:
            _refuse_dropped(log)
            raise NotATable(f"{storage.uri} holds no segtable table: check the path")
        self.last = max(*numbers, self.first if self.state is None else self.first - 1)
        checkpoints = {n for n in log.checkpoints() if n >= self.first}
        tagged = {n for e in storage.list(TAGS) if (n := tagged_number(e.path)) is not None}
        due = self.first
        for n, event in self._events(pool, numbers):
            for missing in range(due, n):
                self._take(missing, log_gap(event_path(missing), missing, self.last))
            self._take(n, event)
            if n in checkpoints:
                self._compare(n)
            if self.state and n in tagged:
                self.tagged[n] = self.state
            self.good = self.state or self.good
            due, self.last = n + 1, max(n, self.last)
            report("log", due - self.first, self.last + 1 - self.first)
        for missing in range(due, self.last + 1):
            self._take(missing, log_gap(event_path(missing), missing, self.last))
        if self.good is None and not self.findings:
            self.findings.append(log_without_base(CHECKPOINTS, self.first))

    def _events(
        self, pool: ThreadPoolExecutor, numbers: Sequence[int]
    ) -> Iterator[tuple[int, Event | Finding]]:
        """Yield the events from the first number on, and findings for files without."""
        begin = max((n for n in numbers if n <= self.first), default=self.first)
        names, due = [n for n in numbers if n >= begin], self.first
        for start in range(0, len(names), BLOCK):
            block = names[start : start + BLOCK]
            for name, found in zip(block, pool.map(self._read, block), strict=True):
                if name < due and name >= self.first:
                    within = f"event {name} is in a file of several events, too"
                    yield name, broken_event(event_path(name), within)
                elif isinstance(found, Finding):
                    yield from [(name, found)] if name >= due else ()
                    due = max(name + 1, due)
                else:
                    yield from ((each.n, each) for each in found if each.n >= due)
                    due = max(found[-1].n + 1, due) if found else due

    def _read(self, n: int) -> Finding | Sequence[Event]:
        """Return the events of a file; none if it expired since."""
        try:
            return EventLog(self.ports.storage).file(n) or ()
        except CorruptTable as error:
            return broken_event(event_path(n), str(error))

    def _take(self, n: int, event: Event | Finding) -> None:
        if isinstance(event, Finding):
            self.findings.append(event)
            self.state = None
            return
        if self.before and event.time <= self.before.time:
            before = f"event {self.before.n} at {iso(self.before.time)}"
            self.findings.append(
                broken_event(event_path(n), f"event {n} at {iso(event.time)} is not after {before}")
            )
        self.before = event
        if isinstance(event.action, Appended) and event.action.log:
            self.logged[n] = event
        self._fold(n, event)

    def _fold(self, n: int, event: Event) -> None:
        if self.state is None and not isinstance(event.action, TableDefinition):
            return
        whole = self.state is None or self.checked != n - 1
        try:
            self.state = apply(self.state, event)
        except CorruptTable as error:
            self.state = None
            self.findings.append(broken_event(event_path(n), str(error)))
            return
        self.versions += 1
        if self.all_versions:
            wrong = violations(self.state) if whole else violations_since(self.state, event)
            self.findings += [broken_invariant(n, each) for each in wrong]
            self.checked = n

    def _compare(self, n: int) -> None:
        found = self._checkpoint(n)
        if self.state is None:
            self.state = found
            return
        self.compared += found is not None
        if found and not same_state(found, self.state):
            self.findings.append(wrong_checkpoint(checkpoint_path(n), n))
        elif found:
            self.state = found  # the same, with its chunks packed

    def _checkpoint(self, n: int) -> State | None:
        path = checkpoint_path(n)
        try:
            return proved(EventLog(self.ports.storage), n, self.sound)
        except NotFound:
            return None  # expired meanwhile
        except (CorruptTable, UnsupportedFormat) as error:
            other = isinstance(error, OtherFormat)
            self.findings.append(bad_checkpoint(path, str(error), other_format=other))
            return None


def _refuse_dropped(log: EventLog) -> None:
    """Raise ``TableGone`` for a dropped table: the rest of its files is no damage.

    Likewise if there is another table than when this log was loaded before.
    """
    try:
        log.load()
    except TableGone:
        raise
    except SegtableError:
        return  # the walk reports the problem


def same_state(one: State, other: State) -> bool:
    """Return whether two states are equal; of timelines and ids, what both share is not read."""
    empty, ids = Timeline.empty(), IdSpaces()
    if replace(one, timeline=empty, ids=ids) != replace(other, timeline=empty, ids=ids):
        return False
    if len(one.timeline) != len(other.timeline) or not _same_ids(one, other):
        return False
    changed = one.timeline.changed_chunks(other.timeline)
    pairs = ((_segments(one, key), _segments(other, key)) for key in changed)
    return all(len(a) == len(b) and all(map(_same_segment, a, b)) for a, b in pairs)


def _segments(state: State, key: ChunkKey) -> list[Segment]:
    chunk = state.timeline.chunk(key)
    return [*chunk.segments()] if chunk else []


def _same_ids(one: State, other: State) -> bool:
    """Return whether two states have the same id spaces; sidecars that both have are not read."""
    layers = [layers_of(one), layers_of(other)]
    paths = [{each.path for each in some.sidecars} if some else set() for some in layers]
    shared = paths[0] & paths[1]
    if not shared:
        return one.ids == other.ids
    keys = one.ids.changed | other.ids.changed
    for some in filter(None, layers):
        own = (at for at, each in enumerate(some.sidecars) if each.path not in shared)
        keys = keys.union(some.own.keys, *(some.load(at).keys for at in own))
    return all(
        one.ids.get((key, generation)) == other.ids.get((key, generation))
        for key in keys
        for generation in Generation
    )


def _same_segment(one: Segment, other: Segment) -> bool:
    """Return whether two descriptors are equal; an older segtable knew no completion, no bases."""
    if one == other:
        return True
    if not (one.completed and other.completed):
        one = replace(one, completed=other.completed)
    return with_base_of(one, other) == other


def tagged_number(path: str) -> int | None:
    """Return the version in the path of a tag's checkpoint; None for other files."""
    digits = path.removesuffix(".parquet").rpartition("-")[2]
    return int(digits) if digits.isdecimal() else None


def _bad_tags(walk: "_Walk", state: State, scope: _Scope) -> Iterator[Finding]:
    """Yield findings about the checkpoints of tagged versions."""
    for name, n in state.tags.items():
        if n < walk.first and not scope.takes(f"tag {name}"):
            continue
        path, lost = tag_path(name, n), n not in walk.tagged
        try:
            found = read_checkpoint(walk.ports.storage.read(path))
        except (NotFound, CorruptTable) as error:
            yield bad_tag(path, name, str(error), lost=n < walk.first)
            continue
        if found.n != n or not (lost or same_state(found, walk.tagged[n])):
            yield bad_tag(
                path, name, f"its checkpoint differs from version {n}", lost=n < walk.first
            )
