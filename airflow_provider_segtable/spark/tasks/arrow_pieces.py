"""Send a task's rows to the driver piece by piece, as Arrow's bytes in one column.

The driver takes them partition by partition (``toLocalIterator``), so it holds no whole batch, and
no row becomes a Python object on the way.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

PIECE = "piece"
PIECES = pa.schema([(PIECE, pa.binary())])


def packed_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch of rows as one row with its bytes."""
    for batch in batches:
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays(
                [pa.array([sink.getvalue().to_pybytes()])], schema=PIECES
            )


def unpacked_rows(piece: bytes) -> pa.Table:
    """Return the rows of a piece."""
    with pa.ipc.open_stream(piece) as reader:
        return reader.read_all()
