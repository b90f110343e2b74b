"""Concatenate files: move row groups undecoded where possible, else decode and rewrite them.

The order of rows is the order of the inputs, always.

Concatenation without deleted rows:

1. A piece of a file is *moved* if its row groups are movable, large enough (``Grain``), and of the
   output's shape: equal schema elements, column orders and Arrow schema, and pages by writers with
   reliable statistics.
   The output has the columns of the newest schema among the inputs: a piece of that schema can be
   moved, one of an earlier schema is rewritten, unless its columns are the same. A file that
   another program wrote counts as one with the columns of ``Input.written_as``.
2. Other pieces are decoded and encoded again, as row groups of full size. They become Parquet
   files in memory and are moved from there, so that all row groups enter the output alike.
3. A small piece alone between large ones is moved: rewriting it would gain nothing.
4. Of the inputs' key-value metadata only ``ARROW:schema`` is kept. The rest is dropped, because it
   describes single files or the engine that wrote them.

Concatenation by decoding: drops deleted rows and stores every row's address.

5. Memory is bounded as in ``data.jobs.passthrough.rewritten``.
6. Row addresses come from the inputs' lineage, or else from their hidden columns. The output
   stores them in hidden columns.
7. The row count and the time range are known only at the end; so the footer's metadata is
   requested then. If no row is left, the caller must not publish the file.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.arrow_schema import FIELD_ID as ID
from airflow_provider_segtable.data.jobs.passthrough import (
    MOST_GROUPS,
    Assembly,
    Change,
    Movable,
    Range,
    arrow_schema,
    empty_file,
    examined,
    rewritten,
)
from airflow_provider_segtable.data.jobs.segment_writer import ARROW_SCHEMA, arrow_schema_entry
from airflow_provider_segtable.data.parquet.descriptor import TABLE_KEY, file_definition
from airflow_provider_segtable.data.parquet.footer import Footer, read_footer
from airflow_provider_segtable.data.parquet.table_file import with_own_ids
from airflow_provider_segtable.data.row_filter import RowFilter, with_addresses
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

# Concatenation without deleted rows
CREATED_BY = f"segtable version {__version__}".encode()
_SOUND_WRITERS = re.compile(
    rb"(parquet-cpp-arrow|DuckDB|Polars|parquet-rs|segtable|parquet-mr version 1\.[1-9]\d)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """The least rows, or bytes, of a row group that is worth moving undecoded."""

    rows: int = 50_000
    size: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input file as its footer describes it; ``file`` is a reason if it must be decoded.

    ``written_as`` is the footer of a file with the columns that this one would have, had segtable
    written it; None if it has.
    """

    path: str
    footer: Footer
    file: Movable | str
    written_as: Footer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Row groups ``[first, end)`` of an input, or, if they are cut, rows ``[start, stop)``."""

    input: Input
    first: int
    end: int
    cut: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        if self.cut:
            return self.cut[1] - self.cut[0]
        if self.whole:
            return self.input.footer.rows
        return sum(group.rows for group in self.input.footer.groups[self.first : self.end])

    @property
    def size(self) -> int:
        """Return the bytes of its row groups."""
        return sum(group.size for group in self.input.footer.groups[self.first : self.end])

    @property
    def whole(self) -> bool:
        """Return whether the piece covers its whole input."""
        return not self.cut and (self.first, self.end) == (0, self.input.footer.group_count)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The properties that moved row groups must share."""

    schema: bytes
    column_orders: bytes
    arrow_schema: bytes


Step = Piece | tuple[Piece, ...]
"""A piece to move, or consecutive pieces to rewrite together."""


def read_input(source: Source, like: Input | None = None) -> Input:
    """Load a file's footer for merging.

    Raises:
        CorruptTable: it is not a whole Parquet file.
    """
    footer = read_footer(source, like.footer if like else None)
    return Input(path=source.path, footer=footer, file=examined(source, footer))


def merge(
    files: DataFiles,
    pieces: Sequence[Piece],
    sink: Sink,
    *,
    metadata: Mapping[bytes, bytes],
    grain: Grain,
) -> int:
    """Write the pieces' rows, in order, as one Parquet file.

    Args:
        files: the data files that hold the inputs.
        pieces: the pieces to merge; at least one.
        sink: receives the file; the caller commits.
        metadata: key-value metadata of the output, besides the Arrow schema.
        grain: the least size of row groups that are moved.

    Returns:
        The number of row groups.

    Raises:
        SchemaMismatch: an input's columns do not fit the first input's.
        RowsOutOfBalance: rows out differ from rows in.
        CorruptTable: an input cannot be decoded.
    """
    newest = newest_of(pieces)
    steps, like = _steps(pieces, newest, grain)
    assembly = Assembly(sink)
    for step in steps:
        if isinstance(step, Piece):
            _move(files, step, assembly)
        else:
            for source in rewritten(files, map(range_of, step), arrow_schema(newest)):
                append_rewritten(assembly, source)
    expected = sum(piece.rows for piece in pieces)
    if assembly.rows != expected:
        raise RowsOutOfBalance(
            f"{sink.path}: {assembly.rows} rows out, {expected} rows in; nothing was published"
        )
    types = newest.metadata.get(ARROW_SCHEMA)
    kept = {ARROW_SCHEMA: types, **metadata} if types else metadata
    assembly.finish(kept, _created_by(pieces, steps), like)
    return assembly.row_groups


def _move(files: DataFiles, piece: Piece, assembly: Assembly) -> None:
    with files.open(piece.input.path) as source:
        assembly.append(source, _surely(piece.input), piece.first, piece.end)


def append_rewritten(assembly: Assembly, source: Source) -> None:
    """Move a file that ``rewritten`` yielded into an assembly."""
    assembly.append(source, _surely(read_input(source)))


def _surely(one: Input) -> Movable:
    assert isinstance(one.file, Movable), one.file  # noqa: S101 - ensured by _steps or pyarrow
    return one.file


def range_of(piece: Piece) -> Range:
    """Return the range of rows of a piece."""
    before = sum(group.rows for group in piece.input.footer.groups[: piece.first])
    groups = range(piece.first, piece.end)
    return Range(path=piece.input.path, groups=groups, first=before, cut=piece.cut)


def newest_of(pieces: Sequence[Piece]) -> Footer:
    """Return the footer whose columns the output gets: that of the newest schema, with ids.

    The output also gets its definition of the table, so of equal schemas the latest altered counts.
    """
    kinds: dict[tuple[bytes, bytes], Footer] = {}
    for footer in (piece.input.written_as or piece.input.footer for piece in pieces):
        kinds.setdefault((footer.metadata.get(TABLE_KEY, b""), footer.schema), footer)
    return max(kinds.values(), key=_age) if len(kinds) > 1 else next(iter(kinds.values()))


def _age(footer: Footer) -> tuple[int, bool, int]:
    table = file_definition(footer.metadata)
    identified = any(ID in (field.metadata or {}) for field in arrow_schema(footer))
    return (table.schema.number, identified, table.altered) if table else (0, identified, 0)


def _steps(pieces: Sequence[Piece], newest: Footer, grain: Grain) -> tuple[list[Step], Footer]:
    """Choose the pieces to move and to rewrite, and the footer that gives the output's schema."""
    stay = _movable(pieces, grain)
    shapes = {_shape(piece.input.footer) for piece in pieces}
    if all(stay) and shapes == {_shape(newest)}:
        return list(pieces), newest
    schema = arrow_schema(newest)
    made = read_input(empty_file(schema))
    shape = _Shape(
        made.footer.schema,
        made.footer.column_orders,
        newest.metadata.get(ARROW_SCHEMA, b""),
    )
    alike = [_shape(piece.input.footer) == shape for piece in pieces]
    stay = [may and same for may, same in zip(stay, alike, strict=True)]
    return _runs(pieces, stay), made.footer


def _movable(pieces: Sequence[Piece], grain: Grain) -> list[bool]:
    if sum(piece.end - piece.first for piece in pieces) > MOST_GROUPS or not _sound(pieces):
        return [False] * len(pieces)
    may = [not piece.cut and isinstance(piece.input.file, Movable) for piece in pieces]
    large = [_large(piece, grain) for piece in pieces]
    alone = [
        piece.end - piece.first == 1 and all(large[max(0, at - 1) : at] + large[at + 1 : at + 2])
        for at, piece in enumerate(pieces)
    ]
    return [m and (big or lone) for m, big, lone in zip(may, large, alone, strict=True)]


def _large(piece: Piece, grain: Grain) -> bool:
    groups = max(1, piece.end - piece.first)
    return piece.rows >= grain.rows * groups or piece.size >= grain.size * groups


def _sound(pieces: Sequence[Piece]) -> bool:
    writers = {piece.input.footer.created_by for piece in pieces}
    return len(writers) == 1 or all(_SOUND_WRITERS.match(writer) for writer in writers)


def _created_by(pieces: Sequence[Piece], steps: Sequence[Step]) -> bytes:
    """Return the writer of all pages if there is only one, else segtable (all are sound then)."""
    writers = {piece.input.footer.created_by for piece in pieces}
    only_moved = all(isinstance(step, Piece) for step in steps)
    return writers.pop() if only_moved and len(writers) == 1 else CREATED_BY


def _shape(footer: Footer) -> _Shape:
    return _Shape(footer.schema, footer.column_orders, footer.metadata.get(ARROW_SCHEMA, b""))


def _runs(pieces: Sequence[Piece], stay: Sequence[bool]) -> list[Step]:
    steps: list[Step] = []
    for piece, moves in zip(pieces, stay, strict=True):
        if moves:
            steps.append(piece)
        elif steps and isinstance(steps[-1], tuple):
            steps[-1] = (*steps[-1], piece)
        else:
            steps.append((piece,))
    return steps


# Concatenation by decoding
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
