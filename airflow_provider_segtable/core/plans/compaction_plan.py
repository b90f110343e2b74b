"""Compaction plans: decided before a compaction starts, and written into the log.

=============  ===============================  =================================================
kind           inputs                           outputs
=============  ===============================  =================================================
minor          whole, visible, adjacent groups  the same root range at a higher minor version, in
               of a chunk                       the order of the inputs
semi-major     all of a chunk as of the plan    the same, sorted by the clustering columns, well
                                                sized
major          all of a region of time, as of   a new version of the region's chunks, sorted,
               the start of the attempt         perfectly rolled up; repartitioned by
                                                ``granularity`` if that is given
=============  ===============================  =================================================

A plan's id is a function of table, kind, purpose and inputs. A plan made twice has the same id,
and a worker that runs it again finds that it is completed.

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
        kind: the kind of compaction.
        chunk: the chunk of the inputs; the first input's for a major compaction.
        inputs: the input segments, by root; for a major compaction, those at planning time.
        root_start: the first root that the outputs stand for (not major).
        root_end: the first root after them (not major).
        outputs: the maximum number of output segments (major: about).
        rows: the number of input rows.
        size: the size of the inputs in bytes.
        reason: the reason for the plan, for people.
        clustering: the order of output rows (``core.tables.clustering``); event time if empty.
        region: the time that a major compaction replaces.
        granularity: the region's new granularity; None to keep the present one.
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
        """Return the interval that the plan compacts."""
        return self.region or self.chunk.interval


def plan_id(table: str, kind: PlanKind, inputs: tuple[SegmentId, ...], purpose: str = "") -> str:
    """Return the id of a plan, usable as a DAG run id: ``minor-20130101-1a2b3c4d5e6f``.

    ``purpose`` distinguishes plans over equal inputs: the requested clustering and granularity.
    """
    text = "\n".join((table, kind, *map(str, inputs), *((purpose,) if purpose else ())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{kind}-{inputs[0].interval.name[:8]}-{digest}"
