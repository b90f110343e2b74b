"""The creation, the alteration and the end of a table.

1. ``TableCreated`` is the first event of a log, and no other; its time is the base version of all
   chunks. It is the table's definition itself (``core.tables.definition``).
2. ``TableAltered`` changes the definition from its event on: properties are set and removed, and
   the table gets another schema (``core.tables.evolution``). Earlier versions keep the definition
   of their time.
3. *Admission of a creation*: refused, because a table that has a state exists already.
4. *Admission of an alteration*: its author checks it against a definition, and names the newest
   alteration in it (``after``). If another alteration has landed since, it is refused; the author
   then checks it against the newer definition and commits again (``table.alteration``).
   So two alterations that are valid singly never add up to an invalid definition. A column that a
   pending plan sorts by keeps its name, or the plan could not be carried out. Its name is not given
   to another column either: rows would be sorted by one column, and said to be by the other.
5. *Appends, changes and compactions* that were begun under an earlier schema are admitted after an
   alteration. A segment records the number of its file's schema, the definition keeps all schemas,
   and readers go by the ids of columns: so every file is readable in every later schema. A change
   whose rows another one has changed since is evaluated again anyway (``change_events``).
6. ``TableDropped`` ends the log: nothing follows it, and no version can be read any more. A table
   that is created at the same place has the numbers after it, so no number is ever used twice
   (``table.dropping``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.indexes.index_state import unfit
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, admitted, no_interval, nothing
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.schema import Order, Schema, decode_columns, encode_columns
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.tables.definition import TableDefinition, decode_kind
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAltered:
    """Properties are set and removed, and the schema is changed.

    It was checked against the definition as of alteration ``after``. ``schema`` is the new schema,
    None if it stays, and ``table_kind`` the kind with these columns, None if it stays.
    """

    after: int
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    schema: Schema | None = None
    table_kind: TableKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDropped:
    """The table is gone. Its id is for cleaning up its nodes in the coordinator."""

    table_id: str
    name: str


def encode_table(action: TableDefinition) -> Json:
    """Return a table's definition as JSON."""
    return {
        "table_id": action.table_id,
        "name": action.name,
        "schema": encode_columns(action.schema),
        "time_column": action.time_column,
        "granularity": action.granularity.value,
        "properties": dict(action.properties),
        **action.kind.encoded(),
        **({"altered": action.altered} if action.altered else {}),
        **({"property_events": dict(action.property_events)} if action.property_events else {}),
        **(
            {"earlier": [encode_columns(each) for each in action.earlier]} if action.earlier else {}
        ),
        **(
            {"earlier_kinds": [each.encoded() for each in action.earlier_kinds]}
            if action.earlier_kinds
            else {}
        ),
    }


def decode_table(body: Mapping[str, Any]) -> TableDefinition:
    """Parse the output of ``encode_table``.

    Raises:
        UnsupportedFormat: the table is of a kind that is not known here.
    """
    return TableDefinition(
        table_id=known_name(body["table_id"], "a table's locks"),
        name=body["name"],
        schema=decode_columns(body["schema"], len(body.get("earlier", ()))),
        time_column=body["time_column"],
        granularity=Granularity(body["granularity"]),
        properties=body["properties"],
        kind=decode_kind(body),
        altered=body.get("altered", 0),
        property_events=body.get("property_events", {}),
        earlier=tuple(decode_columns(each, at) for at, each in enumerate(body.get("earlier", ()))),
        earlier_kinds=tuple(map(decode_kind, body.get("earlier_kinds", ()))),
    )


def _encode_alteration(action: TableAltered) -> Json:
    schema = {} if action.schema is None else _encode_schema(action.schema)
    kind = {} if action.table_kind is None else {"table_kind": action.table_kind.encoded()}
    plain = {"after": action.after, "set": dict(action.set), "unset": list(action.unset)}
    return {**plain, **schema, **kind}


def _encode_schema(schema: Schema) -> Json:
    return {"schema": encode_columns(schema), "number": schema.number}


def _decode_alteration(body: Mapping[str, Any]) -> TableAltered:
    return TableAltered(
        after=body["after"],
        set=body["set"],
        unset=tuple(body["unset"]),
        schema=decode_columns(body["schema"], body["number"]) if "schema" in body else None,
        table_kind=decode_kind(body["table_kind"]) if "table_kind" in body else None,
    )


def _line_of_creation(action: TableDefinition) -> str:
    columns = counted(len(action.schema.columns), "column")
    return f"{action.name}: {columns}, chunks of a {action.granularity.value}"


def _line_of_alteration(action: TableAltered) -> str:
    news = (f"{key}={value}" for key, value in action.set.items())
    columns = action.schema.names if action.schema else ()
    parts = {
        "columns now": ", ".join(columns),
        "set": ", ".join(news),
        "unset": ", ".join(action.unset),
    }
    return "; ".join(f"{verb} {what}" for verb, what in parts.items() if what)


def altered(table: TableDefinition, action: TableAltered, n: int) -> TableDefinition:
    """Return the definition after the alteration of event ``n``."""
    values = {**table.properties, **action.set}
    events = {**table.property_events, **dict.fromkeys(action.set, n)}
    if action.schema:
        table = replace(table, schema=action.schema, earlier=(*table.earlier, table.schema))
    if action.table_kind:
        kinds = (*table.earlier_kinds, table.kind)
        table = replace(table, kind=action.table_kind, earlier_kinds=kinds)
    return replace(
        table,
        altered=max(n, table.altered + 1),
        properties={key: value for key, value in values.items() if key not in action.unset},
        property_events={key: at for key, at in events.items() if key not in action.unset},
    )


def _admit_creation(_: TableDefinition, __: State) -> Conflict:
    return Conflict(reason="the table exists already", winner=0)


def _admit_alteration(action: TableAltered, state: State) -> TableAltered | Conflict:
    table, plans = state.table, (known.plan for known in state.pending_plans())
    if action.after != table.altered:
        return Conflict(reason="the table was altered meanwhile", winner=table.altered)
    lost = action.schema and _lost_order(action.schema, table.schema, plans)
    if lost:
        return lost
    reason = unfit(state.indexes.values(), table, altered(table, action, state.n + 1))
    return action if reason is None else Conflict(reason=reason)


def _created(_: State, __: TableDefinition, at: Stamp) -> State:
    raise CorruptTable(f"event {at.n} creates the table a second time")


def _lost_order(schema: Schema, present: Schema, plans: Iterable[Plan]) -> Conflict | None:
    for plan in plans:
        missing = lost_columns(plan, schema, present)
        if missing:
            return Conflict(
                reason=f"plan {plan.id} sorts by {', '.join(missing)}, which the table would lose: "
                f"carry it out first (segtable compact TABLE {plan.id})"
            )
    return None


def lost_columns(plan: Plan, schema: Schema, present: Schema) -> list[str]:
    """Return the columns that a plan sorts by and that a schema lacks.

    Args:
        plan: the plan; it knows columns by name.
        schema: the schema.
        present: the schema by which the plan was made. A column that only has the name of one of
            these is another column, by which the plan does not sort.
    """
    order = Order.parse(str(plan.facts()["clustering"] or ""))
    new, old = ({column.name: column.id for column in s.numbered} for s in (schema, present))
    return [name for name in order.columns if name not in new or new[name] != old.get(name)]


KINDS = (
    EventKind(
        type=TableDefinition,
        name="TableCreated",
        apply=_created,
        admit=_admit_creation,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=encode_table,
        decode=decode_table,
        line=_line_of_creation,
    ),
    EventKind(
        type=TableAltered,
        name="TableAltered",
        apply=lambda state, action, at: replace(state, table=altered(state.table, action, at.n)),
        admit=_admit_alteration,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=_encode_alteration,
        decode=_decode_alteration,
        line=_line_of_alteration,
    ),
    EventKind(
        type=TableDropped,
        name="TableDropped",
        apply=lambda state, _, __: replace(state, dropped=True),
        admit=admitted,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"table_id": action.table_id, "name": action.name},
        decode=lambda body: TableDropped(
            table_id=known_name(body["table_id"], "a table's locks"), name=body["name"]
        ),
        line=lambda action: f"{action.name} was dropped",
    ),
)
