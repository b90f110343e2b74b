"""The registry of kinds of index, and indexes as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.indexes.bloom_filter import BloomFilter
from airflow_provider_segtable.core.indexes.column_stats import ColumnStats
from airflow_provider_segtable.core.indexes.file_list import FileList
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.paths import known_name

KINDS: Mapping[str, type[IndexKind]] = {
    kind.name: kind for kind in (FileList, ColumnStats, BloomFilter, RecordIndex)
}
"""The kinds by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """An index of a table.

    Attributes:
        name: the name that users know it by.
        id: its own id, which also names the folder of its table: never used again.
        kind: what it keeps.
    """

    name: str
    id: str
    kind: IndexKind


def encode_index(index: IndexDefinition) -> dict[str, Any]:
    """Return an index's definition as JSON."""
    kind = index.kind
    return {"name": index.name, "id": index.id, "kind": kind.name, **kind.encoded()}


def decode_index(body: Mapping[str, Any]) -> IndexDefinition:
    """Parse the output of ``encode_index``.

    Raises:
        UnsupportedFormat: the kind is not known here; the message names it.
        CorruptTable: the name or the id is not one.
    """
    name = body["kind"]
    if name not in KINDS:
        raise UnsupportedFormat(
            f"index {body['name']} is of kind {name!r}, this segtable knows {', '.join(KINDS)}: "
            "upgrade segtable"
        )
    return IndexDefinition(
        name=known_name(body["name"], "an index"),
        id=known_name(body["id"], "the folder of an index"),
        kind=KINDS[name].decoded(body),
    )
