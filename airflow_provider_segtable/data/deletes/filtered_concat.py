"""Pieces of files into one file, decoded: without deleted rows, and each row with its address.

1. The order of rows is the order of the pieces, always. Memory is bounded as in ``rewrite``.
2. All that the inputs tell of a row's address becomes the hidden columns: lineage, or the hidden
   columns that they have.
3. How many rows there are, and from when to when, is known only in the end; so the footer's
   metadata is asked for then. If there are none, nothing is to be published.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_filter import RowFilter, with_addresses
from airflow_provider_segtable.data.jobs.concat import (
    CREATED_BY,
    Piece,
    append_rewritten,
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
from airflow_provider_segtable.ports.files import DataFiles, Sink


@dataclass(slots=True)
class Tally:
    """What went through: ``rows`` kept, ``dropped`` ones, the kept ones' first and last time."""

    time_column: str
    rows: int = 0
    dropped: int = 0
    row_groups: int = 0
    times: list[Instant] = field(default_factory=list)

    def through(self, row_filter: RowFilter) -> Change:
        """Return what is to be done to the rows of an input."""

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
    """Write the pieces' rows that are not deleted, in order, as one Parquet file.

    Args:
        files: where the inputs are.
        pieces: what to read, and the sieves of their segments; at least one.
        sink: receives the file; the caller commits, if ``tally.rows`` is not 0.
        tally: counts.
        metadata: gives key-value metadata of the output, besides the Arrow schema.

    Raises:
        SchemaMismatch: an input's columns do not fit those of the first.
        RowsOutOfBalance: rows written differ from rows kept.
        CorruptTable: an input cannot be decoded.
    """
    schema = with_addresses(arrow_schema(pieces[0][0].input.footer))
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
        entries = {ARROW_SCHEMA: arrow_schema_entry(schema), **metadata(tally)}
        assembly.finish(entries, CREATED_BY, like)
