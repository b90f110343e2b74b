"""Write and read files of deletion vectors, and make row filters of segments from them.

1. A file is Arrow IPC with one row per root: its segment id, the number of deleted rows, and the
   rows as a roaring bitmap in the portable serialization (32 bits, as in Delta and Iceberg).
2. It is written once, under an unguessable name. It takes effect once an event names it.
3. The event also records the checksum of its bytes. A reader rejects bytes that differ from it.
4. Only drivers read these files. Tasks receive ``bits`` and need no bitmap library.
5. The deletes of a state become row filters of its segments; each vector file is read once, those
   of an object store in parallel.
"""

import io
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.deletion import Deletion, VectorFile
from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable, NotFound
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.data.open_files import is_remote, open_whole
from airflow_provider_segtable.data.parquet.checked_tail import Views
from airflow_provider_segtable.data.row_filter import Bits, RowFilter, bits_of
from airflow_provider_segtable.ports.files import DataFiles

# Files of deletion vectors
AT_ONCE = 16
"""The most files that are read at once."""
FOLDER = "deletes"
FORMAT = b"1"
_KEY = b"segtable.vectors"
_SCHEMA = pa.schema(
    [("root", pa.string()), ("rows", pa.int64()), ("bitmap", pa.binary())],
    metadata={_KEY: FORMAT},
)

Rows = Mapping[SegmentId, BitMap]
"""Deleted rows by root."""


def vectors_path(token: str) -> str:
    """Return the path of a vector file; ``token`` makes it unguessable."""
    return f"{FOLDER}/{token}.arrow"


def write_vectors(files: DataFiles, rows: Rows, token: str) -> VectorFile:
    """Write the vectors that are not empty, ordered by root.

    Raises:
        StorageError: nothing is left behind.
    """
    path = vectors_path(token)
    given = {root: rows[root] for root in sorted(rows) if rows[root]}
    table = pa.table(
        [
            pa.array(map(str, given), pa.string()),
            pa.array(map(len, given.values()), pa.int64()),
            pa.array([bitmap.serialize() for bitmap in given.values()], pa.binary()),
        ],
        schema=_SCHEMA,
    )
    held = io.BytesIO()
    with pa.ipc.new_file(held, _SCHEMA) as writer:
        writer.write_table(table)
    data = held.getvalue()
    with files.create(path) as sink:
        sink.write(data)
        sink.commit()
    counts = {root: len(bitmap) for root, bitmap in given.items()}
    return VectorFile(path=path, size=len(data), rows=counts, checksum=digest(data))


def read_vectors(files: DataFiles, path: str, checksum: str = "") -> dict[SegmentId, BitMap]:
    """Load the vectors of a file.

    Args:
        files: the data files that hold it.
        path: its path.
        checksum: the checksum of its bytes; not compared if empty.

    Raises:
        NotFound: the file is missing (cleaned, or lost).
        ChecksumMismatch: its bytes differ from the bytes written.
        CorruptTable: it is not a vector file, or contradicts itself.
    """
    try:
        with open_whole(files, path) as source:
            data = source.read_at(0, source.size)
        if checksum and digest(data) != checksum:
            raise ChecksumMismatch(
                f"{path} (deletion vectors) was damaged after it was written: restore it"
            )
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        found = (table.schema.metadata or {}).get(_KEY)
        if found != FORMAT:
            raise CorruptTable(f"{path} has format {found!r} of deletion vectors, not {FORMAT!r}")
        rows = {
            SegmentId.parse(row["root"]): _bitmap(row["bitmap"], row["rows"], path)
            for row in table.to_pylist()
        }
    except NotFound:
        raise NotFound(f"{path} (deletion vectors) is gone: read a newer snapshot") from None
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptTable(f"{path} holds no deletion vectors ({error}): restore it") from error
    return rows


def _bitmap(data: bytes, rows: int, path: str) -> BitMap:
    bitmap = BitMap.deserialize(data)
    if len(bitmap) != rows:
        raise CorruptTable(f"{path} names {len(bitmap)} rows where it says {rows}: restore it")
    return bitmap


def united(several: Iterable[Rows]) -> dict[SegmentId, BitMap]:
    """Return the union of the vectors, by root."""
    found: dict[SegmentId, BitMap] = {}
    for rows in several:
        for root, bitmap in rows.items():
            found[root] = found[root] | bitmap if root in found else bitmap
    return found


# Row filters of a state
def row_filters(
    files: DataFiles, state: State, segments: Iterable[Segment], views: Views | None = None
) -> dict[SegmentId, RowFilter]:
    """Return each segment's row filter, by segment id.

    Args:
        files: the table's data files.
        state: the version.
        segments: the segments.
        views: sets of deleted rows that were read before, on a local disk.

    Raises:
        NotFound, CorruptTable: a vector file is missing or broken.
    """
    remote, segments = is_remote(files), tuple(segments)
    reader = VectorReader(files, None if remote else views)
    if remote:  # all files at once: one after another they would be round trips
        reader.load(each for one in segments for each in state.deletions(one).values())
    return {
        segment.id: RowFilter(
            runs=segment.runs,
            deleted=reader.bits(state.deletions(segment)),
            predicates=tuple(each.predicate for each in state.erased(segment)),
        )
        for segment in segments
    }


def deleted_rows(
    files: DataFiles, deletions: Mapping[SegmentId, Iterable[Deletion]]
) -> dict[SegmentId, BitMap]:
    """Return the deleted rows by root."""
    reader = VectorReader(files)
    given = {root: tuple(some) for root, some in deletions.items()}
    if is_remote(files):
        reader.load(given.values())
    return {root: reader.rows(root, some) for root, some in given.items()}


class VectorReader:
    """Reads each vector file once and packs each set of rows once."""

    def __init__(self, files: DataFiles, views: Views | None = None) -> None:
        """Read vector files of ``files``, unless ``views`` has their sets of rows."""
        self.files = files
        self.views = views
        self.held: dict[str, dict[SegmentId, BitMap]] = {}
        self.made: dict[tuple[SegmentId, tuple[Deletion, ...]], Bits] = {}

    def load(self, deletions: Iterable[Iterable[Deletion]]) -> None:
        """Load the files of some deletions in parallel."""
        sums = {each.path: each.checksum for some in deletions for each in some}
        new = {path: checksum for path, checksum in sums.items() if path not in self.held}
        if new:
            with ThreadPoolExecutor(AT_ONCE, "segtable-vectors") as pool:
                read = pool.map(lambda path: read_vectors(self.files, path, new[path]), new)
                self.held.update(zip(new, read, strict=True))

    def rows(self, root: SegmentId, deletions: tuple[Deletion, ...]) -> BitMap:
        """Return the rows of a root that some deletions name."""
        for each in deletions:
            if each.path not in self.held:
                self.held[each.path] = read_vectors(self.files, each.path, each.checksum)
        return BitMap.union(*(self.held[each.path][root] for each in deletions))

    def bits(self, wanted: Mapping[SegmentId, tuple[Deletion, ...]]) -> dict[str, Bits]:
        """Return deleted rows as bits, by root as text."""
        for key in wanted.items():
            if key not in self.made:
                self.made[key] = self._packed(*key)
        return {str(root): self.made[root, some] for root, some in wanted.items()}

    def _packed(self, root: SegmentId, some: tuple[Deletion, ...]) -> Bits:
        def made() -> tuple[Bits, int]:
            bits = bits_of(self.rows(root, some).to_array())
            return bits, len(bits)

        return made()[0] if self.views is None else self.views.view((root, some), made)
