"""A condition explained: the files and time chunks that a read opens, those left out, and why.

1. The read is planned by the library (``library.explaining``): footers are opened, no row is read.
2. It is the only answer here that depends on a text of the user: a condition that cannot be parsed
   is refused with its error.
"""

from collections.abc import Iterable, Mapping, Sequence

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.reads.selection import PruneStep, ReadPlan
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library.explaining import ReadFile, read_files, savings
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Limit, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.table.scan import Scan


class Step(Shown):
    """A step that leaves files or row groups out."""

    by: str
    index: str
    files_before: int
    files_after: int
    row_groups_before: int | None
    row_groups_after: int | None
    bytes_before: int
    bytes_after: int


class ExplainedFile(Shown):
    """A file of the table in a read."""

    path: str
    bytes: int
    rows: int
    opened: bool
    left_out_by: str = Field(description="the step that left it out; empty if it is opened")
    index: str
    row_groups: int
    row_groups_read: int | None
    bytes_read: int


class ExplainedChunk(Shown):
    """A time chunk in a read."""

    interval: str
    files: int
    opened: int
    bytes: int
    bytes_read: int
    left_out_by: dict[str, int] = Field(description="number of files by step")


class Savings(Shown):
    """The read with some indexes."""

    indexes: list[str]
    files_opened: int
    row_groups_read: int | None
    bytes_read: int
    notes: list[str]


class Explained(Shown):
    """A condition explained."""

    where: str
    files: int
    files_opened: int
    bytes: int
    bytes_read: int
    steps: list[Step]
    chunks: list[ExplainedChunk]
    chunks_total: int
    opened: list[ExplainedFile]
    left_out: list[ExplainedFile]
    opened_total: int
    left_out_total: int
    savings: list[Savings]
    notes: list[str]


def explained_of(
    plan: ReadPlan, files: Iterable[ReadFile], saved: Sequence[Facts], limit: int
) -> Explained:
    """Return a read plan as the page shows it.

    Args:
        plan: the plan.
        files: all visible files in it.
        saved: the same read with other indexes (``library.explaining.savings``).
        limit: most files of each list.
    """
    every = [*files]
    opened = [_file(each) for each in every if not each.left_out_by]
    left = [_file(each) for each in every if each.left_out_by]
    chunks = _chunks(every)
    facts = plan.facts
    return Explained(
        where=plan.where or "",
        files=plan.shown.files,
        files_opened=len(plan.files),
        bytes=plan.shown.bytes,
        bytes_read=plan.read.bytes,
        steps=[_step(each) for each in plan.steps],
        chunks=chunks[:MOST_LISTED],
        chunks_total=len(chunks),
        opened=opened[:limit],
        left_out=left[:limit],
        opened_total=len(opened),
        left_out_total=len(left),
        savings=[_saved(each) for each in saved],
        notes=[
            *(f"{each['index']}: {each['text']}" for each in facts["index_notes"]),
            *facts["not_looked_into"],
        ],
    )


def _step(step: PruneStep) -> Step:
    return Step(
        by=step.by.value,
        index=step.index,
        files_before=step.before.files,
        files_after=step.after.files,
        row_groups_before=step.before.row_groups,
        row_groups_after=step.after.row_groups,
        bytes_before=step.before.bytes,
        bytes_after=step.after.bytes,
    )


def _file(found: ReadFile) -> ExplainedFile:
    segment, facts = found.segment, found.plan.facts if found.plan else None
    return ExplainedFile(
        path=segment.path,
        bytes=segment.size,
        rows=segment.rows,
        opened=not found.left_out_by,
        left_out_by=found.left_out_by,
        index=found.index,
        row_groups=segment.row_groups,
        row_groups_read=facts["row_groups_read"] if facts else None,
        bytes_read=facts["bytes_read"] if facts else 0,
    )


def _chunks(files: Sequence[ReadFile]) -> list[ExplainedChunk]:
    """Return the time chunks of files, by time."""
    by_chunk: dict[Interval, list[ReadFile]] = {}
    for each in files:
        by_chunk.setdefault(each.segment.id.interval, []).append(each)
    return [_chunk(interval, by_chunk[interval]) for interval in sorted(by_chunk)]


def _chunk(interval: Interval, files: Sequence[ReadFile]) -> ExplainedChunk:
    left_out: dict[str, int] = {}
    for each in files:
        if each.left_out_by:
            name = each.index or each.left_out_by
            left_out[name] = left_out.get(name, 0) + 1
    plans = [each.plan.facts["bytes_read"] for each in files if each.plan]
    return ExplainedChunk(
        interval=str(interval),
        files=len(files),
        opened=sum(not each.left_out_by for each in files),
        bytes=sum(each.segment.size for each in files),
        bytes_read=sum(plans),
        left_out_by=left_out,
    )


def _saved(facts: Mapping[str, object]) -> Savings:
    notes = facts["notes"]
    return Savings(
        indexes=facts["indexes"],  # type: ignore[arg-type]
        files_opened=facts["files_opened"],  # type: ignore[arg-type]
        row_groups_read=facts["row_groups_read"],  # type: ignore[arg-type]
        bytes_read=facts["bytes_read"],  # type: ignore[arg-type]
        notes=[f"{each['index']}: {each['text']}" for each in notes],  # type: ignore[attr-defined]
    )


# The lake's answers
def explain_seen(seen: Seen, *, where: str, limit: int) -> Explained:
    """Return the plan of a read with a condition.

    Raises:
        InvalidInput: the condition cannot be parsed, or names a missing column.
        StorageError: a footer cannot be read.
    """
    scan = Scan(ports=seen.ports, state=seen.state, request=read_request(where=where or None))
    plan = scan.explain()
    files = read_files(seen.state.timeline, plan)
    return explained_of(plan, files, savings(scan, plan), limit)


def routes(lake: Lake) -> APIRouter:
    """Return the route of explained conditions."""
    router = APIRouter()

    @router.get("/api/explain")
    async def explain(table: str, where: str = "", limit: Limit = 200) -> Answer[Explained]:
        return await lake.answer(table, explain_seen, where=where, limit=limit)

    return router
