"""The definition of a table: its columns, its kind, its time chunks and its properties.

1. The first event of a log is a definition (``core.log.families.table_events``), and alterations
   change it: every version of the table has the definition of its time (``State.table``).
2. ``altered`` counts up with every alteration: it is its event, unless a repair began the log anew.
   ``property_events`` has the event that set a property, if it was not the creation.
3. A segment records the number of its file's schema. The definition keeps all schemas (``earlier``)
   and the kinds that belong to them, so every file is readable in every later schema.
4. ``KINDS`` is the registry of kinds of table. Each kind records itself in the fields of a
   definition: an append table has none of its own, a rollup table has ``rollup``. Any later kind
   writes its name as ``kind``, beside a field of that name with its settings.
5. A kind that is not in the registry is refused by its name: to read its files as rows of an append
   table would show rows that do not exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
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

    def as_created(self) -> "TableDefinition":
        """Return the definition with the columns that the table was created with."""
        if not self.earlier:
            return self
        return replace(
            self,
            schema=self.earlier[0],
            kind=self.kind_of(0),
            altered=0,
            property_events={},
            earlier=(),
            earlier_kinds=(),
        )

    def kind_of(self, number: int) -> TableKind:
        """Return the kind as of the schema of a number: it names the hidden columns of a file."""
        return (*self.earlier_kinds, self.kind)[number] if self.earlier_kinds else self.kind

    def schema_of(self, number: int) -> Schema:
        """Return the schema of a number: that of a file."""
        return (*self.earlier, self.schema)[number]

    def has_below(self, prefix: str) -> bool:
        """Return whether a property is set below a prefix, as ``publish.formats`` is."""
        return any(key.startswith(f"{prefix}.") for key in self.properties)

    def layout(self, overrides: tuple[GranularityOverride, ...] = ()) -> Layout:
        """Return the layout of time chunks with these overrides."""
        return Layout(granularity=self.granularity, overrides=overrides, buckets=self.kind.buckets)


KINDS: Mapping[str, Callable[[Mapping[str, Any]], TableKind]] = {
    Append.name: Append.decoded,
    Rollup.name: Rollup.decoded,
    PrimaryKey.name: PrimaryKey.decoded,
}
"""How to read each kind from a table's definition, by its name."""


def decode_kind(body: Mapping[str, Any]) -> TableKind:
    """Return the kind that a table's definition records.

    Raises:
        UnsupportedFormat: the kind is not known here; the message names it.
    """
    name = body.get("kind") or (Rollup.name if Rollup.name in body else Append.name)
    if name not in KINDS:
        raise UnsupportedFormat(
            f"this is a table of kind {name!r}, this segtable knows {', '.join(KINDS)}: "
            "upgrade segtable"
        )
    return KINDS[name](body)
