"""Detect major compactions that left out values of columns, by an older segtable.

1. Writers of a primary-key table may write log files beside a major compaction to other buckets or
   time chunks; its completion names them as ``late``, and divides their rows. An older segtable
   divided them in the columns of ``PlanInflight``. So values of columns that an alteration had
   added since are missing in what it wrote, and read as null or the column's default.
2. The log tells it: the divided files have an earlier schema than a late file. What was divided by
   this segtable never has.
3. The finding is about an event, so it stays until the log forgets the plan or the event.
"""

from collections.abc import Iterator, Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.events import PlanCompleted
from airflow_provider_segtable.core.log.fold import segments_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import event_path


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
    """Yield the late files with their events, newest first, as far as the log has them."""
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
