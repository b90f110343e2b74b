"""Diagnose the operation of a table, its deleted rows and its consumers; pure, from observations.

Each rule of operation (``diagnose``) checks one thing and yields findings:

1. A pending plan without a live worker that holds its locks or waits, after ``pending_minutes``.
2. A lock older than ``lock_minutes``; a worker without progress between two observations.
3. Dead attempts, with the limit at which a plan is aborted; plans that are no longer revocable
   after too many yields.
4. Ids that a dead writer left between segments (holes): they break adjacency until voided.
5. Chunks whose compaction was aborted or exceeds the budget; ids or minor versions near the limit.
6. Too many events since the newest checkpoint; differing clocks; worthwhile compactions that did
   not run for ``idle_minutes``; orphan files.

Without a coordinator no worker is reported dead.

Deleted rows (``undone_deletions``) and consumers (``lagging_consumers``) have rules of their own:

7. Chunks with many deleted rows that no plan rewrites.
8. A consumer whose position is no longer kept cannot go on from there: it has to read a whole
   version. It loses its position if nothing advanced it for ``retention.consumer_hours``.
9. A consumer that used up most of this time holds old files, and is about to lose its position.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.locks import MAX_YIELDS, Generation, Lock
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.log.plan_kinds import kinds, smallest
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import HOUR_US, MINUTE_US, Instant, Interval, iso
from airflow_provider_segtable.planning.planner_context import PlannerContext, look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Obstacle, Planned, Skipped

# Operation of the table
Progress = Mapping[str, Mapping[str, str]]
NEARLY = 0.9
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Reporting thresholds; defaults in parentheses.

    Attributes:
        pending_minutes: longest accepted wait of a plan for a worker (30).
        lock_minutes: highest accepted age of a lock (60).
        checkpoint_events: most accepted events since the newest checkpoint (96).
        clock_skew_s: largest accepted clock difference in seconds (60, the default at which
            authors are refused).
        idle_minutes: longest accepted wait of a worthwhile compaction (1440).
        orphan_hours: age from which an unnamed file is reported (72).
        index_minutes: longest accepted time for which an index lacks entries without a plan (60).
    """

    pending_minutes: float = 30.0
    lock_minutes: float = 60.0
    checkpoint_events: int = 96
    clock_skew_s: float = 60.0
    idle_minutes: float = 1440.0
    orphan_hours: float = 72.0
    index_minutes: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Observations of a table.

    Attributes:
        table: the table's URI, for commands.
        state: the table's newest state.
        now: this machine's clock.
        policy: the table's policy.
        planned: the planner's dry run.
        locks: held and awaited locks; None without a coordinator's answer, see ``silence``.
        silence: the coordinator's error; empty if it answered or no address is known.
        progress: progress reports of workers, by lock group.
        moved: the same some time later; None after a single observation.
        checkpoint: number of the newest checkpoint.
        orphans: size in bytes of each unnamed file older than ``orphan_hours``.
    """

    table: str
    state: State
    now: Instant
    policy: Policy
    planned: Planned
    locks: tuple[Lock, ...] | None = None
    silence: str = ""
    progress: Progress = field(default_factory=dict)
    moved: Progress | None = None
    checkpoint: int | None = None
    orphans: Mapping[str, int] = field(default_factory=dict)

    def minutes_since(self, time: Instant) -> float:
        """Return the age of an instant in minutes."""
        return max(0, self.now - time) / MINUTE_US

    def alive(self, plan_id: str) -> bool:
        """Return whether a live worker holds or awaits the locks of a plan."""
        return any(lock.purpose == plan_id for lock in self.locks or ())


def diagnose(seen: Observed, bounds: Bounds) -> tuple[Finding, ...]:
    """Return all findings, in the order of the rules."""
    return (
        *_coordinator(seen),
        *_abandoned_plans(seen, bounds),
        *_old_locks(seen, bounds),
        *_idle_workers(seen),
        *_dying(seen),
        *_holes(seen),
        *_stuck(seen),
        *_limits(seen),
        *_checkpoint(seen, bounds),
        *_clocks(seen, bounds),
        *_uncompacted(seen, bounds),
        *_orphans(seen, bounds),
    )


def at_a_glance(seen: Observed, bounds: Bounds) -> tuple[Finding, ...]:
    """Return the findings for which the state is enough: no chunk is decoded, no lock is known."""
    return (
        *_dying(seen),
        *_stuck(seen),
        *_clocks(seen, bounds),
        *_uncompacted(seen, bounds),
    )


def _coordinator(seen: Observed) -> Iterator[Finding]:
    if seen.locks is not None:
        return
    keyed = seen.state.table.kind.buckets > 0
    yield Finding(
        code="no-coordinator",
        severity=Severity.CRITICAL if seen.silence else Severity.UNCHECKED,
        where="ZooKeeper",
        what=seen.silence or "no ZooKeeper address is known, so locks were not checked",
        why="compactions fail without ZooKeeper; upserts, deletes and reads work"
        if keyed
        else "appends and compactions fail without ZooKeeper; reads work",
        do="segtable zookeeper start --background, or give an address: --zookeeper host:port"
        " (SEGTABLE_ZOOKEEPER)",
    )


def _abandoned_plans(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    for known in seen.state.pending_plans() if seen.locks is not None else ():
        minutes = seen.minutes_since(known.changed_at)
        if seen.alive(known.plan.id) or minutes < bounds.pending_minutes:
            continue
        yield Finding(
            code="abandoned-plan",
            severity=Severity.WARNING,
            where=known.plan.id,
            what=f"{known.status.value} since {iso(known.changed_at)} ({_age(minutes)}), "
            f"without a live worker; last worker: {known.author}",
            why=f"no other plan does its work in {known.plan.interval}",
            do=f"segtable compact TABLE {known.plan.id}",
        )


def _old_locks(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    for lock in seen.locks or ():
        minutes = seen.minutes_since(lock.since)
        if minutes < bounds.lock_minutes:
            continue
        does = "has waited" if lock.waiting else "has held its lock"
        yield Finding(
            code="old-wait" if lock.waiting else "old-lock",
            severity=Severity.WARNING,
            where=lock.group,
            what=f"{lock.holder} {does} for {_age(minutes)}, for {lock.purpose}",
            why="a live worker that hangs blocks other workers",
            do=f"check {lock.holder}; if it hangs: segtable locks TABLE --release {lock.group}",
        )


def _idle_workers(seen: Observed) -> Iterator[Finding]:
    for lock in seen.locks or ():
        said = seen.progress.get(lock.group)
        if seen.moved is None or not said or seen.moved.get(lock.group) != said:
            continue
        stands = ", ".join(f"{key} {value}" for key, value in said.items())
        yield Finding(
            code="no-progress",
            severity=Severity.WARNING,
            where=lock.group,
            what=f"{lock.holder} made no progress with {lock.purpose}: {stands}",
            why="it may hang; a long stage (one large sort) looks the same",
            do=f"check again with a longer --watch; if it hangs: "
            f"segtable locks TABLE --release {lock.group}",
        )


def _dying(seen: Observed) -> Iterator[Finding]:
    for known in seen.state.pending_plans():
        died = _deaths(known, seen)
        most = seen.policy.max_attempts
        if died:
            last = died >= most - 1
            yield Finding(
                code="dying-attempts",
                severity=Severity.CRITICAL if last else Severity.WARNING,
                where=known.plan.id,
                what=f"{died} of at most {most} attempts died, the last of {known.author}",
                why="after the last one the plan is aborted, and its segments rest for a while",
                do=f"find the cause in the worker's log (memory, disk), then: "
                f"segtable compact TABLE {known.plan.id}",
            )
        if known.yields >= MAX_YIELDS:
            yield Finding(
                code="gave-way-often",
                severity=Severity.INFO,
                where=known.plan.id,
                what=f"yielded {known.yields} times, last: {known.note}",
                why=f"after {MAX_YIELDS} yields its lock is not revocable, and others wait for it",
                do=f"run it while few workers write: segtable compact TABLE {known.plan.id}",
            )


def _deaths(known: PlanState, seen: Observed) -> int:
    """Return the number of dead attempts; without a coordinator the last one may be alive."""
    running = known.status is PlanStatus.INFLIGHT
    alive = running and (seen.locks is None or seen.alive(known.plan.id))
    return known.attempts - known.yields - alive


def _holes(seen: Observed) -> Iterator[Finding]:
    if seen.locks is None:
        return
    alive = {segment_id for lock in seen.locks for segment_id in lock.allocated}
    for chunk in seen.state.timeline.visible_chunks():
        holes = seen.state.id_space(chunk, Generation.FIRST).holes
        gone = sorted(p for p in holes if chunk.segment(p) not in alive)
        if gone:
            yield Finding(
                code="abandoned-ids",
                severity=Severity.WARNING,
                where=str(chunk),
                what=f"ids {_some(gone)} were allocated by dead writers",
                why="segments on both sides of the ids cannot be joined until the ids are voided",
                do="segtable plan TABLE --request",
            )


def _stuck(seen: Observed) -> Iterator[Finding]:
    stuck: dict[ChunkKey, Skipped] = {}
    for skipped in seen.planned.skipped:
        if skipped.obstacle:
            stuck.setdefault(skipped.chunk, skipped)
    for chunk, skipped in stuck.items():
        yield Finding(
            code="stuck-chunk",
            severity=Severity.WARNING,
            where=str(chunk.interval),
            what=f"cannot be compacted: {skipped.kind}: {skipped.reason}",
            why="the chunk stays fragmented, and its scans slow",
            do=f"find the cause of the abort, then: segtable compact TABLE "
            f"--kind {smallest().kind} --interval {chunk.interval}"
            if skipped.obstacle is Obstacle.ABORTED
            else "segtable compact TABLE --all --property compaction.max_plan_bytes=BYTES",
        )


def _limits(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for a time chunk, by its worst bucket: one command renews all of them."""
    renewing = next(kind.kind for kind in kinds() if kind.starts_version)
    near: dict[Interval, list[tuple[float, ChunkKey, str]]] = {}
    for chunk in seen.state.timeline.visible_chunks():
        for noun, count, most in _used(seen.state, chunk):
            if count >= NEARLY * most:
                used = f"{count:,} of {most:,} {noun} are used"
                near.setdefault(chunk.interval, []).append((count / most, chunk, used))
    for interval, found in near.items():
        _, worst, used = max(found)
        yield Finding(
            code="limit-near",
            severity=Severity.CRITICAL,
            where=str(worst),
            what=used,
            why="at the limit appends and compactions of this chunk are refused",
            do=f"segtable compact TABLE --kind {renewing} --interval {interval}",
        )


def _used(state: State, chunk: ChunkKey) -> Iterator[tuple[str, int, int]]:
    """Yield the limited numbers of a chunk: the noun, the number in use, and the limit."""
    for generation in Generation:
        ids = generation.ids(chunk)
        used = state.id_space(chunk, generation).next - ids.start
        yield f"{generation.value}-generation ids", used, len(ids)
    minors = (group.key.minor_version for group in state.timeline.visible_groups(chunk))
    yield "minor versions", max(minors, default=0), chunk.numbering.minor_versions


def _checkpoint(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    newest = -1 if seen.checkpoint is None else seen.checkpoint
    since = seen.state.n - newest
    if since <= bounds.checkpoint_events:
        return
    where = "none exists" if seen.checkpoint is None else f"the newest has version {newest}"
    yield Finding(
        code="late-checkpoint",
        severity=Severity.WARNING,
        where="_segtable/checkpoints",
        what=f"{counted(since, 'event')} since the newest checkpoint ({where}, the log ends with "
        f"{seen.state.n})",
        why="each reader that opens the table reads all of them, one by one",
        do=f"give writers access to {seen.table}/_segtable/checkpoints; they write one with "
        "every 32nd event",
    )


def _clocks(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    theirs = {"the newest event": seen.state.time}
    if seen.locks:
        theirs["ZooKeeper, at its newest lock,"] = max(lock.since for lock in seen.locks)
    for whose, time in theirs.items():
        ahead_s = (time - seen.now) / 1e6
        if ahead_s > bounds.clock_skew_s:
            yield Finding(
                code="clock-skew",
                severity=Severity.CRITICAL,
                where="this machine",
                what=f"{whose} is {ahead_s:.0f} s ahead of this machine's clock ({iso(seen.now)})",
                why="writers whose clocks differ by more than 60 s are refused; ages are wrong",
                do="correct the clock (NTP) of this host, or of the event's author: "
                "segtable table timeline TABLE --limit 1",
            )


def _uncompacted(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    chosen = seen.planned.chosen
    if not chosen:
        return
    done = [
        known.changed_at
        for known in seen.state.plans.values()
        if known.status is PlanStatus.COMPLETED
    ]
    timeline = seen.state.timeline
    inputs = (timeline.get(each) for plan in chosen for each in plan.inputs)
    oldest = min((s.created for s in inputs if s), default=seen.now)
    minutes = seen.minutes_since(max((oldest, *done)))
    if minutes < bounds.idle_minutes:
        return
    segments = sum(len(plan.inputs) for plan in chosen)
    size = describe_size(sum(plan.size for plan in chosen))
    yield Finding(
        code="not-compacted",
        severity=Severity.WARNING,
        where=seen.table,
        what=f"nothing was compacted for {_age(minutes)}; worthwhile: "
        f"{counted(len(chosen), 'plan')} over {counted(segments, 'segment')} ({size})",
        why="scans get slower with every small segment",
        do="segtable compact TABLE --all, and check that its DAG runs",
    )


def _orphans(seen: Observed, bounds: Bounds) -> Iterator[Finding]:
    if not seen.orphans:
        return
    count, size = len(seen.orphans), describe_size(sum(seen.orphans.values()))
    examples = ", ".join(sorted(seen.orphans)[:SHOWN])
    yield Finding(
        code="orphans",
        severity=Severity.INFO,
        where="data/",
        what=f"{count} unreferenced files ({size}) older than {bounds.orphan_hours:g} h: "
        f"{examples}{' ...' if count > SHOWN else ''}",
        why="dead workers left them: they use space, and are never read",
        do="segtable clean TABLE",
    )


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    return f"{shown} and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else shown


def _age(minutes: float) -> str:
    if minutes < 120:
        return f"{minutes:.0f} min"
    hours = minutes / 60
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"


# Deleted rows that no plan rewrites
def undone_deletions(seen: Observed) -> Iterator[Finding]:
    """Yield a finding if chunks with many deleted rows have no plan, with the planner's reason."""
    found = look_at_table(seen.state, seen.policy, seen.now)
    about = [known.plan.interval for known in found.pending]
    about += [plan.interval for plan in seen.planned.chosen]
    idle = {
        chunk.interval: much
        for chunk in found.chunks()
        if not any(interval.overlaps(chunk.interval) for interval in about)
        and (much := found.much_deleted(found.segments(chunk.interval)))
    }
    if not idle:
        return
    worst = max(idle, key=lambda interval: _weight(found, interval))
    rows = found.deleted.rows_of(found.segments(worst))
    yield Finding(
        code="deleted-rows",
        severity=Severity.WARNING,
        where=str(worst),
        what=f"{idle[worst]} ({counted(round(rows), 'row')}), and no compaction is planned"
        f"{_why(seen, worst)}; affected time chunks: {len(idle)}",
        why="scans decode deleted rows only to drop them, and their space is not freed",
        do=f"segtable compact TABLE --kind major --interval {worst}",
    )


def _weight(found: PlannerContext, interval: Interval) -> tuple[float, int]:
    segments = found.segments(interval)
    return found.deleted.bytes_of(segments), found.deleted.waiting(segments)


def _why(seen: Observed, interval: Interval) -> str:
    reasons = (s.reason for s in seen.planned.skipped if s.chunk.interval.overlaps(interval))
    reason = next((reason for reason in reasons if "delete" in reason), None)
    return f": {reason}" if reason else ""


# Consumers
MOST = 0.5
"""Part of ``retention.consumer_hours`` from which a consumer lags."""


def lagging_consumers(
    state: State, unread: Mapping[str, Instant | None], *, now: Instant, hours: float
) -> Iterator[Finding]:
    """Yield the consumers that lag.

    Args:
        state: the newest state.
        unread: the time of the first change of rows after a consumer's position, by consumer; None
            if it has read everything.
        now: this machine's clock.
        hours: for how long cleaning keeps versions for late consumers.
    """
    for name, consumer in sorted(state.consumers.items()):
        if needed_from(state, consumer) < state.retained_from:
            yield _lost(name, consumer, state)
        elif (since := unread[name]) is not None and now - since > MOST * hours * HOUR_US:
            yield _lagging(name, consumer, (now - since) / HOUR_US, hours)


def _lost(name: str, consumer: Consumer, state: State) -> Finding:
    return Finding(
        code="lost-consumer",
        severity=Severity.WARNING,
        where=name,
        what=f"its position, version {consumer.version}, was cleaned: versions are kept from "
        f"{state.retained_from} on",
        why="it cannot read the changes since its position",
        do=f"let it read a whole version N, then: segtable consumers advance TABLE {name} "
        f"--version N; or drop it: segtable consumers drop TABLE {name}",
    )


def _lagging(name: str, consumer: Consumer, lag: float, hours: float) -> Finding:
    return Finding(
        code="lagging-consumer",
        severity=Severity.WARNING,
        where=name,
        what=f"it has not read on from version {consumer.version} for {lag:.0f} hours",
        why=f"cleaning keeps old files for it, and takes its position after {hours:g} hours "
        "(retention.consumer_hours)",
        do=f"look why it does not read, or drop it: segtable consumers drop TABLE {name}",
    )
