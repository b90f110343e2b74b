"""Examine the operation of a table: gather observations for ``health_findings``.

1. The examination only reads: it takes no lock and writes neither storage nor coordinator.
2. ``data/`` and ``deletes/`` are listed before the log is read, so that files committed in between
   are named. The log is read before the locks, so that a worker that finishes in between is never
   considered dead.
3. A coordinator that does not answer is a finding, never an error. So is a policy that does not
   fit the table's columns.
4. A worker's progress needs two observations, ``watch_s`` apart; with 0 there is one observation.
5. The tables of indexes are examined likewise, except for their orphans: the indexed table's log
   names some of their files. A finding about the host or the coordinator is reported once.

Services of a log store, as the coordinator knows them:

6. A claim of a bucket that the table does not have is of a service that was opened before
   ``log_store.buckets`` was lowered, and has not looked since.
7. A bucket that once had a writer, and now has no service, is reported after ``QUIET_HOURS``
   without a checkpoint. It is only a note, because its writer may have ended as it should.

A log that is ahead of time, because an author's clock was ahead at a commit:

8. The storage records with its own clock when it received an event. If the event's time is much
   later, its author's clock was ahead; the times of all later events follow it.
9. So the event times are right up to some event, and ahead from the next one on. A binary search
   finds that event in a few reads. Copying a log makes its files newer, so it never looks ahead.
10. Authors with such clocks are now refused (``table.context``); older logs may be affected.

Major compactions by an older segtable that left out values of columns:

11. Writers of a primary-key table may write log files beside a major compaction to other buckets or
    time chunks; its completion names them as ``late``, and divides their rows. An older segtable
    divided them in the columns of ``PlanInflight``. So values of columns that an alteration had
    added since are missing in its files, and read as null or the column's default.
12. The log shows it: the divided files have an earlier schema than a late file. Files divided by
    this segtable never have.
13. The finding is about an event, so it stays until the log forgets the plan or the event.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    NotFound,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import INDEXES
from airflow_provider_segtable.core.locks import Lock
from airflow_provider_segtable.core.log.events import MOST_JOINED, segments_of
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, TIMELINE, event_path, number
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    Severity,
    damaged_vectors,
    unread,
    unread_vectors,
    worst,
    worst_first,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, MINUTE_US, Instant, iso
from airflow_provider_segtable.health.published_rows import examine_targets
from airflow_provider_segtable.health.table_checks import named
from airflow_provider_segtable.planning.findings.health_findings import (
    Bounds,
    Observed,
    Progress,
    diagnose,
    lagging_consumers,
    undone_deletions,
)
from airflow_provider_segtable.planning.findings.index_findings import (
    index_findings,
    keyed_findings,
    lost_indexes,
)
from airflow_provider_segtable.planning.properties import LogStoreSettings, Policy, Retention
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.ports.coordination import StrayNode
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.services.log_directory import BucketAddress, addresses
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import indexes_with_logs
from airflow_provider_segtable.table.index_lifecycle import inner_tables
from airflow_provider_segtable.table.kept_versions import unread_since
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.property_checks import checked_order
from airflow_provider_segtable.table.unnamed_files import unnamed, unnamed_before

QUIET_HOURS = 24


# Services of the log store
def log_services(ports: TableContext, state: State, now: Instant) -> Iterator[Finding]:
    """Yield findings about the buckets that services have, or should; none without an answer."""
    if ports.optional_coordinator is None:
        return
    try:
        served = addresses(ports.optional_coordinator, state.table.table_id)
        count = LogStoreSettings.read(state.table.properties).buckets
    except (CoordinationError, InvalidInput):  # other findings say so
        return
    for bucket, at in served.items():
        if bucket >= count:
            yield _beyond(at, count)
    for bucket in sorted(state.log_store.keys() - served.keys()):
        if (quiet := now - _last_checkpoint(ports, state, bucket)) > QUIET_HOURS * HOUR_US:
            yield _unserved(bucket, state.log_store[bucket], quiet / HOUR_US)


def _last_checkpoint(ports: TableContext, state: State, bucket: int) -> Instant:
    """Return the time of a bucket's last checkpoint, or of its loss by a restore; 0 for none."""
    waypoints = state.log_store[bucket].waypoints
    event = ports.log.event(max(waypoints[-1].n, state.retained_from)) if waypoints else None
    return event.time if event else 0


def _beyond(at: BucketAddress, count: int) -> Finding:
    return Finding(
        code="unknown-log-bucket",
        severity=Severity.WARNING,
        where=f"log store bucket {at.bucket}",
        what=f"{at.service} serves it at {at.address}, but log_store.buckets is {count}",
        why="writers and readers that are opened now leave it out, so its records are seen late: "
        "after a checkpoint, in the table",
        do=f"close the writer of that bucket, and start it again; or raise the number: segtable "
        f"table set TABLE log_store.buckets={at.bucket + 1}",
    )


def _unserved(bucket: int, known: BucketManifest, hours: float) -> Finding:
    since = f"for {hours:.0f} hours" if known.waypoints else "ever"
    return Finding(
        code="quiet-log-bucket",
        severity=Severity.INFO,
        where=f"log store bucket {bucket}",
        what=f"no service has it, and no record of it was committed {since}; its last writer, in "
        f"epoch {known.epoch}, was {known.owner or 'a restore or a repair'}",
        why="nothing is lost, but it has no writer, and its readers wait",
        do="nothing, unless a writer should run: start it, or segtable logstore serve TABLE",
    )


REBUILD = (
    "correct that host's clock (NTP), stop all writers, and keep a copy of _segtable/. Then delete "
    "this event and every checkpoint from number {n} on, run `segtable repair {uri} --deletes "
    "apply`, read its report, and run it again with --yes"
)


# Event times that are ahead of the storage's clock
def log_ahead(ports: TableContext, state: State, most_s: float) -> Iterator[Finding]:
    """Yield the first event ahead of the storage's clock, if the newest event is ahead.

    Raises:
        StorageError: the log could not be listed.
    """
    most_us = int(most_s * 1e6)
    newest = {at: each for at, each in _stored(ports, _lowest(state)).items() if at <= state.n}
    if not newest or state.time - newest[max(newest)] <= most_us:
        return
    log, stored = ports.log, _stored(ports, 0)

    def ahead(n: int) -> bool:
        event = log.event(n)
        return event is not None and event.time - stored[n] > most_us

    known = sorted(n for n in stored if n <= state.n)
    first = known[min(bisect_left(known, True, key=ahead), len(known) - 1)]
    event = log.event(first)
    if event is None:
        return
    days = (event.time - stored[first]) / 86_400e6
    yield Finding(
        code="log-ahead",
        severity=Severity.CRITICAL,
        where=event_path(first),
        what=f"its time {iso(event.time)}, of {event.author}, is {days:.1f} days after the storage "
        f"received it ({iso(stored[first])}); {state.n - first} later events follow that time",
        why="the log's time never decreases: nothing gets old enough to expire or to be compacted "
        "by age, and reads as of now end before this event",
        do=REBUILD.format(n=first, uri=ports.uri),
    )


def _lowest(state: State) -> int:
    """Return the lowest number that the file of the newest event may have."""
    return max(state.n - MOST_JOINED + 1, 0)


def _stored(ports: TableContext, start: int) -> dict[int, Instant]:
    """Return the storage's receipt time of each file of events from number ``start`` on."""
    after = event_path(start - 1) if start else None
    entries = ports.storage.list(TIMELINE, after=after)
    return {n: e.modified for e in entries if (n := number(e.path)) is not None}


# Values lost by major compactions of an older segtable
def lost_values(ports: TableContext, state: State) -> Iterator[Finding]:
    """Yield completed plans that left out values of log files; one event is read for each major."""
    if not state.table.kind.buckets or not state.table.earlier:
        return
    for known in state.plans.values():
        if not (known.completed and known.plan.starts_version):
            continue
        event = ports.log.event(known.last_n)
        action = event.action if event else None
        if isinstance(action, PlanCompleted) and action.late:
            yield from _of_plan(ports, state, known.last_n, action)


def _of_plan(ports: TableContext, state: State, n: int, action: PlanCompleted) -> Iterator[Finding]:
    schemas = [
        s.schema for s in action.segments if s.file_id.provisional and action.attempt in s.path
    ]
    divided = max(schemas, default=state.table.schema.number)
    late = [(at, s) for at, s in _late(ports, n, action) if s.schema > divided]
    known = {column.id for column in state.table.schema_of(divided).numbered}
    newest = state.table.schema_of(max((s.schema for _, s in late), default=divided))
    added = [column.id for column in newest.numbered if column.id not in known]
    names = [column.name for column in state.table.schema.numbered if column.id in added]
    if names:
        yield _finding(ports.uri, state, n, min(at for at, _ in late), [s for _, s in late], names)


def _late(ports: TableContext, n: int, action: PlanCompleted) -> Iterator[tuple[int, Segment]]:
    """Yield the late files with their events, newest first, if the log still has the events."""
    left, at = set(action.late), n - 1
    while left and (event := ports.log.event(at)) is not None:
        for segment in segments_of(event.action):
            if segment.id in left:
                left.discard(segment.id)
                yield at, segment
        at -= 1


def _finding(
    table: str, state: State, n: int, first: int, late: Sequence[Segment], names: Sequence[str]
) -> Finding:
    rows, before = sum(segment.rows for segment in late), n - 1
    columns = ", ".join(names)
    kept = (
        f"read them as they were written: segtable table scan {table} --version {before} "
        f"--since-version {first - 1}; and upsert"
        if state.keeps(before)
        else f"version {before} is no longer kept: from their source, upsert"
    )
    return Finding(
        code="lost-values",
        severity=Severity.CRITICAL,
        where=event_path(n),
        what=f"a major compaction by an older segtable has divided {counted(rows, 'row')} of "
        f"{counted(len(late), 'log file')} without their values of {columns}, which "
        f"{'were' if len(names) > 1 else 'was'} added while it ran",
        why=f"these rows, written by event {first} and later, read as null or the default there",
        do=f"{kept} those again that no writer has written since. This is said until event {n} "
        "expires",
    )


DATA = "data"
DELETES = "deletes"


# The examination itself
@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The version examined, the coordinator's address, and the findings."""

    version: int
    coordinator: str | None
    findings: tuple[Finding, ...]

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        most = worst(self.findings)
        return {
            "version": self.version,
            "coordinator": self.coordinator,
            "worst": most.value if most else None,
            "findings": [finding.facts() for finding in worst_first(self.findings)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workers:
    """The coordinator's answers; ``locks`` is None if it did not answer."""

    locks: tuple[Lock, ...] | None = None
    silence: str = ""
    progress: Progress | None = None
    moved: Progress | None = None
    strays: tuple[StrayNode, ...] = ()


def examine(
    ports: TableContext, bounds: Bounds | None = None, *, watch_s: float = 0.0
) -> Examination:
    """Examine the operation of a table and of the tables inside it.

    Args:
        ports: the table's ports; without a coordinator no worker is reported dead.
        bounds: reporting thresholds.
        watch_s: seconds between two observations of progress; 0 means one observation.

    Raises:
        NotATable, CorruptTable: there is no log, or it is not readable (``segtable verify``).
    """
    bounds = bounds or Bounds()
    examination = _examined(ports, bounds, watch_s)
    findings = [*examination.findings]
    said = {(each.where, each.what) for each in findings}
    inner = replace(bounds, orphan_hours=math.inf)
    for index, own in inner_tables(ports, ports.log.load()):
        with suppress(SegtableError):  # the table's own findings say that it cannot be read
            examined = _examined(own, inner, 0.0).findings
            news = (each for each in examined if (each.where, each.what) not in said)
            what = f"index {index.definition.name}"
            findings += [replace(each, where=f"{what}: {each.where}") for each in news]
    return replace(examination, findings=tuple(findings))


def _examined(ports: TableContext, bounds: Bounds, watch_s: float) -> Examination:
    findings: list[Finding] = []
    earlier = EventLog(ports.storage).load()
    data = _listed(ports, DATA, findings, lambda entries: unnamed_before(entries, earlier))
    deletes = _listed(ports, DELETES, findings)
    state = EventLog(ports.storage).refresh(earlier)
    workers = _workers(ports, state, watch_s)
    policy, planned = _planned(ports, state, findings)
    now = ports.clock.now()
    checkpoints = _listed(ports, CHECKPOINTS, findings)
    findings += [*_ahead(ports, state, bounds), *_consumers(ports, state, now)]
    seen = Observed(
        table=ports.uri,
        state=state,
        now=now,
        policy=policy,
        planned=planned,
        locks=workers.locks,
        silence=workers.silence,
        progress=workers.progress or {},
        moved=workers.moved,
        checkpoint=max((n for e in checkpoints if (n := _number(e)) is not None), default=None),
        orphans={
            entry.path: entry.size
            for entry in unnamed([*data, *deletes], state)
            if now - entry.modified > bounds.orphan_hours * HOUR_US
        },
    )
    known = ports.optional_coordinator
    findings += [
        *diagnose(seen, bounds),
        *_of_coordinator(ports, seen, workers.strays),
        *_unmerged(seen),
        *_of_indexes(ports, seen, bounds),
        *_beside_data(ports, state, deletes),
    ]
    return Examination(
        version=state.n,
        coordinator=known.address if known else None,
        findings=tuple(each.of_table(ports.uri) for each in findings),
    )


def _of_indexes(ports: TableContext, seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    """Yield findings about the indexes of a table, and about those that it has lost."""
    yield from index_findings(seen, bounds, _tables_of_indexes(ports, seen.state))
    before = seen.now - int(bounds.index_minutes * MINUTE_US)
    yield from lost_indexes(_lost_indexes(ports, seen.state, before))


def _unmerged(seen: Observed) -> Iterator[Finding]:
    """Report deletes and log files awaiting compaction."""
    yield from undone_deletions(seen)
    yield from keyed_findings(seen)


def _tables_of_indexes(ports: TableContext, state: State) -> dict[str, TableDefinition | str]:
    """Return the definitions of the indexes' own tables, or the errors of reading them."""
    found: dict[str, TableDefinition | str] = {}
    for index, own in inner_tables(ports, state):
        try:
            found[index.definition.name] = EventLog(own.storage).load().table
        except SegtableError as error:
            found[index.definition.name] = str(error)
    return found


def _lost_indexes(ports: TableContext, state: State, before: Instant) -> list[str]:
    """Return the ids of indexes that have a log, but are not in the table's state."""
    entries = _listed(ports, INDEXES, [])
    known = {index.definition.id for index in state.indexes.values()}
    young = indexes_with_logs(each.path for each in entries if each.modified > before)
    return sorted(indexes_with_logs(each.path for each in entries) - known - young)


def _consumers(ports: TableContext, state: State, now: Instant) -> Iterator[Finding]:
    """Yield the consumers that lag behind the events of the log."""
    unread = {name: unread_since(ports.log, state, each) for name, each in state.consumers.items()}
    try:
        hours = Retention.read(state.table.properties).consumer_hours
    except InvalidInput:  # cleaning says so
        return
    yield from lagging_consumers(state, unread, now=now, hours=hours)


def _listed(
    ports: TableContext,
    folder: str,
    findings: list[Finding],
    wanted: Callable[[Iterator[Entry]], Iterator[Entry]] = iter,
) -> list[Entry]:
    """Return the wanted entries of a folder; add a finding if it cannot be listed."""
    try:
        return list(wanted(ports.storage.list(folder)))
    except StorageError as error:
        findings.append(_unlisted(folder, error))
        return []


def _lost_values(ports: TableContext, state: State) -> list[Finding]:
    try:
        return [*lost_values(ports, state)]
    except StorageError as error:
        return [_unlisted(TIMELINE, error)]


def _unlisted(folder: str, error: StorageError) -> Finding:
    return unread(folder, f"the folder could not be listed: {error}", code="unlisted")


def _ahead(ports: TableContext, state: State, bounds: Bounds) -> list[Finding]:
    try:
        return [*log_ahead(ports, state, bounds.clock_skew_s)]
    except StorageError as error:
        return [_unlisted(TIMELINE, error)]


def _number(entry: Entry) -> int | None:
    stem = entry.path.rsplit("/", 1)[-1].removesuffix(".parquet")
    return int(stem) if stem.isdecimal() else None


def _beside_data(ports: TableContext, state: State, deletes: list[Entry]) -> Iterator[Finding]:
    """Yield findings about files of deletions, published versions, and values that plans lost."""
    yield from _lost_vectors(ports, state, deletes)
    yield from examine_targets(ports, state)
    yield from _lost_values(ports, state)


def _lost_vectors(ports: TableContext, state: State, listed: list[Entry]) -> Iterator[Finding]:
    """Yield vector files that were not listed and do not exist."""
    there = {entry.path for entry in listed}
    for path in sorted(paths(state.vectors) - there):  # committed since, or gone
        try:
            with ports.files.open(path):
                continue
        except NotFound:
            yield damaged_vectors(
                path, "missing-vectors", "the file is missing", named(state.vectors, path)
            )
        except StorageError as error:
            yield unread_vectors(path, error)


def _workers(ports: TableContext, state: State, watch_s: float) -> _Workers:
    if ports.optional_coordinator is None:
        return _Workers()
    coordinator, table = ports.optional_coordinator, state.table.table_id
    try:
        progress = coordinator.progress(table)
        moved = None
        if watch_s > 0:
            ports.clock.sleep(watch_s)
            moved = coordinator.progress(table)
        locks = (*coordinator.locks(table), *coordinator.waiters(table))
        strays = coordinator.strays(table)
    except CoordinationError as error:
        return _Workers(silence=str(error))
    return _Workers(locks=locks, progress=progress, moved=moved, strays=strays)


def _of_coordinator(
    ports: TableContext, seen: Observed, strays: tuple[StrayNode, ...]
) -> Iterator[Finding]:
    """Yield findings about the coordinator's nodes of a table: locks and claims."""
    yield from _stray_nodes(strays)
    yield from log_services(ports, seen.state, seen.now)


def _stray_nodes(strays: tuple[StrayNode, ...]) -> Iterator[Finding]:
    """Yield a finding for each coordinator node that is not a readable segtable lock."""
    for stray in strays:
        yield Finding(
            code="stray-node",
            severity=Severity.CRITICAL if stray.blocks else Severity.WARNING,
            where=stray.name,
            what=f"a coordinator node that is not a segtable lock: {stray.why}",
            why="it may be a lock, so conflicting appends and compactions are refused"
            if stray.blocks
            else "it has no effect, but segtable did not create it",
            do="unless a newer segtable created it, remove it: segtable locks TABLE "
            f"--release {stray.name}",
        )


def _planned(ports: TableContext, state: State, findings: list[Finding]) -> tuple[Policy, Planned]:
    try:
        policy = Policy.read(state.table.properties)
        checked_order(policy.clustering, state.table)
        return policy, plan_all(state, policy, ports.clock.now())
    except InvalidInput as error:
        findings.append(
            Finding(
                code="bad-policy",
                severity=Severity.CRITICAL,
                where=ports.uri,
                what=f"the table's policy is invalid: {error}",
                why="every planner run fails, so nothing is compacted",
                do=f"correct it: segtable table set {ports.uri} KEY=VALUE",
            )
        )
        return Policy(), Planned(chosen=(), skipped=())
