"""Rows of new files that their writer keeps in memory, for the indexes (``file_rows``).

Every commit imports this module, so it imports no library of rows.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COPIES = 128 << 20
"""Bytes of copied rows that a write keeps."""


class KeptRows:
    """The rows of new files by path, in some columns."""

    def __init__(
        self, schema: Schema | None = None, columns: Collection[str] = (), most: int | None = None
    ) -> None:
        """Begin without rows.

        Args:
            schema: the schema of the rows.
            columns: the columns to keep; nothing is kept without one.
            most: the most bytes to keep; without a bound if None.
        """
        self._schema = schema
        self._columns = frozenset(columns)
        self._most = most
        self._bytes = 0
        self._groups: dict[str, list[pa.Table]] = {}
        self._left_out: set[str] = set()

    def keep(self, path: str, rows: "pa.Table") -> None:
        """Keep the next row group of a file, or none of the file if there is no room."""
        if not self._columns or path in self._left_out:
            return
        some = rows.select([name for name in rows.column_names if name in self._columns])
        groups = self._groups.setdefault(path, [])
        groups.append(some)
        if self._most is not None:
            self._bytes += some.nbytes
            if self._bytes > self._most:
                self._left_out.add(path)
                self._bytes -= sum(each.nbytes for each in self._groups.pop(path))

    def seen(self, path: str) -> bool:
        """Return whether rows of a file were given, kept or not."""
        return path in self._groups or path in self._left_out

    def of(
        self, path: str, schema: Schema, columns: Collection[str]
    ) -> "Sequence[pa.Table] | None":
        """Return the row groups of a file; None if they are not kept, or not in these columns.

        Args:
            path: the file.
            schema: the schema of the version that is asked.
            columns: the columns, by their names there.
        """
        groups = self._groups.get(path)
        if groups is None or self._schema != schema:
            return None
        return groups if {*groups[0].column_names}.issuperset(columns) else None
