"""The creation and the alteration of a table.

1. ``TableCreated`` is event 0, and no other; its time is the base version of all chunks. It is also
   the table's definition: ``State.table``, which alterations change.
2. ``TableAltered`` changes the definition from its event on: properties are set and removed.
   Earlier versions keep the definition of their time. ``TableCreated.altered`` is the newest
   alteration; ``property_events`` is the event that set a property, if it was not the creation.
3. *Admission of a creation*: refused, because a table that has a state exists already.
4. *Admission of an alteration*: its author checks it against a definition, and names the newest
   alteration in it (``after``). If another alteration has landed since, it is refused; the author
   then checks it against the newer definition and commits again (``table.alteration``).
   So two alterations that are valid singly never add up to an invalid definition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

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
    altered: int = 0
    property_events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAltered:
    """Properties are set and removed; checked against the definition as of alteration ``after``."""

    after: int
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


TableEvent: TypeAlias = TableCreated | TableAltered


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
        **({"altered": action.altered} if action.altered else {}),
        **({"property_events": dict(action.property_events)} if action.property_events else {}),
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
        altered=body.get("altered", 0),
        property_events=body.get("property_events", {}),
    )


def _encode_alteration(action: TableAltered) -> Json:
    return {"after": action.after, "set": dict(action.set), "unset": list(action.unset)}


def _decode_alteration(body: Mapping[str, Any]) -> TableAltered:
    return TableAltered(after=body["after"], set=body["set"], unset=tuple(body["unset"]))


KINDS = (
    EventKind(type=TableCreated, name="TableCreated", encode=encode_table, decode=decode_table),
    EventKind(
        type=TableAltered,
        name="TableAltered",
        encode=_encode_alteration,
        decode=_decode_alteration,
    ),
)


def altered(table: TableCreated, action: TableAltered, n: int) -> TableCreated:
    """Return the definition after the alteration of event ``n``."""
    values = {**table.properties, **action.set}
    events = {**table.property_events, **dict.fromkeys(action.set, n)}
    return replace(
        table,
        altered=n,
        properties={key: value for key, value in values.items() if key not in action.unset},
        property_events={key: at for key, at in events.items() if key not in action.unset},
    )


def admit(action: TableEvent, table: TableCreated) -> TableEvent | Conflict:
    """Return the alteration of a table that exists, or the conflict that forbids it."""
    match action:
        case TableCreated():
            return Conflict(reason="the table exists already", winner=0)
        case TableAltered(after=after) if after != table.altered:
            return Conflict(reason="the table was altered meanwhile", winner=table.altered)
        case TableAltered():
            return action
        case _:
            assert_never(action)
