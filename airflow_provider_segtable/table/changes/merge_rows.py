"""Merges: join an in-memory source to the table by equality of key columns.

1. Keys are compared as SQL compares them: null equals nothing.
2. The table's key columns are read batch by batch; matching rows are then read in full. The source
   is in memory.
3. The log does not enforce unique keys: two concurrent merges may both insert a key that neither
   found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segments.segment import SegmentId
from airflow_provider_segtable.data.arrow.equality import Keys, Numbers
from airflow_provider_segtable.data.jobs.segment_writer import check_rows
from airflow_provider_segtable.table.changes.matching import (
    Condition,
    addresses,
    given_columns,
    in_full,
    when,
)
from airflow_provider_segtable.table.changes.row_change import Found
from airflow_provider_segtable.table.changes.updating import refuse_rollup
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.writes.incoming import incoming


class Matched(StrEnum):
    """The action for a table row whose key is in the source."""

    UPDATE = "update"
    DELETE = "delete"
    IGNORE = "ignore"


class Unmatched(StrEnum):
    """The action for a source row whose key is not in the table."""

    INSERT = "insert"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merges:
    """A merge: its source, key columns and actions."""

    source: pa.Table
    on: tuple[str, ...]
    matched: Matched
    unmatched: Unmatched

    @staticmethod
    def of(source: pa.Table, on: Sequence[str], matched: str, unmatched: str) -> "Merges":
        """Return a merge, after checking the user's arguments.

        Raises:
            InvalidInput: an action is unknown, or the key columns are missing or repeated.
        """
        for value, known in ((matched, Matched), (unmatched, Unmatched)):
            if value not in tuple(known):
                choices = ", ".join(known)
                raise InvalidInput(f"{known.__name__.lower()}={value!r}: choose one of {choices}")
        keys = (on,) if isinstance(on, str) else tuple(on)
        if not keys or len(set(keys)) < len(keys):
            raise InvalidInput(f"on={on!r}: name the columns to join by, each once")
        return Merges(
            source=source, on=keys, matched=Matched(matched), unmatched=Unmatched(unmatched)
        )

    def __str__(self) -> str:
        """Return the request as the log records it."""
        return (
            f"merge {self.source.num_rows} rows on {', '.join(self.on)}: matched "
            f"{self.matched.value}, unmatched {self.unmatched.value}"
        )

    def find(self, snapshot: Snapshot) -> Found:
        """Return the rows of a snapshot to delete, and the rows to append."""
        refuse_rollup(snapshot, "merged")
        source = self._checked(snapshot)
        keys = Keys.of(source, self.on, nulls=False)
        rows, met = _joined(snapshot, keys, source)
        matched = sum(map(len, rows.values()))
        numbers = keys.find(source)
        coming = []
        if self.matched is Matched.UPDATE and matched:
            _refuse_doubles(source, numbers, met, self.on)
            coming.append(_updated(in_full(snapshot, rows), source, keys, numbers))
        if self.unmatched is Unmatched.INSERT:
            met_rows = np.append(met, False)[numbers]  # null keys have index -1: the last
            coming.append(_widened(source.filter(pa.array(~met_rows)), snapshot.schema))
        every = pa.concat_tables(coming) if coming else snapshot.schema.empty_table()
        checked = check_rows(every, snapshot.schema, snapshot.state.table.time_column)
        return Found(
            rows={} if self.matched is Matched.IGNORE else rows,
            matched=matched,
            prepare=incoming(snapshot.ports, checked) if checked.num_rows else None,
        )

    def _checked(self, snapshot: Snapshot) -> pa.Table:
        source = given_columns(self.source, snapshot.schema)
        missing = [name for name in self.on if name not in source.column_names]
        if missing:
            raise InvalidInput(
                f"the source has no column {missing[0]!r} to join by: it has "
                f"{', '.join(source.column_names)}"
            )
        if self.unmatched is Unmatched.INSERT:
            time_column = snapshot.state.table.time_column
            for field in snapshot.schema:
                needed = not field.nullable or field.name == time_column
                if needed and field.name not in source.column_names:
                    raise InvalidInput(
                        f"the source has no column {field.name!r}, which no row of the table can "
                        "do without: add it, or give unmatched='ignore'"
                    )
        return source


def _joined(
    snapshot: Snapshot, keys: Keys, source: pa.Table
) -> tuple[dict[SegmentId, BitMap], np.ndarray]:
    """Return the addresses of rows with a source key, and a mask of the keys found."""
    met = np.zeros(keys.count, np.bool_)

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = keys.find(batch)
        met[numbers[numbers >= 0]] = True
        return batch.filter(pa.array(numbers >= 0))

    of_keys = source.select(list(keys.columns))
    span = when(of_keys, snapshot.state.table.time_column)
    wanted = Condition(columns=keys.columns, keep=keep, when=span)
    if wanted.interval is None or not keys.count:
        return {}, met
    batches = snapshot.addressed(columns=keys.columns, interval=wanted.interval)
    return addresses(keep(batch) for batch in batches), met


def _refuse_doubles(source: pa.Table, numbers: Numbers, met: np.ndarray, on: Sequence[str]) -> None:
    counts = np.bincount(numbers[numbers >= 0], minlength=len(met))
    doubles = np.flatnonzero(met & (counts > 1))
    if len(doubles):
        row = int(np.flatnonzero(numbers == doubles[0])[0])
        key = source.select(list(on)).slice(row, 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        raise InvalidInput(
            f"{counts[doubles[0]]} rows of the source have {shown}, and a row of the table has it, "
            "too: which of them it would become is not said; leave one of them"
        )


def _updated(rows: pa.Table, source: pa.Table, keys: Keys, numbers: Numbers) -> pa.Table:
    """Return rows of the table with the values of their source rows."""
    place = np.zeros(keys.count, np.int64)
    known = numbers >= 0
    place[numbers[known]] = np.flatnonzero(known)
    taken = source.take(pa.array(place[keys.find(rows)]))
    fresh = [name for name in source.column_names if name not in keys.columns]
    columns = [(taken if name in fresh else rows).column(name) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with missing columns added as nulls."""
    columns = [
        rows.column(field.name)
        if field.name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, field.type)], field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)
