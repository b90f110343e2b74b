"""Compacting a rollup table with sketches: a job that only a Spark driver can run.

1. Sketches are Spark's, and merging them moves rows between tasks. So this job is not sent to a
   task: ``spark.driver.distribution`` recognises it, and runs ``spark.writes.sketch_compaction`` on
   the driver.
2. Elsewhere the job raises an error that names the sketch metrics and the way to run it.
"""

from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchJob:
    """One whole compaction.

    ``spec``, ``rollup`` and ``inputs`` define it; ``outputs`` allocates ids once the number of
    segments is known.
    """

    spec: SortSpec
    rollup: Rollup
    inputs: tuple[Segment, ...]
    outputs: Outputs

    @property
    def attempt(self) -> str:
        """Return the attempt of the compaction; each Spark task attempt names its own files."""
        return self.spec.attempt

    @property
    def cost(self) -> int:
        """Return the number of bytes it reads."""
        return sum(segment.size for segment in self.inputs)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"roll up {counted(len(self.inputs), 'segment')} with sketches"

    def run(self, files: DataFiles | None = None) -> Any:  # noqa: ARG002  # every job has this
        """Refuse to run outside Spark.

        Raises:
            InvalidInput: always; names the sketches.
        """
        sketches = ", ".join(map(str, self.rollup.sketches))
        raise InvalidInput(
            f"{sketches} of {self.spec.uri}: only Spark can merge sketches; "
            "run the compaction in Spark (segtable compact --engine spark, or spark_execute)"
        )
