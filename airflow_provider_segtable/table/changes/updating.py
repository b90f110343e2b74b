"""Updates: find rows, compute their new values, delete the old and append the new in one event."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.jobs.segment_writer import check_rows
from airflow_provider_segtable.table.changes.matching import Where, condition, found, in_full
from airflow_provider_segtable.table.changes.row_change import Found
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.writes.incoming import incoming


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The rows to update and their new values.

    Attributes:
        set: by column, a value or an Arrow expression over the old row.
        where: the condition of rows to update.
    """

    set: Mapping[str, Any]
    where: Where

    def __post_init__(self) -> None:
        """Refuse an update without columns."""
        if not self.set:
            raise InvalidInput("set is empty: name a column and its new value")

    def __str__(self) -> str:
        """Return the request as the log records it."""
        assigned = ", ".join(f"{name} = {value}" for name, value in self.set.items())
        return f"set {assigned} where {self.where}"

    def find(self, snapshot: Snapshot) -> Found:
        """Return the rows of a snapshot to update, and their new values."""
        table = snapshot.state.table
        refuse_rollup(snapshot, "updated")
        for name in self.set:
            if name not in snapshot.schema.names:
                raise InvalidInput(
                    f"there is no column {name!r} to set: the table has "
                    f"{', '.join(snapshot.schema.names)}"
                )
        rows = found(snapshot, condition(self.where, snapshot.schema, table.time_column))
        matched = sum(map(len, rows.values()))
        if not matched:
            self._apply(snapshot.schema.empty_table())  # check the assignments, too
            return Found(rows={}, matched=0)
        changed = self._apply(in_full(snapshot, rows))
        checked = check_rows(changed, snapshot.schema, table.time_column)
        return Found(rows=rows, matched=matched, prepare=incoming(snapshot.ports, checked))

    def _apply(self, rows: pa.Table) -> pa.Table:
        given = {name: _assigned(rows, name, value) for name, value in self.set.items()}
        columns = [given.get(name, rows.column(name)) for name in rows.column_names]
        return pa.table(columns, names=rows.column_names)


def _assigned(rows: pa.Table, name: str, value: Any) -> pa.ChunkedArray:
    """Return the new values of a column, cast to its type."""
    kind = rows.schema.field(name).type
    try:
        if isinstance(value, pc.Expression):
            return _evaluated(rows, value).cast(kind)
        if isinstance(value, pa.Scalar):
            return pa.chunked_array([pa.repeat(value.cast(kind), rows.num_rows)], kind)
        one = pa.array([value]).cast(kind) if _may_lose(value, kind) else pa.array([value], kind)
        return pa.chunked_array([pa.repeat(one[0], rows.num_rows)], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatch(
            f"column {name!r} is {kind} and cannot be set to {value}: {error}"
        ) from None


def _may_lose(value: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow would silently truncate a Python value; its casts raise instead."""
    number = isinstance(value, float | Decimal) and pa.types.is_integer(kind)
    return number or (isinstance(value, datetime) and pa.types.is_temporal(kind))


def _evaluated(rows: pa.Table, value: pc.Expression) -> pa.ChunkedArray:
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.Declaration("project", acero.ProjectNodeOptions([value], ["value"]))
    plan = acero.Declaration.from_sequence([source, project])
    return plan.to_table(use_threads=False).column("value")  # one thread keeps the order


def refuse_rollup(snapshot: Snapshot, what: str) -> None:
    """Refuse to change rows of a rollup table, which are aggregates.

    Raises:
        InvalidInput: the table is a rollup table.
    """
    if snapshot.state.table.rollup is not None:
        raise InvalidInput(
            f"{snapshot.ports.uri} is a rollup table: its rows stand for many that are not kept, "
            f"so they cannot be {what}; delete by a condition over dimensions and time, and append"
        )
