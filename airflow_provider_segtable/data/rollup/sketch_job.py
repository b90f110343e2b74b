"""Compacting a rollup table with sketches: a job that only a Spark driver can run.

1. Sketches are Spark's, and merging them moves rows from task to task. So this job is not sent to a
   task: ``spark.driver.distribution`` recognises it, and runs ``spark.writes.sketch_compaction`` on
   the driver.
2. Anywhere else it says which metric is the sketch, and where to go.
"""

from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchJob:
    """All of one compaction.

    ``spec`` and ``inputs`` say what is rolled up into what; ``outputs`` gives ids once it is known
    how many segments there will be.
    """

    spec: SortSpec
    inputs: tuple[Segment, ...]
    outputs: Outputs

    @property
    def attempt(self) -> str:
        """Return the attempt; files get names of their own, as each task's try must."""
        return self.spec.attempt

    @property
    def cost(self) -> int:
        """Return how many bytes it reads."""
        return sum(segment.size for segment in self.inputs)

    @property
    def title(self) -> str:
        """Return what Spark's pages are to call it."""
        return f"roll up {len(self.inputs)} segments with sketches"

    def run(self, files: DataFiles | None = None) -> Any:  # noqa: ARG002  # every job has this
        """Refuse.

        Raises:
            InvalidInput: always; names the sketch.
        """
        sketches = self.spec.rollup.sketches if self.spec.rollup else ()
        raise InvalidInput(
            f"{', '.join(map(str, sketches))} of {self.spec.uri}: only Spark can merge sketches; "
            "run the compaction in Spark (segtable compact --engine spark, or spark_execute)"
        )
