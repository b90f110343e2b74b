"""The registry of kinds of index, in Arrow."""

from collections.abc import Mapping

from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats, FileList
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.data.indexes.bloom_entries import BloomEntries
from airflow_provider_segtable.data.indexes.entry_kind import EntryKind
from airflow_provider_segtable.data.indexes.file_entries import FileEntries
from airflow_provider_segtable.data.indexes.records.record_entries import RecordEntries
from airflow_provider_segtable.data.indexes.stats_entries import StatsEntries

ENTRY_KINDS: Mapping[str, EntryKind] = {
    FileList.name: FileEntries(),
    ColumnStats.name: StatsEntries(),
    BloomFilter.name: BloomEntries(),
    RecordIndex.name: RecordEntries(),
}
"""How each kind of index makes and compares its entries, by its name."""
