"""What a compaction is going to do, decided before it starts and written into the log.

=============  ===============================  =================================================
kind           inputs                           outputs
=============  ===============================  =================================================
minor          whole, visible, adjacent groups  the same root range at a higher minor version, in
               of a chunk                       the order of the inputs
semi-major     all of a chunk as of the plan    the same, sorted by the clustering columns, well
                                                sized
major          all of a region of time, as of   a new version of the region's chunks, sorted,
               the start of the attempt         perfectly rolled up; cut anew by ``granularity``
                                                if that is given
=============  ===============================  =================================================

A plan's id is a function of table, kind, purpose and inputs: planned twice, it is the same plan,
and whoever runs it again finds that it has been done.

Source of the idea: Druid's minor compaction; its major compaction, and the semi-major one that
it names, are future work there.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_segtable.core.segments.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time.interval import Granularity, Interval


class PlanKind(StrEnum):
    """The kinds of compaction."""

    MINOR = "minor"
    SEMI_MAJOR = "semi-major"
    MAJOR = "major"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """One compaction.

    Attributes:
        id: see ``plan_id``.
        kind: which of the three.
        chunk: the chunk of the inputs; the first one's for a major compaction.
        inputs: the input segments, by root; what a major compaction found when it was planned.
        root_start: the first root that the outputs stand for (not major).
        root_end: the first root after them (not major).
        outputs: how many segments the result will have, at most (not major: about).
        rows: of the inputs.
        size: of the inputs, in bytes.
        reason: for people.
        clustering: how rows are to be sorted (``core.tables.clustering``); by event time if empty.
        region: the time that a major compaction replaces.
        granularity: how the region is to be cut from now on; None: as it is.
    """

    id: str
    kind: PlanKind
    chunk: ChunkKey
    inputs: tuple[SegmentId, ...]
    root_start: int
    root_end: int
    outputs: int
    rows: int
    size: int
    reason: str
    clustering: str = ""
    region: Interval | None = None
    granularity: Granularity | None = None

    @property
    def interval(self) -> Interval:
        """Return the time that the plan is about."""
        return self.region or self.chunk.interval


def plan_id(table: str, kind: PlanKind, inputs: tuple[SegmentId, ...], purpose: str = "") -> str:
    """Return the id of a plan, fit for a DAG run id: ``minor-20130101-1a2b3c4d5e6f``.

    ``purpose`` tells plans over equal inputs apart: the clustering and granularity asked for.
    """
    text = "\n".join((table, kind, *map(str, inputs), *((purpose,) if purpose else ())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{kind}-{inputs[0].interval.name[:8]}-{digest}"
