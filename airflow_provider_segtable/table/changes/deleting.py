"""Deletes: turn a condition, rows or addresses into a search of a snapshot."""

from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.table.changes.erasing import predicate_delete
from airflow_provider_segtable.table.changes.matching import (
    Condition,
    Where,
    condition,
    found,
    given_addresses,
    given_columns,
    present,
    when,
)
from airflow_provider_segtable.table.changes.row_change import Found
from airflow_provider_segtable.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """The rows to delete; exactly one attribute is set.

    Attributes:
        where: delete rows that match this condition.
        rows: delete rows that equal one of these in all its columns; null equals null.
        addresses: delete rows at these root addresses.
    """

    where: Where | None = None
    rows: pa.Table | None = None
    addresses: pa.Table | None = None

    def __post_init__(self) -> None:
        """Require exactly one attribute."""
        given = [each is not None for each in (self.where, self.rows, self.addresses)]
        if sum(given) != 1:
            raise InvalidInput(
                f"{sum(given)} of where, rows and addresses are given: give one of them; "
                "where='true' deletes every row"
            )

    def __str__(self) -> str:
        """Return the request as the log records it."""
        if self.rows is not None:
            columns = ", ".join(self.rows.column_names)
            return f"rows that equal one of {self.rows.num_rows} in {columns}"
        if self.addresses is not None:
            return f"{self.addresses.num_rows} addresses"
        return f"where {self.where}"

    def find(self, snapshot: Snapshot) -> Found:
        """Return the rows of a snapshot to delete."""
        table = snapshot.state.table
        if table.rollup is not None:
            return self._of_rollup(snapshot, table.rollup)
        if self.addresses is not None:
            rows = present(snapshot, given_addresses(self.addresses))
        else:
            rows = found(snapshot, self._condition(snapshot.schema, table.time_column))
        return Found(rows=rows, matched=sum(map(len, rows.values())))

    def _of_rollup(self, snapshot: Snapshot, rollup: Rollup) -> Found:
        if not isinstance(self.where, str):
            raise InvalidInput(
                f"{snapshot.ports.uri} is a rollup table: its rows stand for many and have no "
                "address, so only a condition in SQL, over dimensions and time, can delete there"
            )
        return predicate_delete(snapshot, rollup, self.where)

    def _condition(self, schema: pa.Schema, time_column: str) -> Condition:
        if self.rows is not None:
            return equal_to(self.rows, schema, time_column)
        return condition(self.where, schema, time_column)


def equal_to(rows: pa.Table, schema: pa.Schema, time_column: str) -> Condition:
    """Return the condition that a row equals one of these in all their columns.

    Raises:
        InvalidInput: the rows do not fit the table's columns.
    """
    given = given_columns(rows, schema)
    keys = Keys.of(given, given.column_names, nulls=True)

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(keys.find(batch) >= 0))

    return Condition(columns=keys.columns, keep=keep, when=when(given, time_column))
