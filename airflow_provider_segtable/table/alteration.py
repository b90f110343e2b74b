"""Alterations of a table's definition: check, then commit one event.

1. An alteration is checked against the newest definition by the same functions as a creation.
2. If another alteration lands first, it is checked again, against the newer definition.
3. An alteration needs no lock: plans and writers read the definition from the log.
4. An alteration that would change nothing writes no event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, InvalidInput
from airflow_provider_segtable.core.log.events import TableAltered, TableCreated
from airflow_provider_segtable.core.log.families.table_events import altered
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import check_properties
from airflow_provider_segtable.table.log.committer import (
    Change,
    Committed,
    Unknown,
    commit,
    way_out,
)

ATTEMPTS = 20
"""How often an alteration is checked again because others landed first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """What to change in a table's definition."""

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()

    def action(self, table: TableCreated) -> TableAltered:
        """Return the event's action for a definition, after checking the result.

        Raises:
            InvalidInput: a property is unknown or malformed, or one to remove is not set.
            SchemaMismatch: a property names a column that the table does not have.
        """
        for key in self.unset:
            if key in self.set:
                raise InvalidInput(f"property {key!r} is to be set and removed: do one of them")
            if key not in table.properties:
                known = ", ".join(table.properties) or "none"
                raise InvalidInput(
                    f"property {key!r} is not set, so it cannot be removed: set are {known}"
                )
        action = TableAltered(after=table.altered, set=dict(self.set), unset=self.unset)
        check_properties(altered(table, action, table.altered), self.set)
        return action


def alter(ports: TableContext, wanted: Alteration, *, commit_id: str) -> int:
    """Alter a table; return the number of the version that has the new definition.

    Args:
        ports: the table's ports.
        wanted: what to change.
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
        if _definition(altered(state.table, action, 0)) == _definition(state.table):
            return state.n
        change = Change(action=action, commit_id=commit_id)
        outcome = commit(ports, state, change)
        if isinstance(outcome, Committed):
            return outcome.n
        if isinstance(outcome, Unknown):
            raise CommitUnknown(way_out(ports, change, outcome.n))
        reason, state = outcome.reason, ports.log.refresh(state)
    raise CommitConflict(f"{ports.uri}: {reason} {ATTEMPTS} times in a row: run it again")


def _definition(table: TableCreated) -> tuple[object, ...]:
    """Return what an alteration changes."""
    return (dict(table.properties),)
