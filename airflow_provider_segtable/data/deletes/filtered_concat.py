"""Concatenation of pieces by decoding: drops deleted rows and stores every row's address.

1. The order of rows is the order of the pieces, always. Memory is bounded as in ``rewrite``.
2. Row addresses come from the inputs' lineage, or else from their hidden columns. The output
   stores them in hidden columns.
3. The row count and the time range are known only at the end; so the footer's metadata is
   requested then. If no row is left, the caller must not publish the file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_filter import RowFilter, with_addresses
from airflow_provider_segtable.data.jobs.concat import (
    CREATED_BY,
    Piece,
    append_rewritten,
    newest_of,
    range_of,
    read_input,
)
from airflow_provider_segtable.data.parquet.passthrough import Assembly
from airflow_provider_segtable.data.parquet.rewrite import (
    ARROW_SCHEMA,
    Change,
    arrow_schema,
    empty_file,
    rewritten,
)
from airflow_provider_segtable.data.parquet.sorted_writer import arrow_schema_entry
from airflow_provider_segtable.data.parquet.table_file import with_own_ids
from airflow_provider_segtable.ports.files import DataFiles, Sink


@dataclass(slots=True)
class Tally:
    """Counts of ``rows`` kept and ``dropped``, and the bounds of the kept rows' event times."""

    time_column: str
    rows: int = 0
    dropped: int = 0
    row_groups: int = 0
    times: list[Instant] = field(default_factory=list)

    def through(self, row_filter: RowFilter) -> Change:
        """Return a function that filters and counts the rows of an input."""

        def change(rows: pa.Table, first: int) -> pa.Table:
            kept = row_filter.sifted(row_filter.addressed(rows, first), first)
            self.rows += kept.num_rows
            self.dropped += rows.num_rows - kept.num_rows
            if kept.num_rows:
                bounds = pc.min_max(instants(kept.column(self.time_column)))
                self.times += (bounds["min"].as_py(), bounds["max"].as_py())
            return kept

        return change


def sift(
    files: DataFiles,
    pieces: Sequence[tuple[Piece, RowFilter]],
    sink: Sink,
    tally: Tally,
    metadata: Callable[[Tally], Mapping[bytes, bytes]],
) -> None:
    """Write the pieces' live rows, in order, as one Parquet file.

    Args:
        files: the data files that hold the inputs.
        pieces: the pieces to read, each with its segment's row filter; at least one.
        sink: receives the file; the caller commits it unless ``tally.rows`` is 0.
        tally: counts the rows.
        metadata: returns the output's key-value metadata, besides the Arrow schema.

    Raises:
        SchemaMismatch: an input's columns do not fit the first input's.
        RowsOutOfBalance: rows written differ from rows kept.
        CorruptTable: an input cannot be decoded.
    """
    schema = with_addresses(arrow_schema(newest_of([piece for piece, _ in pieces])))
    like = read_input(empty_file(schema)).footer
    assembly = Assembly(sink)
    ranges = [
        replace(range_of(piece), change=tally.through(row_filter)) for piece, row_filter in pieces
    ]
    for source in rewritten(files, ranges, schema):
        append_rewritten(assembly, source)
    tally.row_groups = assembly.row_groups
    if assembly.rows != tally.rows:
        raise RowsOutOfBalance(
            f"{sink.path}: {assembly.rows} rows out of {tally.rows}; nothing was published"
        )
    if assembly.rows:
        entries = {ARROW_SCHEMA: arrow_schema_entry(with_own_ids(schema)), **metadata(tally)}
        assembly.finish(entries, CREATED_BY, like)
