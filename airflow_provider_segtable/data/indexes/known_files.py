"""The files that entries are about, and whether the entries about a file may be trusted.

1. They are trusted if the path and the checksum of the footer are those of the log, all row groups
   are there, and their rows add up to the file's.
2. A file of an older segtable has no checksum. Its path was written once, so that is enough.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE, ROWS
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entry_kind import footer_checksum

TRUST_COLUMNS = (FILE, CHECKSUM, ROWS)


@dataclass(slots=True)
class _Known:
    """The entries about one file: the place of each, by its number, and what they say."""

    checksum: str | None
    rows: int = 0
    places: dict[int, int] = field(default_factory=dict)


class KnownFiles:
    """The files that entries are about."""

    def __init__(self, entries: pa.Table, number: str | None = None) -> None:
        """Find the files.

        Args:
            entries: the entries, with ``TRUST_COLUMNS``.
            number: the column that numbers the entries about a file; None if there is one each.
        """
        numbers = [0] * len(entries) if number is None else entries.column(number).to_pylist()
        columns = (entries.column(name).to_pylist() for name in TRUST_COLUMNS)
        self._files: dict[str, _Known] = {}
        for place, (path, checksum, rows, part) in enumerate(zip(*columns, numbers, strict=True)):
            known = self._files.get(path)
            if known is None:
                known = self._files[path] = _Known(checksum)
            if checksum != known.checksum:
                known.checksum = None  # no file has two footers
            known.rows += rows or 0
            known.places[part] = place

    def places(self, segment: Segment, count: int = 1) -> list[int]:
        """Return the places of the entries about a file; none if they may not be trusted.

        Args:
            segment: the file.
            count: the number of entries that there are about the file.
        """
        known = self._files.get(segment.path)
        if known is None or known.checksum != footer_checksum(segment):
            return []
        whole = known.rows == segment.rows and known.places.keys() == {*range(count)}
        return [*known.places.values()] if whole else []
