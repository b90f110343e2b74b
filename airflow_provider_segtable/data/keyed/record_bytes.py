"""Records as bytes, to travel where no file is worth its cost.

1. The bytes are an Arrow IPC stream, compressed as a whole with zstd: of a few rows, the schema is
   most of it.
2. Its columns are those of the rows, and ``GONE``: whether a row is a tombstone of its key.
"""

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.data.keyed.log_files import Records

GONE = HIDDEN + "gone"


def encode_records(records: Records) -> bytes:
    """Return records as bytes."""
    rows = records.rows.append_column(GONE, pa.array(records.deleted))
    rows = rows.combine_chunks()
    sink = pa.BufferOutputStream()
    with (
        pa.CompressedOutputStream(sink, "zstd") as packed,
        pa.ipc.new_stream(packed, rows.schema) as writer,
    ):
        writer.write_table(rows)
    return bytes(sink.getvalue())


def decode_records(data: bytes, where: str) -> Records:
    """Return the records of ``encode_records``.

    Raises:
        CorruptTable: the bytes are broken.
    """
    try:
        packed = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
        with pa.ipc.open_stream(packed) as reader:
            rows = reader.read_all()
        deleted = np.asarray(rows.column(GONE).to_numpy())
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptTable(
            f"{where}: its entries are broken ({error}): rebuild the index"
        ) from None
    return Records(rows=rows.drop_columns([GONE]), deleted=deleted)
