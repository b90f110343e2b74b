"""Alterations of a table's definition: properties and columns; check, then commit one event.

1. An alteration is checked against the newest definition by the same functions as a creation.
2. If another alteration lands first, it is checked again, against the newer definition.
3. An alteration needs no lock: plans and writers read the definition from the log.
4. An alteration that would change nothing writes no event.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, InvalidInput
from airflow_provider_segtable.core.indexes.index_state import unfit
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.table_events import TableAltered, altered
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Order, Schema, did_you_mean
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    WidenColumn,
    as_it_was,
    evolved,
)
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.arrow_schema import column_type, storable_type
from airflow_provider_segtable.data.parquet.table_file import default_of, stored_columns
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import check_writable
from airflow_provider_segtable.table.property_checks import check_properties

ATTEMPTS = 20
"""Most checks of one alteration, if others land first each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """Changes of a table's definition."""

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    columns: tuple[ColumnChange, ...] = ()

    def action(self, table: TableDefinition) -> TableAltered:
        """Return the event's action for a definition, after checking the result.

        Raises:
            InvalidInput: a property is unknown or malformed, or one to remove is not set; the
                table keeps its columns, or needs one.
            SchemaMismatch: a property or change names a column that the table does not have, or
                a column cannot be changed so.
            InvalidName: a new column's name is taken or reserved.
        """
        for key in self.unset:
            if key in self.set:
                raise InvalidInput(f"property {key!r} is to be set and removed: do one of them")
            if key not in table.properties:
                known = ", ".join(table.properties) or "none"
                raise InvalidInput(
                    f"property {key!r} is not set, so it cannot be removed: "
                    f"{did_you_mean(key, table.properties)}set are {known}"
                )
        schema = self._schema(table)
        action = TableAltered(
            after=table.altered,
            set=dict(self.set),
            unset=self.unset,
            schema=schema,
            table_kind=None if schema is None else self._kind(table, schema),
        )
        new = altered(table, action, table.altered)
        _check_order(table, new)
        check_properties(new, self.set)
        return action

    def _schema(self, table: TableDefinition) -> Schema | None:
        if not self.columns:
            return None
        table.kind.check_columns(self.columns, table.name)
        changes = [_checked(change) for change in self.columns]
        schema = evolved(table.schema, table.earlier, changes, table.time_column)
        for column in stored_columns(schema):
            _check_default(column)
        return None if schema.columns == table.schema.columns else schema

    def _kind(self, table: TableDefinition, schema: Schema) -> TableKind | None:
        """Return the kind with the new columns; None if its files have no hidden ones."""
        kind = table.kind.with_columns(self.columns, table.schema, schema)
        return kind if kind.hidden else None


def _checked(change: ColumnChange) -> ColumnChange:
    """Return a change with its type as Arrow prints it.

    Raises:
        SchemaMismatch: the type is unknown, its time zone, or Parquet cannot store it.
    """
    if not isinstance(change, AddColumn | WidenColumn):
        return change
    kind = storable_type(column_type(change.name, change.type))
    check_writable(pa.field(change.name, kind))
    return replace(change, type=str(kind))


def _check_default(field: "pa.Field[Any]") -> None:
    try:
        default_of(field)
    except pa.ArrowException as error:
        raise InvalidInput(
            f"the default of column {field.name!r} is not of type {field.type} ({error}): write "
            "a text that can be cast to the type, e.g. 0, 1.5, true, 2013-01-01T00:00:00Z"
        ) from None


def _check_order(old: TableDefinition, new: TableDefinition) -> None:
    """Refuse to remove a column of the clustering unless the clustering changes, too."""
    clustering = Policy.read(new.properties).clustering
    for name in Order.parse(clustering).columns:
        if new.schema.find(name) is None and old.schema.find(name):
            raise InvalidInput(
                f"column {name!r} is in compaction.clustering = {clustering!r}: set another one or "
                "unset it in the same alteration"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsAsOf:
    """Restore the columns of an earlier definition."""

    then: TableDefinition

    def action(self, table: TableDefinition) -> TableAltered:
        """Return the event's action for a definition, after checking the result.

        Raises:
            InvalidInput: the table needs a column that would be dropped; the message says why.
        """
        schema = as_it_was(self.then.schema, table.earlier, table.schema)
        same = schema.columns == table.schema.columns
        kind = self.then.kind if self.then.kind.hidden else None
        action = TableAltered(
            after=table.altered,
            schema=None if same else schema,
            table_kind=None if same else kind,
        )
        new = altered(table, action, table.altered)
        _check_order(table, new)
        check_properties(new, ())
        return action


def check_fits(ports: TableContext, wanted: "Alteration | ColumnsAsOf", state: State) -> None:
    """Refuse an alteration that the definition or an index does not allow.

    Raises:
        InvalidInput, SchemaMismatch: with the reason and the way out.
    """
    new = altered(state.table, wanted.action(state.table), 0)
    if (unfitting := unfit(state.indexes.values(), state.table, new)) is not None:
        raise InvalidInput(f"{ports.uri}: {unfitting}")


def alter(ports: TableContext, wanted: Alteration | ColumnsAsOf, *, commit_id: str) -> int:
    """Alter a table; return the number of the version that has the new definition.

    Args:
        ports: the table's ports.
        wanted: the alteration.
        commit_id: equal ids alter once.

    Raises:
        InvalidInput, SchemaMismatch: see ``Alteration.action``; nothing is written.
        CommitConflict: other alterations landed first, repeatedly.
        CommitUnknown: run again with the same commit id.
    """
    state = ports.log.load()
    reason = "the table was altered by others"
    for _ in range(ATTEMPTS):
        if (landed := state.commits.get(commit_id)) is not None:
            return landed
        action = wanted.action(state.table)
        new = altered(state.table, action, 0)
        if _definition(new) == _definition(state.table):
            return state.n
        check_fits(ports, wanted, state)
        change = Change(action=action, commit_id=commit_id)
        outcome = commit(ports, state, change)
        if isinstance(outcome, Committed):
            return outcome.n
        if isinstance(outcome, Conflict) and outcome.winner is None:
            raise CommitConflict(f"{ports.uri}: {outcome.reason}")
        if isinstance(outcome, Unknown):
            raise CommitUnknown(way_out(ports, change, outcome.n))
        reason, state = outcome.reason, ports.log.refresh(state)
    raise CommitConflict(f"{ports.uri}: {reason} {ATTEMPTS} times in a row: run it again")


def _definition(table: TableDefinition) -> tuple[object, ...]:
    """Return the alterable parts of a definition."""
    return dict(table.properties), table.schema.columns
