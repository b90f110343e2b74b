"""The rows of an event's new files, from which the entries of all indexes are computed.

1. The author of a change keeps the rows that it writes, in the columns that the indexes of the
   version need (``data.indexes.file_rows``). Their entries are computed without reading, also
   before the files are durable.
2. A file whose rows are not kept is read: one that a Spark task wrote, a copy of too many rows, or
   any file if an index was requested meanwhile. If several indexes need it, it is opened once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.kept_rows import MOST_COPIES, KeptRows
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.indexes.file_rows import FileRows


class NewRows:
    """The rows of one change's new files."""

    def __init__(
        self, ports: TableContext, kept: KeptRows | None = None, ready: Ready | None = None
    ) -> None:
        """Begin with the rows that the author of the change kept.

        ``ready`` waits until the files of the change can be read; None if they can.
        """
        self._ports = ports
        self._kept = kept or KeptRows()
        self._read = KeptRows()
        self._read_for: tuple[Schema, list[str]] | None = None
        self._ready = ready

    def of(self, segment: Segment, state: State, index: IndexDefinition) -> "FileRows":
        """Return the rows of a file; reading them fails as ``FileRows.groups`` does.

        Args:
            segment: the file.
            state: the version whose indexes are fed.
            index: one of them.

        Raises:
            SegtableError: the file cannot be read, or is damaged.
        """
        from airflow_provider_segtable.data.indexes.file_rows import FileRows

        rows = FileRows(segment=segment, table=state.table, files=self._ports.files)
        wanted = index.kind.sources(state.table)
        if not wanted:
            return rows
        found = self._kept_of(segment, state, wanted)
        return replace(rows, kept=self._read_once(rows, state, wanted) if found is None else found)

    def unread(
        self, segments: Iterable[Segment], state: State, index: IndexDefinition
    ) -> list[Segment]:
        """Return the files that have to be read for an index."""
        wanted = index.kind.sources(state.table)
        return [s for s in segments if wanted and self._kept_of(s, state, wanted) is None]

    def _kept_of(
        self, segment: Segment, state: State, wanted: Sequence[str]
    ) -> "Sequence[pa.Table] | None":
        schema = state.table.schema
        same = segment.schema == schema.number
        return self._kept.of(segment.path, schema, wanted) if same else None

    def _read_once(
        self, rows: "FileRows", state: State, wanted: Sequence[str]
    ) -> "Sequence[pa.Table] | None":
        """Return the rows of a file, read for all indexes; None if only one index needs them."""
        if self._ready is not None:
            self._ready()
        sources = [
            s for i in state.indexes.values() if (s := i.definition.kind.sources(rows.table))
        ]
        if len(sources) < 2:
            return None
        path, schema, columns = rows.segment.path, rows.table.schema, sorted({*chain(*sources)})
        if self._read_for != (schema, columns):
            self._read, self._read_for = KeptRows(schema, columns, MOST_COPIES), (schema, columns)
        if not self._read.seen(path):
            for group in rows.read(columns):
                self._read.keep(path, group)
        return self._read.of(path, schema, wanted)
