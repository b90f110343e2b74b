"""The plan of a scan: the scan's own choice of files, and what their footers decide.

1. The files come from the scan's selection, with what each of its steps left. Before its first step
   there are the segments that the version does not show; only their chunks are decoded.
2. Each chosen file is opened as it is for reading (``SegmentRead.plan``): its footer, and no rows.
   Deletion vectors are read, because they decide which row groups are.
3. Other files are not opened.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.selection import (
    DeletesApplied,
    Extent,
    FilePlan,
    Layer,
    Merging,
    PrunedBy,
    PruneStep,
    ReadPlan,
    Selection,
    footer_steps,
)
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.data.files.segment_files import THREADS
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.table.reads.parts import Part

if TYPE_CHECKING:
    from airflow_provider_segtable.table.reads.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The files that a scan chose, and how it reads them."""

    selection: Selection[Any]
    reads: Sequence[SegmentRead]
    deletes: DeletesApplied
    merging: Merging | None = None


def explained(scan: "Scan") -> ReadPlan:
    """Return the plan of a scan; errors as for reading it."""
    rules, request = scan.state.table.kind.rules, scan.request
    chosen = _parts(scan) if rules is None else _groups(scan, rules)
    files = _looked_into(chosen.reads)
    timeline = scan.state.timeline
    summaries = timeline.visible_summaries()
    return ReadPlan(
        table=scan.ports.uri,
        version=scan.version,
        since_version=None if scan.start is None else scan.start.n,
        where=None if request.where is None else str(request.where),
        interval=None if request.interval is None else str(request.interval),
        chunks=len({chunk.interval for chunk, found in summaries.items() if found.files}),
        hidden_segments=len(timeline) - sum(found.visible for found in summaries.values()),
        steps=(*_steps(timeline, chosen.selection.layers), *footer_steps(files)),
        files=files,
        known_columns=tuple(scan.state.table.schema.names),
        deletes=chosen.deletes,
        merging=chosen.merging,
        index_notes=chosen.selection.notes,
    )


def _parts(scan: "Scan") -> _Chosen:
    selection = scan.selection()
    parts = [*scan.chosen(selection)]
    return _Chosen(
        selection=selection,
        reads=[read for _, read in scan.readings(parts)],
        deletes=_deletes(scan.state, parts),
    )


def _groups(scan: "Scan", rules: MergeRules) -> _Chosen:
    merged = scan.merged_scan(rules)
    selection = merged.found
    return _Chosen(
        selection=selection,
        reads=[read for group in selection.left for read in merged.reads(group)],
        deletes=DeletesApplied(),
        merging=_merging(selection.left, scan.state.timeline),
    )


def _looked_into(reads: Iterable[SegmentRead]) -> tuple[FilePlan, ...]:
    """Return the plans of files by their footers, several at a time, each file once."""
    each = {read.segment.path: read for read in reads}
    with ThreadPoolExecutor(THREADS) as pool:
        return tuple(pool.map(SegmentRead.plan, each.values()))


def _steps(timeline: Timeline, layers: Iterable[Layer]) -> tuple[PruneStep, ...]:
    """Return the steps that choose files."""
    summaries = timeline.visible_summaries().values()
    shown = Extent(sum(each.files for each in summaries), sum(each.size for each in summaries))
    hidden = _hidden_files(timeline)
    present = Extent(shown.files + len(hidden), shown.bytes + sum(hidden.values()))
    steps = [PruneStep(PrunedBy.HIDDEN, present, shown)]
    for layer in layers:
        files = layer.files
        after = Extent(len(files), sum(segment.size for segment in files.values()))
        steps.append(PruneStep(layer.by, steps[-1].after, after, layer.index))
    return tuple(steps)


def _hidden_files(timeline: Timeline) -> dict[str, int]:
    """Return the sizes of files that no visible segment has, by path.

    A segment that was carried over shares its file with a hidden one.
    """
    hidden = [segment for segment in timeline.hidden_segments() if segment.path]
    near = timeline.visible_near(segment.id.interval for segment in hidden)
    shown = {segment.path for segment in near}
    return {segment.path: segment.size for segment in hidden if segment.path not in shown}


def _deletes(state: State, parts: Iterable[Part]) -> DeletesApplied:
    each = {part.segment.id: part for part in parts}.values()
    filters = [replace(part.row_filter, chosen=None) for part in each]
    held = [found for found in filters if not found.passes_all]
    counted = [found for found in held if found.runs and not found.predicates]
    vectors = (some for part in each for some in state.deletions(part.segment).values())
    return DeletesApplied(
        files=len(held),
        rows=sum(found.deleted_rows() for found in counted),
        uncounted_files=len(held) - len(counted),
        vector_files=len({deletion.path for some in vectors for deletion in some}),
        predicates=len({one for found in held for one in found.predicates}),
    )


def _merging(groups: Sequence[FileGroup], timeline: Timeline) -> Merging:
    files = [segment for group in groups for segment in group.segments]
    chunks = {segment.id.chunk for segment in files}
    inside = {segment.id for chunk in chunks for segment in timeline.base(chunk)}
    bases = sum(segment.id in inside for segment in files)
    return Merging(
        file_groups=len(groups),
        merged=sum(not group.merged for group in groups),
        base_files=bases,
        log_files=len(files) - bases,
        most_runs=max((group.runs for group in groups), default=0),
    )
