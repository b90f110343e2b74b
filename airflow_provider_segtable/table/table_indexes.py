"""The indexes of ``Table``: create, rebuild, drop and read them.

An index keeps entries about data files, so that reads open fewer of them. ``library.Table`` builds
indexes, too (``run_index``).

Source of the idea: Hudi's metadata table and RFC-45, where an index is built while writers go on.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.indexes.index_kind import ColumnStats
from airflow_provider_segtable.core.indexes.index_state import IndexState, chosen_kind
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.indexes.entries import ColumnSummary


class TableIndexes:
    """Indexes of one table; a part of ``Table``."""

    __slots__ = ()
    ports: TableContext

    def create_index(
        self,
        name: str,
        kind: str = ColumnStats.name,
        columns: Sequence[str] | str = (),
        *,
        commit_id: str | None = None,
        **settings: Any,
    ) -> int:
        """Add an index, to be fed and built from now on; return the version that has it.

        Writers feed it in their own events from then on. Entries about older files are built by
        ``library.Table.run_index``, ``segtable index run`` or an index DAG run, while writers and
        readers go on.

        Args:
            name: the index's name: letters, digits, '.', '_' and '-'.
            kind: ``column_stats``, or another kind of ``core.indexes.index_state.KINDS``; each says
                there what it keeps.
            columns: the columns to index, for kinds that take columns; one may be given by its name
                alone.
            commit_id: equal ids add it once; random by default.
            settings: those of the kind: ``rate=0.001`` for ``bloom_filter``; None for its default.

        Raises:
            InvalidInput: the name is taken or not a name, the kind is unknown, or does not fit the
                columns or the settings; nothing is written.
            CommitConflict: another process has just added an index of this name.
            CommitUnknown: run again with the same commit id.
        """
        from airflow_provider_segtable.table import index_lifecycle

        some = [columns] if isinstance(columns, str) else columns
        chosen = chosen_kind(kind, self.ports.log.load().table, columns=some, settings=settings)
        return index_lifecycle.request_index(self.ports, name, chosen, commit_id=commit_id).n

    def indexes(self) -> Mapping[str, IndexState]:
        """Return the indexes by their names, each with its definition and its lacks."""
        return MappingProxyType(dict(self.ports.log.load().indexes))

    def index(self, name: str) -> IndexState:
        """Return one index.

        Raises:
            InvalidInput: there is none of that name; the message names the existing ones.
        """
        from airflow_provider_segtable.table import index_lifecycle

        return index_lifecycle.index_named(self.ports.log.load(), name, self.ports.uri)

    def rebuild_index(self, name: str) -> int:
        """Begin an index anew with the same settings; return the version that has the new one.

        The new index replaces the old one at once, so it lacks all files until it is built. Only a
        damaged index needs this (``segtable doctor``).

        Raises:
            InvalidInput: there is no index of this name, or a column of it was dropped.
            CommitConflict: another process replaced or dropped it meanwhile.
            CommitUnknown: look at ``indexes``, and run it again.
        """
        from airflow_provider_segtable.table import index_lifecycle

        return index_lifecycle.rebuild_index(self.ports, name).n

    def drop_index(self, name: str) -> int:
        """End an index and delete its files; return the version without it.

        Reads that use it go on without it.

        Raises:
            InvalidInput: there is no index of this name.
            CommitConflict: another process dropped it meanwhile.
            CommitUnknown: look at ``indexes``, and run it again.
        """
        from airflow_provider_segtable.table import index_lifecycle

        return index_lifecycle.drop_index(self.ports, name).n

    def index_entries(
        self, name: str, *, version: int | None = None, replaced: bool = False
    ) -> "pa.Table":
        """Return the entries of an index: a row for each file, row group of a file, or record.

        Kinds about files have entries about the visible files of a version. Files that the index
        lacks (``index(name).current``) have none.

        Kinds about files have the columns ``file``, ``start`` (of its time chunk), ``checksum`` (of
        its footer) and ``rows``. ``column_stats`` adds ``row_group`` and, for the column with id 3,
        ``low_3``, ``high_3``, ``nulls_3``, ``nan_3`` and ``distinct_3``; ``bloom_filter`` adds
        ``bloom_3``; ``files`` adds ``end`` and ``bytes``.
        ``record_index`` has ``start`` (the event time), ``key_3``, ``ordering``, ``instant``,
        ``log_version``, ``write_token`` and ``deleted``; removed records may still have entries.

        Args:
            name: the index.
            version: the version of the table; the newest by default. Entries about files that were
                cleaned since are missing.
            replaced: also return entries about replaced files; they stay until the files are
                cleaned.

        Raises:
            InvalidInput: there is no index of this name in this version.
            VersionExpired: the version is not kept any more.
            SegtableError: the entries cannot be read: rebuild the index.
        """
        from airflow_provider_segtable.table import index_lifecycle
        from airflow_provider_segtable.table.indexes.index_entries import entries_in

        state = self.ports.log.load()
        if version is not None:
            state = self.ports.log.version(version, state)
        index = index_lifecycle.index_named(state, name, self.ports.uri)
        found = entries_in(self.ports, index)
        return found if replaced else index_lifecycle.visible_entries(index, state, found)

    def index_summary(self, name: str) -> "tuple[ColumnSummary, ...]":
        """Return the values of each column of a ``column_stats`` index, over all visible files.

        No data file is opened. Files that the index does not know, and the fact that some rows are
        deleted, are not accounted for.

        Raises:
            InvalidInput: there is no index of this name, or it keeps no values.
            SegtableError: the entries cannot be read: rebuild the index.
        """
        from airflow_provider_segtable.table import index_lifecycle

        state = self.ports.log.load()
        index = index_lifecycle.index_named(state, name, self.ports.uri)
        return index_lifecycle.column_summaries(self.ports, index, state)
