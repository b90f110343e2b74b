"""The deletes of a state as row filters of its segments; each vector file is read once."""

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from airflow_provider_segtable.core.deletion import Deletion
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.data.deletes.row_bits import Bits, bits_of
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.vector_file import read_vectors
from airflow_provider_segtable.ports.files import DataFiles


def row_filters(
    files: DataFiles, state: State, segments: Iterable[Segment]
) -> dict[SegmentId, RowFilter]:
    """Return each segment's row filter, by segment id.

    Raises:
        NotFound, CorruptTable: a vector file is missing or broken.
    """
    reader = VectorReader(files)
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
    return {root: reader.rows(root, tuple(some)) for root, some in deletions.items()}


class VectorReader:
    """Reads each vector file once and packs each set of rows once."""

    def __init__(self, files: DataFiles) -> None:
        """Read vector files of ``files``."""
        self.files = files
        self.held: dict[str, dict[SegmentId, BitMap]] = {}
        self.made: dict[tuple[SegmentId, tuple[Deletion, ...]], Bits] = {}

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
                self.made[key] = bits_of(self.rows(*key).to_array())
        return {str(root): self.made[root, some] for root, some in wanted.items()}
