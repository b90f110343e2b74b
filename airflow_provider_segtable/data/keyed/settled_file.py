"""Write and read vector files of settled file groups: the fates of the rows of their files.

1. A file is Arrow IPC with one row per settled data file: its file group, its partition, its number
   of rows, and three roaring bitmaps in the portable serialization; null stands for no row.
2. It is written once, under an unguessable name beside deletion vectors, and takes effect once an
   event names it. The event has the checksum of its bytes.
3. Only drivers read these files; tasks receive ``FileFates``.
"""

import io
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable, NotFound
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.data.keyed.row_fates import RowFates, RowNumbers
from airflow_provider_segtable.data.open_files import open_whole
from airflow_provider_segtable.data.vector_file import FOLDER
from airflow_provider_segtable.ports.files import DataFiles

FORMAT = b"1"
PREFIX = "settled-"
_KEY = b"segtable.settled"
_SCHEMA = pa.schema(
    [
        pa.field("chunk", pa.string(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        ("lost", pa.binary()),
        ("tombstones", pa.binary()),
        ("open", pa.binary()),
    ],
    metadata={_KEY: FORMAT},
)


def settled_path(token: str) -> str:
    """Return the path of a vector file; ``token`` makes it unguessable."""
    return f"{FOLDER}/{PREFIX}{token}.arrow"


def is_settled_path(path: str) -> bool:
    """Return whether a path is that of a vector file of settled groups."""
    return path.startswith(f"{FOLDER}/{PREFIX}")


@dataclass(frozen=True, slots=True)
class SettledFile:
    """A vector file that was written."""

    path: str
    size: int
    checksum: str


def write_settled(
    files: DataFiles, groups: Mapping[ChunkKey, Mapping[int, RowFates]], token: str
) -> SettledFile:
    """Write the fates of file groups, by partition.

    Raises:
        StorageError: nothing is left behind.
    """
    rows = [
        {
            "chunk": str(chunk),
            "partition": partition,
            "rows": fates.rows,
            "lost": _serialized(fates.lost),
            "tombstones": _serialized(fates.tombstones),
            "open": _serialized(fates.open),
        }
        for chunk in sorted(groups)
        for partition, fates in sorted(groups[chunk].items())
    ]
    held = io.BytesIO()
    with pa.ipc.new_file(held, _SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
    data = held.getvalue()
    path = settled_path(token)
    with files.create(path) as sink:
        sink.write(data)
        sink.commit()
    return SettledFile(path, len(data), digest(data))


def _serialized(rows: RowNumbers) -> bytes | None:
    if not len(rows):
        return None
    bitmap = BitMap(rows)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def read_settled(files: DataFiles, path: str, checksum: str) -> pa.Table:
    """Load a vector file; ``fates_in`` finds the groups in it.

    Raises:
        NotFound: the file is missing.
        ChecksumMismatch: its bytes differ from those written.
        CorruptTable: it is no such file.
    """
    try:
        with open_whole(files, path) as source:
            data = source.read_at(0, source.size)
        if digest(data) != checksum:
            raise ChecksumMismatch(
                f"{path} (settled rows) was damaged after it was written: run segtable settle"
            )
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
    except NotFound:
        raise NotFound(f"{path} (settled rows) is gone: run segtable settle") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptTable(
            f"{path} holds no settled rows ({error}): run segtable settle"
        ) from error
    if table.schema != _SCHEMA or (table.schema.metadata or {}).get(_KEY) != FORMAT:
        raise CorruptTable(
            f"{path} does not have settled rows of format {FORMAT!r}: run segtable settle"
        )
    return table


def fates_in(table: pa.Table, chunk: ChunkKey) -> dict[int, RowFates]:
    """Return the fates of a group's rows, by partition; empty if the file does not have it.

    Raises:
        CorruptTable: a bitmap is broken, or names rows that the file does not have.
    """
    chosen = np.flatnonzero(np.asarray(table.column("chunk")) == str(chunk))
    return {
        row["partition"]: _fates(row, chunk) for row in table.take(pa.array(chosen)).to_pylist()
    }


def _fates(row: Mapping[str, object], chunk: ChunkKey) -> RowFates:
    try:
        found = [_bitmap(row[name]) for name in ("lost", "tombstones", "open")]
    except ValueError as error:
        raise CorruptTable(f"settled rows of {chunk} are broken ({error})") from None
    count = int(str(row["rows"]))
    if any(len(rows) and rows[-1] >= count for rows in found):
        raise CorruptTable(f"settled rows of {chunk} are beyond the {count} rows of their file")
    return RowFates(count, *found)


def _bitmap(data: object) -> RowNumbers:
    found = BitMap.deserialize(data) if isinstance(data, bytes) else BitMap()
    return np.asarray(found.to_array(), np.uint32)
