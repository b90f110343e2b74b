"""Check the inputs of a sketch compaction, and estimate its rows' bytes, in tasks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.parquet.segment_files import check_whole
from airflow_provider_segtable.data.sort.sorted_writer import probed
from airflow_provider_segtable.spark.tasks.faults import reported

SAMPLED_ROWS, SAMPLED_BYTES = 20_000, 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTask:
    """Compare segments with every byte of their files."""

    uri: str
    storage_options: Mapping[str, str]

    def run(self, segments: Iterable[Segment]) -> Iterator[tuple[str, str]]:
        """Yield an error, as values, for each file that does not match its segment."""
        files = open_files(self.uri, self.storage_options)
        for segment in segments:
            try:
                check_whole(files, segment)
            except SegtableError as error:
                yield reported(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTask:
    """Encode the first rows of a range; ``sketches`` are the numbers of the sketch columns."""

    sketches: tuple[int, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the bytes that the rows take in a file, and their weight."""
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if batch.num_rows and rows < SAMPLED_ROWS and size < SAMPLED_BYTES:
                held.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
        if held:
            table = pa.Table.from_batches(held)
            weight = 8.0 * table.num_columns * rows
            for number in self.sketches:
                weight += pc.sum(pc.binary_length(table.column(number))).as_py() or 0
            taken = probed(table, table.column_names).width * rows
            yield pa.RecordBatch.from_pylist([{"size": taken, "weight": weight}])
