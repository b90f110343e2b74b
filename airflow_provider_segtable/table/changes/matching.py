"""Find rows in a snapshot by values or addresses.

1. Rows are read batch by batch, with only the columns that the condition needs; only the matching
   addresses are kept, as bitmaps. If the condition bounds the event time, time chunks outside the
   bounds are not read.
2. Only rows visible in the snapshot are found. So a deletion vector made from them names existing
   rows that are not deleted yet, as the balance check requires.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.core.time import ALL_TIME, Instant
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.event_times import instants, is_time
from airflow_provider_segtable.data.deletes.row_filter import hidden_of
from airflow_provider_segtable.data.deletes.vector_file import Rows
from airflow_provider_segtable.data.jobs.row_checks import conformed
from airflow_provider_segtable.table.reads.row_addresses import addresses
from airflow_provider_segtable.table.reads.snapshot import Snapshot

_MOST_ROWS = 2**32


def given_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows cast to the types of the table's columns, all nullable.

    Raises:
        SchemaMismatch: a column is not in the table, occurs twice, or has another type.
        InvalidInput: the rows have no columns.
    """
    if not rows.column_names:
        raise InvalidInput("the given rows have no columns to compare with: give rows with columns")
    if not set(rows.column_names) <= set(schema.names):
        return conformed(rows, schema)  # raises, naming the missing column
    fields = [field.with_nullable(True) for field in schema if field.name in rows.column_names]
    return conformed(rows, pa.schema(fields))


def when(rows: pa.Table, time_column: str) -> tuple[Instant, Instant]:
    """Return the first and last event time of rows that may equal one of these."""
    everywhere = (ALL_TIME.start, ALL_TIME.end - 1)
    if time_column not in rows.column_names or not is_time(rows.schema.field(time_column).type):
        return everywhere
    bounds = pc.min_max(instants(rows.column(time_column)))
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    return (everywhere[1], everywhere[0]) if first is None else (first, last)


def found(snapshot: Snapshot, wanted: Condition) -> Rows:
    """Return the addresses of the rows that match the condition."""
    batches = snapshot.addressed(columns=wanted.columns, where=wanted)
    return addresses(wanted.keep(batch) for batch in batches)


def given_addresses(table: pa.Table) -> Rows:
    """Return user-supplied addresses by root, without null roots and impossible row numbers.

    Raises:
        InvalidInput: a column is missing or has another type, or a root is not a segment id.
    """
    try:
        plain = table.select([ROOT, ROW])
        kinds = pa.schema([(ROOT, pa.string()), (ROW, pa.int64())])
        rows = plain.cast(kinds).combine_chunks()
        numbers = rows.column(ROW)
        possible = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, _MOST_ROWS))
        known = rows.filter(pc.and_(possible, rows.column(ROOT).is_valid()))
        return addresses([known])
    except CorruptTable as error:
        raise InvalidInput(f"{error}: take addresses from Snapshot.addressed()") from None
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"addresses need the columns {ROOT} (text) and {ROW} (whole numbers), as "
            f"Snapshot.addressed() gives them, but {error}"
        ) from None


def present(snapshot: Snapshot, wanted: Rows) -> Rows:
    """Return the addresses whose rows are visible in the snapshot."""
    return addresses(_named(snapshot, wanted, []))


def in_full(snapshot: Snapshot, wanted: Rows) -> pa.Table:
    """Return the rows at these addresses with all their columns, in memory."""
    batches = (batch.select(snapshot.schema.names) for batch in _named(snapshot, wanted, None))
    return pa.Table.from_batches(batches, snapshot.schema)


def _named(snapshot: Snapshot, wanted: Rows, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    known = {str(root): np.asarray(rows.to_array(), np.int64) for root, rows in wanted.items()}
    for batch in snapshot.addressed(columns=columns, roots=wanted):
        names, codes, numbers = hidden_of(batch)
        chosen = np.zeros(batch.num_rows, np.bool_)
        for code in np.unique(codes):
            here = codes == code
            chosen[here] = np.isin(numbers[here], known.get(names[code], _NONE))
        if chosen.any():
            yield batch.filter(pa.array(chosen))


_NONE = np.zeros(0, np.int64)
