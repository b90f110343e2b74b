"""Find primary-key tables whose reads merge too much; pure, from observations.

1. A bucket whose log files outweigh its base is merged by every read. It is reported if its logs
   are worth a compaction, and none is planned.
2. Buckets of a time chunk should have about ``BUCKET_BYTES`` each: with too many, a write makes
   many tiny files; with too few, one job merges too much at once. A factor of ``FAR_OFF`` is
   reported, by the largest time chunk and the number of buckets that it has.
"""

from collections import Counter
from collections.abc import Iterator

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.tables.keyed.keyed_kind import BUCKET_BYTES, DEFAULT_BUCKETS
from airflow_provider_segtable.core.tables.keyed.slices import Slice, slices
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.planning.findings.health_findings import Observed

FAR_OFF = 8
MOST_LOG_SHARE = 0.5


def keyed_findings(seen: Observed) -> Iterator[Finding]:
    """Yield what makes reads of a primary-key table slow; nothing for other tables."""
    if not seen.state.table.kind.buckets:
        return
    found = list(slices(seen.state.timeline))
    yield from _heavy_logs(seen, found)
    yield from _bucket_sizes(seen, found)


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
        do=f"segtable compact {seen.table} --kind semi-major --interval {interval}",
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
        do=f"segtable compact {seen.table} --kind major --interval {interval} --buckets {better}",
    )
