"""A condition explained: what a read of it opens and leaves out, and what indexes save.

1. The read is planned by the library's own scan (``table.scan``): footers of the files that are
   left are opened, and no row is read.
2. A file is left out by the first step after which it is not left any more; the rest is opened.
3. *Savings* plan the same read without indexes, with each, and with all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.reads.selection import FilePlan, ReadPlan
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.table.scan import Scan

MOST_INDEXES = 6
"""A table of more indexes is planned without any, and with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A visible file in a read.

    Attributes:
        segment: its segment.
        left_out_by: the step that left it out; empty if it is opened.
        index: the name of the index that the step goes by, if any.
        plan: how it is read, if it is opened.
    """

    segment: Segment
    left_out_by: str = ""
    index: str = ""
    plan: FilePlan | None = None


def read_files(timeline: Timeline, plan: ReadPlan) -> Iterator[ReadFile]:
    """Yield all visible files, those that are left out first."""
    left = {segment.path: segment for segment in timeline.each_visible() if segment.path}
    for layer in plan.layers:
        after = layer.files
        for path, segment in left.items():
            if path not in after:
                yield ReadFile(segment=segment, left_out_by=layer.by.value, index=layer.index)
        left = {path: segment for path, segment in left.items() if path in after}
    plans = {each.path: each for each in plan.files}
    for path, segment in left.items():
        yield ReadFile(segment=segment, plan=plans.get(path))


def savings(scan: Scan, planned: ReadPlan | None = None) -> list[Facts]:
    """Return the plan of a read without indexes, with each, and with all of them.

    Args:
        scan: the read.
        planned: its plan with all indexes, if it is known.

    Raises:
        InvalidInput: a change feed is requested.
    """
    every = scan.state.indexes
    return [
        _savings(planned if planned is not None and some == every else _plan(scan, some), some)
        for some in _choices(every)
    ]


def _choices(indexes: Mapping[str, IndexState]) -> Iterator[Mapping[str, IndexState]]:
    """Yield no index, each one, and all of them."""
    yield {}
    if len(indexes) <= MOST_INDEXES:
        yield from ({name: index} for name, index in indexes.items())
    if len(indexes) > 1:
        yield indexes


def _plan(scan: Scan, indexes: Mapping[str, IndexState]) -> ReadPlan:
    return replace(scan, state=replace(scan.state, indexes=indexes)).explain()


def _savings(plan: ReadPlan, indexes: Mapping[str, IndexState]) -> Facts:
    return {
        "indexes": [*indexes],
        "files": plan.shown.files,
        "files_opened": len(plan.files),
        "row_groups_read": plan.read.row_groups,
        "bytes_read": plan.read.bytes,
        "notes": [asdict(note) for note in plan.index_notes],
    }
