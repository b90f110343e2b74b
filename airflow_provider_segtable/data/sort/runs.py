"""Runs: files of rows by range, written by the scatter stage and read by the gather stage.

1. A run is an Arrow IPC file below ``data/_runs/``: one record batch for each range that has rows,
   dictionaries once, not compressed: it lives for minutes and is read from the page cache.
2. A gather job reads only the batches of its ranges.
3. Runs are not part of the table: the log never names them, and they are garbage after a crash.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.data.files.open_files import SinkFile
from airflow_provider_segtable.data.parquet.blocks import decoding
from airflow_provider_segtable.data.parquet.segment_scan import SourceFile
from airflow_provider_segtable.data.sort.sort_keys import Numbers
from airflow_provider_segtable.ports.files import DataFiles

FOLDER = "data/_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortRun:
    """A written run: its path, and the range and row count of each batch.

    ``density`` is the output's bytes per row, measured on a sample of the run; with rollup,
    ``noted`` contains hashes of the keys in each batch (see ``distinct``).
    """

    path: str
    ranges: tuple[int, ...]
    rows: tuple[int, ...]
    size: int
    density: float = 0.0
    noted: tuple[Numbers, ...] = ()

    def between(self, first: int, end: int) -> list[int]:
        """Return the numbers of the batches of ranges ``[first, end)``."""
        return [at for at, number in enumerate(self.ranges) if first <= number < end]


def write_run(
    files: DataFiles, path: str, schema: pa.Schema, parts: Iterable[tuple[int, pa.Table]]
) -> SortRun:
    """Write rows by range; ``parts`` has each range once, in order."""
    ranges: list[int] = []
    rows: list[int] = []
    with files.create(path) as sink:
        with pa.ipc.new_file(SinkFile(sink), schema) as writer:
            for number, table in parts:
                for batch in table.combine_chunks().to_batches():
                    writer.write_batch(batch)
                    ranges.append(number)
                    rows.append(batch.num_rows)
        size = sink.position
        sink.commit()
    return SortRun(path=path, ranges=tuple(ranges), rows=tuple(rows), size=size)


def read_run(
    files: DataFiles, run: SortRun, first: int, end: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of ranges ``[first, end)``, each batch with the number of its range.

    Raises:
        NotFound: the run is missing.
        CorruptTable: it cannot be read.
    """
    batches = run.between(first, end)
    if not batches:
        return
    with files.open(run.path) as source, decoding(run.path):
        reader = pa.ipc.open_file(SourceFile(source))
        for at in batches:
            yield run.ranges[at], pa.Table.from_batches([reader.get_batch(at)])
