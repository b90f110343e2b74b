"""The creation of a table: event 0, and no other.

1. *Fold*: a log begins with it (``core.log.fold``). Its time is the base version of all chunks.
2. *Admission*: refused, because a table that has a state exists already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.event_kind import EventKind
from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.segments.segment_codec import Json
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.schema import Column, Schema
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.tables.table_kinds import decode_kind
from airflow_provider_segtable.core.time.interval import Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCreated:
    """The table is created. ``schema`` is the one that readers see, whatever it keeps."""

    table_id: str
    name: str
    schema: Schema
    time_column: str
    granularity: Granularity
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: TableKind = field(default_factory=Append)


def encode_table(action: TableCreated) -> Json:
    """Return a table's definition as JSON."""
    return {
        "table_id": action.table_id,
        "name": action.name,
        "schema": [
            {"name": c.name, "type": c.type, "nullable": c.nullable} for c in action.schema.columns
        ],
        "time_column": action.time_column,
        "granularity": action.granularity.value,
        "properties": dict(action.properties),
        **action.kind.encoded(),
    }


def decode_table(body: Mapping[str, Any]) -> TableCreated:
    """Parse the output of ``encode_table``.

    Raises:
        UnsupportedFormat: the table is of a kind that is not known here.
    """
    return TableCreated(
        table_id=known_name(body["table_id"], "a table's locks"),
        name=body["name"],
        schema=Schema(tuple(Column(**column) for column in body["schema"])),
        time_column=body["time_column"],
        granularity=Granularity(body["granularity"]),
        properties=body["properties"],
        kind=decode_kind(body),
    )


KINDS = (
    EventKind(type=TableCreated, name="TableCreated", encode=encode_table, decode=decode_table),
)


def admit() -> Conflict:
    """Refuse to create a table that exists."""
    return Conflict(reason="the table exists already", winner=0)
