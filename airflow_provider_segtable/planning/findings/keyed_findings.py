"""Find files that are not merged as readers need them; pure, from observations.

1. A bucket whose log files outweigh its base is merged by every read. It is reported if its logs
   are worth a compaction, and none is planned.
2. Buckets of a time chunk should have about ``BUCKET_BYTES`` each: with too many, a write makes
   many tiny files; with too few, one job merges too much at once. A factor of ``FAR_OFF`` is
   reported, by the largest time chunk and the number of buckets that it has.
3. A bucket that lost its base shows nothing to readers that merge nothing, although compactions
   merged it. Segments of a rollup table that were restored beside a base are not rolled up with it.
   An older segtable left such buckets, and published such chunks. They are reported unless a plan
   over them is pending; the planner's own plans wait for their thresholds and for a run.
"""

from collections import Counter
from collections.abc import Iterator

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.keyed_kind import BUCKET_BYTES, DEFAULT_BUCKETS
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Slice, slices
from airflow_provider_segtable.planning.findings.health_findings import Observed

FAR_OFF = 8
MOST_LOG_SHARE = 0.5


def keyed_findings(seen: Observed) -> Iterator[Finding]:
    """Yield what makes reads of a primary-key table slow or empty, or a rollup table's double."""
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
        why="base_only, and what is published as Delta and Iceberg, show no row of the bucket",
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
            why="a group may have several rows; what an older segtable published of it since has "
            "them, too, and no newer version is published before they are one",
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
