"""Examine the operation of a table: gather observations for ``health_findings``.

1. The examination only reads: it takes no lock and writes neither storage nor coordinator.
2. ``data/`` and ``deletes/`` are listed before the log is read, so that files committed in between
   are named. The log is read before the locks, so that a worker that finishes in between is never
   considered dead.
3. A coordinator that does not answer is a finding, never an error. So is a policy that does not
   fit the table's columns.
4. A worker's progress needs two observations, ``watch_s`` apart; with 0 there is one observation.
5. The tables of indexes are examined likewise, except for their orphans: the indexed table's log
   names some of their files. What is true of the host or the coordinator is said once.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    NotFound,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.indexes.index_table import INDEXES
from airflow_provider_segtable.core.locks import Lock
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    Severity,
    damaged_vectors,
    unread,
    unread_vectors,
)
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.health.log_claims import log_services
from airflow_provider_segtable.health.log_times import log_ahead
from airflow_provider_segtable.health.lost_values import lost_values
from airflow_provider_segtable.health.target_check import examine_targets
from airflow_provider_segtable.health.vector_check import named
from airflow_provider_segtable.planning.findings.consumer_findings import lagging_consumers
from airflow_provider_segtable.planning.findings.delete_findings import undone_deletions
from airflow_provider_segtable.planning.findings.health_findings import (
    Bounds,
    Observed,
    Progress,
    diagnose,
)
from airflow_provider_segtable.planning.findings.index_findings import (
    index_findings,
    lost_indexes,
)
from airflow_provider_segtable.planning.findings.keyed_findings import keyed_findings
from airflow_provider_segtable.planning.properties.policy import MINUTE_US, Policy
from airflow_provider_segtable.planning.properties.retention import HOUR_US, Retention
from airflow_provider_segtable.planning.reasons import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.ports.coordination import StrayNode
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import checked_order
from airflow_provider_segtable.table.dropping import indexes_with_logs
from airflow_provider_segtable.table.indexes.lifecycle import inner_tables
from airflow_provider_segtable.table.kept_versions import unread_since
from airflow_provider_segtable.table.log.event_log import CHECKPOINTS, TIMELINE, EventLog
from airflow_provider_segtable.table.unnamed_files import unnamed, unnamed_before

DATA = "data"
DELETES = "deletes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The version examined, the coordinator's address, and the findings."""

    version: int
    coordinator: str | None
    findings: tuple[Finding, ...]


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
    """Yield what readers leave out or merge, because no compaction does."""
    yield from undone_deletions(seen)
    yield from keyed_findings(seen)


def _tables_of_indexes(ports: TableContext, state: State) -> dict[str, TableCreated | str]:
    """Return the definitions of the indexes' own tables, or why they cannot be read."""
    found: dict[str, TableCreated | str] = {}
    for index, own in inner_tables(ports, state):
        try:
            found[index.definition.name] = EventLog(own.storage).load().table
        except SegtableError as error:
            found[index.definition.name] = str(error)
    return found


def _lost_indexes(ports: TableContext, state: State, before: Instant) -> list[str]:
    """Return the ids of indexes that have a log of their own, and no place in the table."""
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
    """Yield findings about files of deletions, what is published, and what plans left out."""
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
