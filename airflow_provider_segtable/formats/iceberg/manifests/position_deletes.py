"""Files of deleted positions: which rows of one data file are hidden.

They have the data file's URI and a row's position in each row, in order, as Iceberg wants it.
"""

from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from airflow_provider_segtable.data.parquet.table_file import identified
from airflow_provider_segtable.formats.iceberg.manifests.entries import PATH_ID, POSITION_ID

_SCHEMA = pa.schema(
    [
        identified(pa.field("file_path", pa.string(), nullable=False), PATH_ID),
        identified(pa.field("pos", pa.int64(), nullable=False), POSITION_ID),
    ]
)


def encode_positions(uri: str, hidden: BitMap) -> bytes:
    """Return the bytes of the file that hides rows of the data file at ``uri``."""
    positions = np.asarray(hidden.to_array(), dtype=np.int64)
    path = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int8), [uri])
    rows = pa.table([path.cast(pa.string()), positions], schema=_SCHEMA)
    out = BytesIO()
    pq.write_table(rows, out, compression="zstd", store_schema=False, write_page_checksum=True)
    return out.getvalue()


def decode_positions(data: bytes, uri: str) -> BitMap:
    """Return the positions that a file hides in the data file at ``uri``.

    Raises:
        ValueError, ArrowException, OSError, KeyError: it is broken, or is of another data file.
    """
    rows = pq.read_table(BytesIO(data), page_checksum_verification=True)
    others = {*rows.column("file_path").unique().to_pylist()} - {uri}
    if others:
        raise ValueError(f"it is of {min(map(str, others))}, too")
    return BitMap(rows.column("pos").to_pylist())
