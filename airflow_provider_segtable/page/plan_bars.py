"""Plans as bars over time, and the tasks that work on them.

1. A plan's bar has three times: requested, begun (its latest attempt), ended.
2. A plan that runs or waits ends nowhere; one that was aborted ends with its note.
"""

from typing import Literal

from pydantic import Field

from airflow_provider_segtable.core.log.author import task_named
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey
from airflow_provider_segtable.core.time import SECOND_US, iso
from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.planning.selection import ranges


class TaskName(Shown):
    """The task of a DAG run that an author is."""

    dag_id: str
    run_id: str
    task_id: str


def shown_task(author: str) -> TaskName | None:
    """Return the task that an author is; None if it is none."""
    found = task_named(author)
    if found is None:
        return None
    return TaskName(dag_id=found.dag_id, run_id=found.run_id, task_id=found.task_id)


class Place(Shown):
    """A part of a table: an interval, a bucket of it, or partitions of either."""

    interval: str
    bucket: int | None
    partitions: str = Field(description="ranges, e.g. 0-15, 17; empty: all")


def place_of(chunk: ChunkKey, partitions: tuple[int, ...] = ()) -> Place:
    """Return some partitions of a chunk as a place; all without any."""
    return Place(
        interval=str(chunk.interval),
        bucket=None if chunk.bucket == NO_BUCKET else chunk.bucket,
        partitions=ranges(partitions),
    )


class PlanBar(Shown):
    """A plan as a bar over time."""

    id: str
    kind: str
    status: Literal["requested", "inflight", "completed", "aborted"]
    interval: str
    reason: str
    note: str
    requested: str = Field(description="ISO-8601 UTC")
    inflight: str | None = Field(description="begin of its latest attempt")
    completed: str | None = Field(description="when it was completed or aborted")
    waited_seconds: float
    worked_seconds: float | None
    attempts: int
    yields: int
    author: str = Field(description="of its newest event")
    task: TaskName | None
    event: int = Field(description="its newest event")
    rows: int
    bytes: int = Field(description="of its inputs")
    files_read: int
    files_written: int | None
    bytes_written: int | None


def bar_of(known: PlanState) -> PlanBar:
    """Return the bar of a plan."""
    plan, work = known.plan, known.work
    begun = known.started_at or None
    ended = None if known.status.pending else known.changed_at
    return PlanBar(
        id=plan.id,
        kind=plan.kind,
        status=known.status.value,
        interval=str(plan.interval),
        reason=plan.reason,
        note=known.note,
        requested=iso(known.requested_at),
        inflight=None if begun is None else iso(begun),
        completed=None if ended is None else iso(ended),
        waited_seconds=known.waited / SECOND_US,
        worked_seconds=known.worked / SECOND_US if known.worked else None,
        attempts=known.attempts,
        yields=known.yields,
        author=known.author,
        task=shown_task(known.author),
        event=known.last_n,
        rows=plan.rows,
        bytes=plan.size,
        files_read=work.files_read if work else len(known.inputs),
        files_written=work.files_written if work else None,
        bytes_written=work.bytes_written if work else None,
    )
