"""Findings about indexes and about unmerged files of buckets; pure, from observations.

Indexes: lacking time, and conditions that keep readers from using them. None of this makes a read
wrong: files without usable entries are opened.

1. An index that has lacked something for ``index_minutes``, without a pending plan that builds it,
   is reported: as *unbuilt* until it is available for the first time, then as *lagging*.
2. An index whose newest plan was aborted is *resting*: the planner leaves it alone for a while. So
   is one whose begun plan has been left alone for ``index_minutes``. If the locks are known, the
   rule of abandoned plans says the latter.
3. Readers do not use an index whose own table cannot be read, or has other columns than the index
   needs (after a repair that changed the table's columns).
4. A writer copies the feeds of an index when the state has ``MANY`` of them. If there are more,
   writers fail to copy them, and every state and checkpoint carries them.
5. The own table of an index that the table does not have is *lost*: the log was lost with its
   request. The table of a dropped index has a marker of its end; a young one is being created.

Files that are not merged as readers need them (``keyed_findings``):

6. A bucket whose log files outweigh its base is merged by every read. It is reported if its logs
   are worth a compaction, and none is planned.
7. Buckets of a time chunk should have about ``BUCKET_BYTES`` each: with too many, a write makes
   many tiny files; with too few, one job merges too much at once. A factor of ``FAR_OFF`` is
   reported, by the largest time chunk and the number of buckets that it has.
8. A bucket that lost its base shows nothing to readers that merge nothing, although compactions
   merged it. Segments of a rollup table that were restored beside a base are not rolled up with it.
   An older segtable left such buckets, and published such chunks. They are reported unless a plan
   over them is pending; the planner's own plans wait for their thresholds and for a run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_state import (
    IndexState,
    IndexStatus,
    folder,
    index_table,
    name_of,
)
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import BUCKET_BYTES, DEFAULT_BUCKETS
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.core.timeline import Slice, slices
from airflow_provider_segtable.planning.findings.health_findings import Bounds, Observed

# Indexes
MANY = 64
"""Number of feeds from which on writers copy them."""


def index_findings(
    seen: Observed, bounds: Bounds, tables: Mapping[str, TableDefinition | str]
) -> Iterator[Finding]:
    """Yield the problems of a table's indexes.

    Args:
        seen: the table.
        bounds: reporting thresholds.
        tables: by name, the definition of the index's own table, or why it cannot be read.
    """
    for name, index in seen.state.indexes.items():
        yield from [*_resting(seen, index, bounds)] or _behind(seen, index, bounds)
        own = tables[name]
        if isinstance(own, str):
            yield _unreadable(index, own)
        elif (why := _misfit(seen, index, own)) is not None:
            yield _unfit(index, why)
        if len(index.feeds) > MANY:
            yield _uncopied(index)


def lost_indexes(ids: Iterable[str]) -> Iterator[Finding]:
    """Yield the indexes whose tables are there, and which the table does not have, by id."""
    for each in ids:
        name = name_of(each)
        yield Finding(
            code="lost-index",
            severity=Severity.WARNING,
            where=f"index {name}",
            what=f"{folder(each)} keeps entries, but the table has no such index: its log was lost "
            "and repaired, or a creation was interrupted",
            why="reads open the files instead; cleaning deletes the entries once they are old",
            do=f"segtable index create TABLE {name} --kind KIND --columns A,B --run",
        )


def _resting(seen: Observed, index: IndexState, bounds: Bounds) -> Iterator[Finding]:
    plans = (each for each in seen.state.plans.values() if _builds(each, index))
    known = max(plans, key=lambda each: each.last_n, default=None)
    if known is None or index.current:
        return
    aborted = known.status is PlanStatus.ABORTED
    left = (
        known.status.pending
        and known.attempts > 0
        and seen.locks is None
        and seen.minutes_since(known.changed_at) >= bounds.index_minutes
    )
    if aborted or left:
        note = f" ({known.note})" if known.note else ""
        name = index.definition.name
        yield Finding(
            code="resting-index",
            severity=Severity.WARNING,
            where=f"index {name}",
            what=f"plan {known.plan.id}, which builds it, is {known.status.value} since "
            f"{iso(known.changed_at)}, after {counted(known.attempts, 'attempt')}{note}",
            why="the index stays incomplete, so reads open the files that it does not know",
            do=f"find the cause, then: segtable index run TABLE {name}",
        )


def _builds(known: PlanState, index: IndexState) -> bool:
    """Return whether a plan is of an index, and not of an older one of its name."""
    named = known.plan.facts().get("index") == index.definition.name
    return named and known.requested_at >= index.requested_at


def _behind(seen: Observed, index: IndexState, bounds: Bounds) -> Iterator[Finding]:
    since = index.lacking_since
    if since is None or seen.minutes_since(since) < bounds.index_minutes:
        return
    name = index.definition.name
    pending = (known.plan.facts().get("index") for known in seen.state.pending_plans())
    if name in pending:
        return
    built = index.status is IndexStatus.AVAILABLE
    lag_s = seen.minutes_since(since) * 60
    commits = counted(index.lagging_commits, "commit")
    yield Finding(
        code="lagging-index" if built else "unbuilt-index",
        severity=Severity.WARNING,
        where=f"index {name}",
        what=f"it lacks {commits} since its request, for {lag_s:,.0f} s (since {iso(since)}), and "
        "no run of it is planned",
        why="reads open every file that has no entry"
        if built
        else "it is not available: sensors wait for it, and reads open the files without entries",
        do=f"segtable index run TABLE {name}, and check that its DAG runs",
    )


def _unreadable(index: IndexState, why: str) -> Finding:
    return Finding(
        code="unreadable-index",
        severity=Severity.WARNING,
        where=f"index {index.definition.name}",
        what=f"its own table cannot be read, so it is not used: {why}",
        why="reads open the files instead, and writers no longer feed it",
        do=_rebuild(index),
    )


def _misfit(seen: Observed, index: IndexState, own: TableDefinition) -> str | None:
    """Return why the entries do not fit the table any more; None if they do."""
    try:
        wanted = index_table(index.definition, seen.state.table)
    except InvalidInput as error:
        return str(error)
    types = {column.name: column.type for column in own.schema.columns}
    for column in wanted.schema.columns:
        if types.get(column.name) != column.type:
            return f"column {column.name!r} of its entries would be {column.type} now"
    return None


def _unfit(index: IndexState, why: str) -> Finding:
    name = index.definition.name
    return Finding(
        code="unfit-index",
        severity=Severity.WARNING,
        where=f"index {name}",
        what=f"the columns of the table have changed, so it is not used: {why}",
        why="reads open the files instead, and writers no longer feed it",
        do=f"{_rebuild(index)}; or, if its column is gone: segtable index drop TABLE {name}",
    )


def _uncopied(index: IndexState) -> Finding:
    own = len(index.feeds)
    return Finding(
        code="uncopied-feeds",
        severity=Severity.WARNING,
        where=f"index {index.definition.name}",
        what=f"{counted(own, 'feed')} wait to be copied into its own table, since version "
        f"{index.feeds[0][0]}",
        why="writers try it at every commit and fail; checkpoints and states carry all feeds",
        do=f"segtable clean TABLE copies them, and says why it cannot; if it cannot: "
        f"{_rebuild(index)}",
    )


def _rebuild(index: IndexState) -> str:
    return f"segtable index rebuild TABLE {index.definition.name}"


# Files that are not merged as readers need them
FAR_OFF = 8
MOST_LOG_SHARE = 0.5


def keyed_findings(seen: Observed) -> Iterator[Finding]:
    """Yield causes of slow or empty reads of a primary-key table, or double ones of a rollup's."""
    if seen.state.table.kind.merges:
        yield from _restored(seen)
    if not seen.state.table.kind.buckets:
        return
    found = list(slices(seen.state.timeline))
    yield from _without_base(seen, found)
    yield from _heavy_logs(seen, found)
    yield from _bucket_sizes(seen, found)


def _without_base(seen: Observed, found: list[Slice]) -> Iterator[Finding]:
    pending = {i.chunk for known in seen.state.pending_plans() for i in known.inputs}
    torn = [each for each in found if each.torn and each.chunk not in pending]
    if not torn:
        return
    interval = torn[0].chunk.interval
    yield Finding(
        code="bucket-without-base",
        severity=Severity.WARNING,
        where=f"{interval} bucket {torn[0].chunk.bucket}",
        what=f"{counted(torn[0].log_files, 'file')} and no base, although a compaction made one "
        "before: a part of it was lost, or an older segtable restored it; affected buckets: "
        f"{len(torn)}",
        why="base_only, and readers of Delta and Iceberg, see no row of the bucket",
        do=f"segtable compact TABLE --kind semi-major --interval {interval}",
    )


def _restored(seen: Observed) -> Iterator[Finding]:
    """Yield chunks in which a version shows restored segments beside a base."""
    state = seen.state
    found = [
        chunk
        for chunk, summary in state.timeline.visible_summaries().items()
        if summary.core and summary.late != 0
        if any(map(_of_restored_core, state.timeline.beside_base(chunk)))
    ]
    pending = [known.plan.interval for known in state.pending_plans()]
    found = [each for each in found if not any(each.interval.overlaps(p) for p in pending)]
    if found:
        interval = found[0].interval
        yield Finding(
            code="restored-not-rolled-up",
            severity=Severity.WARNING,
            where=str(interval),
            what="the time chunk was restored with segments that no major compaction had rolled "
            f"up; affected time chunks: {len(found)}",
            why="a group may have several rows; a version that an older segtable published since "
            "has them, too, and no newer version is published before they are one",
            do=f"segtable compact TABLE --kind major --interval {interval}",
        )


def _of_restored_core(segment: Segment) -> bool:
    return segment.origin is not None and segment.id.partition < segment.shard.core


def _heavy_logs(seen: Observed, found: list[Slice]) -> Iterator[Finding]:
    planned = {i for known in seen.state.pending_plans() for i in known.inputs}
    planned |= {i for plan in seen.planned.chosen for i in plan.inputs}
    busy = {each.chunk for each in planned}
    heavy = [each for each in found if _heavy(seen, each) and each.chunk not in busy]
    if not heavy:
        return
    worst = max(heavy, key=lambda each: each.log_bytes)
    interval = worst.chunk.interval
    yield Finding(
        code="log-heavy-bucket",
        severity=Severity.WARNING,
        where=f"{interval} bucket {worst.chunk.bucket}",
        what=f"{counted(worst.log_files, 'log file')} ({describe_size(worst.log_bytes)}) above "
        f"{describe_size(worst.base_bytes)} of base files, and no compaction is planned; affected "
        f"buckets: {len(heavy)}",
        why=f"every read of the bucket merges {worst.runs} runs",
        do=f"segtable compact TABLE --kind semi-major --interval {interval}",
    )


def _heavy(seen: Observed, each: Slice) -> bool:
    policy = seen.policy
    worth = each.log_files >= policy.min_segments or each.log_bytes >= policy.target_size
    return worth and each.log_share > MOST_LOG_SHARE


def _bucket_sizes(seen: Observed, found: list[Slice]) -> Iterator[Finding]:
    sizes: Counter[Interval] = Counter()
    for each in found:
        sizes[each.chunk.interval] += each.size
    if not sizes:
        return
    interval, size = max(sizes.items(), key=lambda one: (one[1], one[0]))
    own = next(each.buckets for each in found if each.chunk.interval == interval)
    buckets = own or seen.state.table.kind.buckets
    better = max(1, -(-size // BUCKET_BYTES))
    few, many = buckets * FAR_OFF < better, buckets > FAR_OFF * max(better, DEFAULT_BUCKETS)
    if not few and not many:
        return
    yield Finding(
        code="few-buckets" if few else "many-buckets",
        severity=Severity.WARNING,
        where=str(interval),
        what=f"{counted(buckets, 'bucket')} share {describe_size(size)}, the largest time chunk",
        why="one job merges a bucket, and waits for its longest"
        if few
        else "each write and each compaction makes many tiny files",
        do=f"segtable compact TABLE --kind major --interval {interval} --buckets {better}",
    )
