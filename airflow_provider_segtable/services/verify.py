"""Verifying a table: its log, its files, and that both say the same. Reads only.

1. *The log*, as far as it is kept: numbers without gaps, every checksum, times strictly
   increasing, every event accepted by the fold, every checkpoint equal to the fold. If the log's
   start has expired, or an event is broken, the fold goes on from the next checkpoint.
2. *The state*: the invariants at the newest version; with ``all_versions`` at every version, each
   time only where the event changed something. No file is visible twice.
3. *The files* of all visible segments (``all_versions``: of all present ones): footers, with
   ``deep`` every row (``data.inspection``). A few threads read at once.
4. It needs no coordinator and no lock. What is listed first is the snapshot; a file that is not
   there is called lost only if a newer snapshot still has its segment.
5. Storage that fails is no proof of damage: what it kept from being read is UNCHECKED.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.diagnosis import (
    Finding,
    Severity,
    shared_files,
    violations_since,
)
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotATable,
    NotFound,
    SegtableError,
    StorageError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.events import Event
from airflow_provider_segtable.core.interval import iso
from airflow_provider_segtable.core.invariants import violations
from airflow_provider_segtable.core.overshadow import Timeline
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.state import State, apply
from airflow_provider_segtable.data.inspection import Problem, inspect_footer, inspect_rows
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.checkpoint import read_checkpoint
from airflow_provider_segtable.table.log import (
    CHECKPOINTS,
    TIMELINE,
    EventLog,
    checkpoint_path,
    event_path,
)
from airflow_provider_segtable.table.ports import TablePorts

THREADS = 4
BLOCK = 256

Report = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was looked at, and everything that is wrong.

    ``first`` and ``version`` are the oldest and newest event that were read; ``versions``,
    ``checkpoints`` and ``files`` count what was checked; ``rows`` is 0 unless ``deep``.
    """

    first: int
    version: int
    versions: int
    checkpoints: int
    files: int
    rows: int
    findings: tuple[Finding, ...]


def verify(
    ports: TablePorts,
    *,
    all_versions: bool = False,
    deep: bool = False,
    threads: int = THREADS,
    report: Report = lambda _stage, _done, _total: None,
) -> Verification:
    """Check a table.

    Args:
        ports: the table's ports; no coordinator is needed.
        all_versions: check the invariants at every version, and hidden segments' files, too.
        deep: decode every row.
        threads: how many files are read at once.
        report: told of progress.

    Raises:
        NotATable: there is no log here.
        UnsupportedFormat: a newer segtable wrote to it.
        StorageError: the log could not be listed or read.
    """
    walk = _Walk(ports=ports, all_versions=all_versions)
    with ThreadPoolExecutor(threads) as pool:
        walk.go(pool, report)
        findings = walk.findings
        state = walk.good
        if state is None:
            return _verification(walk, 0, 0)
        wrong = () if walk.checked == state.n else violations(state)
        findings += [_invariant(state.n, each) for each in wrong]
        findings += [_doubled(*each) for each in shared_files(state)]
        timeline = state.timeline
        chosen = timeline.segments() if all_versions else timeline.visible_segments()
        segments = list({(s.path, s.id): s for s in chosen if s.path}.values())
        files = _Files(ports=ports, state=state, deep=deep)
        for done, found in enumerate(pool.map(files.check, segments), 1):
            findings += found
            report("files", done, len(segments))
        findings += files.still_lost(EventLog(ports.storage))
    rows = sum(segment.rows for segment in segments) if deep else 0
    return _verification(walk, len(segments), rows)


def _verification(walk: "_Walk", files: int, rows: int) -> Verification:
    return Verification(
        first=walk.first,
        version=walk.last,
        versions=walk.versions,
        checkpoints=walk.compared,
        files=files,
        rows=rows,
        findings=tuple(walk.findings),
    )


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One pass over the log; ``state`` is the fold so far, None while an event is missing.

    ``good`` is the newest state there was, ``checked`` the newest version at which the invariants
    were checked.
    """

    ports: TablePorts
    all_versions: bool
    first: int = 0
    last: int = -1
    state: State | None = None
    good: State | None = None
    before: Event | None = None
    versions: int = 0
    compared: int = 0
    checked: int = -1
    findings: list[Finding] = field(default_factory=list)

    def go(self, pool: ThreadPoolExecutor, report: Report) -> None:
        """Read, fold and check all events, and checkpoints."""
        storage = self.ports.storage
        checkpoints = set(_numbers(storage.list(CHECKPOINTS), ".parquet"))
        numbers = sorted(_numbers(storage.list(TIMELINE), ".json"))
        if not numbers:
            raise NotATable(f"{storage.uri} holds no segtable table: check the path")
        self.first, self.last = numbers[0], numbers[-1]
        self.state = self.good = self._earlier(checkpoints)
        for start in range(self.first, self.last + 1, BLOCK):
            block = range(start, min(start + BLOCK, self.last + 1))
            for n, event in zip(block, pool.map(self._read, block), strict=True):
                self._take(n, event)
                if n in checkpoints:
                    self._compare(n)
                self.good = self.state or self.good
                report("log", n - self.first + 1, self.last + 1 - self.first)

    def _earlier(self, checkpoints: set[int]) -> State | None:
        """Return the state before the first event that is kept, if that is not the very first."""
        if self.first == 0 or self.first - 1 not in checkpoints:
            return None
        return self._checkpoint(self.first - 1)

    def _read(self, n: int) -> Event | Finding:
        try:
            event = EventLog(self.ports.storage).event(n)
        except CorruptTable as error:
            return _broken(n, str(error))
        return event or self._gone(n)

    def _gone(self, n: int) -> Finding:
        return Finding(
            code="log-gap",
            severity=Severity.CRITICAL,
            where=event_path(n),
            what=f"event {n} is missing, but later ones are there (up to {self.last})",
            why="the log ends before the gap for every reader; later commits are lost to them",
            do="restore this file from a backup or another replica of the storage",
        )

    def _take(self, n: int, event: Event | Finding) -> None:
        if isinstance(event, Finding):
            if event.code != "log-gap" or not self._expired(n):
                self.findings.append(event)
            self.state = None
            return
        if self.before and event.time <= self.before.time:
            times = f"{iso(event.time)}, not after event {self.before.n} at {iso(self.before.time)}"
            self.findings.append(_broken(n, f"event {n} is of {times}"))
        self.before = event
        self._fold(n, event)

    def _expired(self, n: int) -> bool:
        """Tell whether the log was cut off behind this number while it was read."""
        left = _numbers(self.ports.storage.list(TIMELINE), ".json")
        return min(left, default=0) > n

    def _fold(self, n: int, event: Event) -> None:
        if self.state is None and n > 0:
            return
        whole = self.state is None or self.checked != n - 1
        try:
            self.state = apply(self.state, event)
        except CorruptTable as error:
            self.state = None
            self.findings.append(_broken(n, str(error)))
            return
        self.versions += 1
        if self.all_versions:
            wrong = violations(self.state) if whole else violations_since(self.state, event)
            self.findings += [_invariant(n, each) for each in wrong]
            self.checked = n

    def _compare(self, n: int) -> None:
        found = self._checkpoint(n)
        if self.state is None:
            self.state = found
            return
        self.compared += found is not None
        if found and not same_state(found, self.state):
            self.findings.append(_wrong_checkpoint(n))

    def _checkpoint(self, n: int) -> State | None:
        path = checkpoint_path(n)
        try:
            return read_checkpoint(self.ports.storage.read(path))
        except NotFound:
            return None  # expired meanwhile
        except (CorruptTable, UnsupportedFormat) as error:
            other = "checkpoint has format" in str(error)
            self.findings.append(_bad_checkpoint(path, str(error), other_format=other))
            return None


def same_state(one: State, other: State) -> bool:
    """Tell whether two states are equal, whatever way their timelines came about."""
    empty = Timeline.empty()
    if replace(one, timeline=empty) != replace(other, timeline=empty):
        return False
    return list(one.timeline.segments()) == list(other.timeline.segments())


def _numbers(entries: Iterable[Entry], suffix: str) -> Iterator[int]:
    for entry in entries:
        name = entry.path.rsplit("/", 1)[-1]
        stem = name.removesuffix(suffix)
        if name.endswith(suffix) and stem.isdecimal():
            yield int(stem)


@dataclass(slots=True, kw_only=True)
class _Files:
    """Checks of data files; safe among threads, as each only appends to ``missing``."""

    ports: TablePorts
    state: State
    deep: bool
    missing: list[Segment] = field(default_factory=list)

    def check(self, segment: Segment) -> list[Finding]:
        """Look at one segment's file."""
        try:
            problems = inspect_footer(self.ports.files, segment, self.state.table)
            if self.deep and not any(each.code in _HOPELESS for each in problems):
                problems += inspect_rows(self.ports.files, segment, self.state.table)
        except NotFound:
            self.missing.append(segment)
            return []
        except (StorageError, UnsupportedFormat) as error:
            return [_unread(segment, error)]
        return [self._found(segment, problem) for problem in problems]

    def still_lost(self, log: EventLog) -> Iterator[Finding]:
        """Yield the missing files that no cleaner took away meanwhile, as the log says now."""
        if not self.missing:
            return
        try:
            newest = log.refresh(self.state)
        except SegtableError:
            newest = self.state  # the walk has told of it
        doomed = frozenset(getattr(newest, "doomed", ()))
        for segment in sorted(self.missing, key=lambda each: each.id):
            if segment.id in newest.timeline and segment.path not in doomed:
                yield self._found(segment, Problem("missing-file", "it is not there"))

    def _found(self, segment: Segment, problem: Problem) -> Finding:
        size = segment.shard.group_size
        group = f", one of a group of {size} that is read together" if size > 1 else ""
        return Finding(
            code=problem.code,
            severity=Severity.CRITICAL,
            where=segment.path,
            what=f"file of segment {segment.id} ({segment.rows} rows{group}): {problem.what}",
            why="scans of its time chunk fail, or give other rows than were committed",
            do=_restore(segment),
        )


_HOPELESS = frozenset({"bad-footer", "foreign-file"})


def _restore(segment: Segment) -> str:
    made = segment.shard.minor_version or segment.shard.core
    return f"restore {segment.path} from a backup" + (
        ", or fall back to what it was compacted from: segtable repair TABLE" if made else ""
    )


def _unread(segment: Segment, error: SegtableError) -> Finding:
    return Finding(
        code="unread",
        severity=Severity.UNCHECKED,
        where=segment.path,
        what=f"file of segment {segment.id} could not be read: {error}",
        why="nobody knows whether it is sound",
        do="make the storage readable from here, then verify again",
    )


def _broken(n: int, what: str) -> Finding:
    return Finding(
        code="broken-event",
        severity=Severity.CRITICAL,
        where=event_path(n),
        what=what,
        why="the table cannot be read past this event, unless a later checkpoint is there",
        do="restore this file from a backup or another replica of the storage",
    )


def _invariant(n: int, what: str) -> Finding:
    return Finding(
        code="invariant",
        severity=Severity.CRITICAL,
        where=f"version {n}",
        what=what,
        why="the log itself says something that cannot be: readers see too much or too little",
        do="stop compaction of this table, keep its log, and report this as a bug of segtable",
    )


def _doubled(path: str, segments: tuple[Segment, ...]) -> Finding:
    names = ", ".join(str(segment.id) for segment in segments)
    return Finding(
        code="doubled-file",
        severity=Severity.CRITICAL,
        where=path,
        what=f"visible segments {names} have this one file",
        why="its rows are read more than once",
        do="stop compaction of this table, keep its log, and report this as a bug of segtable",
    )


def _wrong_checkpoint(n: int) -> Finding:
    return Finding(
        code="wrong-checkpoint",
        severity=Severity.CRITICAL,
        where=checkpoint_path(n),
        what=f"the checkpoint of version {n} is not what the log's events give",
        why="whoever opens the table by it sees, and compacts, another table",
        do=f"delete {checkpoint_path(n)}: it is a hint, the log is folded without it",
    )


def _bad_checkpoint(path: str, error: str, *, other_format: bool) -> Finding:
    return Finding(
        code="old-checkpoint" if other_format else "bad-checkpoint",
        severity=Severity.INFO if other_format else Severity.WARNING,
        where=path,
        what=error,
        why="a checkpoint is a hint: without it opening the table takes longer",
        do=f"delete {path}; the next one is written by itself",
    )
