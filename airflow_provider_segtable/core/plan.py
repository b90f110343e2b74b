"""What a compaction is going to do, decided before it starts and written into the log.

1. A plan names its inputs: whole, visible, adjacent atomic update groups of one chunk, in root
   order. Its outputs stand for the same root range at a higher minor version.
2. Its id is a function of table, kind and inputs: planned twice, it is the same plan, and
   whoever runs it again finds that it has been done.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_segtable.core.segment import ChunkKey, SegmentId


class PlanKind(StrEnum):
    """The kinds of compaction."""

    MINOR = "minor"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """One compaction: inputs to outputs of equal root range.

    ``rows`` and ``size`` (bytes) are those of the inputs; ``outputs`` is how many segments the
    atomic update group will have; ``reason`` is for people.
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


def plan_id(table: str, kind: PlanKind, inputs: tuple[SegmentId, ...]) -> str:
    """Return the id of a plan, fit for a DAG run id: ``minor-20130101-1a2b3c4d5e6f``."""
    text = "\n".join((table, kind, *map(str, inputs)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{kind}-{inputs[0].interval.name[:8]}-{digest}"
