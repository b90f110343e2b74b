"""The definition of a table: its columns, its kind, its time chunks and its properties.

1. The first event of a log is a definition (``core.log.families.table_events``), and alterations
   change it: every version of the table has the definition of its time (``State.table``).
2. ``altered`` counts up with every alteration: it is its event, unless a repair began the log anew.
   ``property_events`` has the event that set a property, if it was not the creation.
3. A segment records the number of its file's schema. The definition keeps all schemas (``earlier``)
   and the kinds that belong to them, so every file is readable in every later schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity, GranularityOverride, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A table's definition. ``schema`` is the one that readers see, whatever its files keep."""

    table_id: str
    name: str
    schema: Schema
    time_column: str
    granularity: Granularity
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: TableKind = field(default_factory=Append)
    altered: int = 0
    property_events: Mapping[str, int] = field(default_factory=dict)
    earlier: tuple[Schema, ...] = ()
    earlier_kinds: tuple[TableKind, ...] = ()

    def kind_of(self, number: int) -> TableKind:
        """Return the kind as of the schema of a number: it names the hidden columns of a file."""
        return (*self.earlier_kinds, self.kind)[number] if self.earlier_kinds else self.kind

    def schema_of(self, number: int) -> Schema:
        """Return the schema of a number: that of a file."""
        return (*self.earlier, self.schema)[number]

    def layout(self, overrides: tuple[GranularityOverride, ...] = ()) -> Layout:
        """Return the layout of time chunks with these overrides."""
        return Layout(granularity=self.granularity, overrides=overrides, buckets=self.kind.buckets)
