"""Load files: each is appended or upserted, as a whole or in parts, under one name or none.

1. Without a commit id each part is an append of its own. With one the log knows the load of each
   file (``core.log.loads``): a part begins where the log says that the last one ended, however
   large parts were then, so each row is appended once, also after a failure and beside another
   process that carries out the same load.
2. Rows that are committed must be the first rows of the file. A complete load must have all of
   them. Otherwise the load is refused, and nothing is appended: rows that differ are another load.
3. A load of an earlier segtable, or of Spark, is one append of the whole file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, NotFound
from airflow_provider_segtable.core.log.state import LastPart, LoadPart, State
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.data.files.input_files import InputFile
from airflow_provider_segtable.data.files.input_paths import found_files
from airflow_provider_segtable.data.sketches.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.writes.append import AppendResult, made_at
from airflow_provider_segtable.table.writes.chosen_columns import FileColumns
from airflow_provider_segtable.table.writes.given import append_rows

WHOLE = 2**62
"""More rows than a file has: the end of a load whose rows the log does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A part of a file that is in the table; ``before`` says that an earlier load appended it."""

    file: str
    result: AppendResult
    before: bool = False


def load_name(commit_id: str | None, file: InputFile) -> str:
    """Return the name of a file's load; empty without a commit id."""
    return f"{commit_id}/{file.name}" if commit_id else ""


def load_rows(
    ports: TableContext,
    file: InputFile,
    rows: pa.Table,
    *,
    commit_id: str | None = None,
    rows_per_append: int | None = None,
    deleted: str | None = None,
) -> Iterator[Loaded]:
    """Append the rows of a file, and yield each part when it is committed.

    Args:
        ports: the table's ports.
        file: the file.
        rows: its rows.
        commit_id: equal ids load a file of this name once.
        rows_per_append: the most rows of an append; by default the file is one append.
        deleted: the column that says which rows delete their key.

    Raises:
        InvalidInput: other rows are committed under this id.
        SchemaMismatch, TimeOutOfRange: the rows of a part do not fit; parts before it stay.
        CommitConflict, CommitUnknown, LockLost: as ``append``.
    """
    size = rows_per_append or max(rows.num_rows, 1)
    if commit_id is None:
        for start in range(0, max(rows.num_rows, 1), size):
            done = append_rows(ports, rows.slice(start, size), deleted=deleted)
            yield Loaded(file=file.place, result=done)
        return
    name, state, given = load_name(commit_id, file), ports.log.load(), _Given(rows)
    known = loaded_before(state, name)
    if known is not None:
        given.check(known, file)
        yield Loaded(file=file.place, result=made_at(ports.log, state, known.n), before=True)
    while known is None or known.part.end < rows.num_rows:
        part = given.part(name, known.part.end if known else 0, size)
        done = append_rows(
            ports,
            rows.slice(part.start, size),
            commit_id=f"{name}/{part.start}",
            deleted=deleted,
            load=part,
        )
        yield Loaded(file=file.place, result=done)
        known = loaded_before(done.state, name)
        if known is None:
            return  # an empty file
        given.check(known, file)  # another process may have been first


def load_files(
    ports: TableContext,
    places: Sequence[str],
    columns: FileColumns,
    *,
    csv: CsvFormat | None = None,
    commit_id: str | None = None,
    rows_per_append: int | None = None,
) -> list[Loaded]:
    """Load files by their paths, URIs and patterns; arguments and errors as ``load_rows``.

    Raises:
        NotFound: a path or pattern has no file.
        InvalidInput: under a commit id two files have one name.
    """
    files: list[InputFile] = []
    for place in places:
        found = found_files(place, None, ports.storage_options, csv)
        if not found:
            raise NotFound(f"there is no file {place!r}: check the path or the pattern")
        files += found
    names = [file.name for file in files]
    if commit_id and len(set(names)) < len(names):
        raise InvalidInput(
            "two files have one name, and a commit id knows a file by its name: load them "
            "under different ids"
        )
    table = ports.log.load().table
    return [
        done
        for file in files
        for done in load_rows(
            *(ports, file, columns.read(file, table)),
            commit_id=commit_id,
            rows_per_append=rows_per_append,
            deleted=columns.deleted,
        )
    ]


def loaded_before(state: State, name: str) -> LastPart | None:
    """Return the last part of a load, if there is one.

    Raises:
        InvalidInput: an earlier segtable loaded parts of it, and did not record which rows.
    """
    whole = state.commits.get(f"{name}/0")
    if name in state.loads or whole is None:
        return state.loads.get(name)
    parts = [each for each in state.commits if each.startswith(f"{name}/")]
    if len(parts) > 1:
        raise InvalidInput(
            f"an earlier segtable loaded {name} in {len(parts)} parts without their rows: read "
            "what is missing, and load it under another commit id"
        )
    return LastPart(whole, LoadPart(load=name, start=0, end=WHOLE, total=WHOLE, checksum=""))


class _Given:
    """The rows of a file, with the checksum of as many of the first ones as were asked for."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._end = 0
        self._sum = Checksum()

    def part(self, name: str, start: int, size: int) -> LoadPart:
        """Return the part that begins at a row."""
        total = self._rows.num_rows
        end = min(start + size, total)
        return LoadPart(load=name, start=start, end=end, total=total, checksum=self.checksum(end))

    def checksum(self, end: int) -> str:
        """Return the checksum of the first rows."""
        if end < self._end:
            self._end, self._sum = 0, Checksum()
        self._sum += checksum_of(self._rows.slice(self._end, end - self._end).to_batches())
        self._end = end
        return self._sum.hex

    def check(self, known: LastPart, file: InputFile) -> None:
        """Refuse a file that does not begin with the rows of its load that are committed."""
        part, rows = known.part, self._rows.num_rows
        if not part.checksum:  # one append of the whole file, without its rows
            return
        other = part.complete and rows != part.end
        if not other and rows >= part.end and self.checksum(part.end) == part.checksum:
            return
        amount = counted(part.end, "row")
        what = (
            f"is complete with {amount}, and the file has {rows:,}"
            if other
            else f"has appended {amount}, which are not the first {amount} of the file"
        )
        raise InvalidInput(
            f"{file.place}: the load with commit id {part.load.removesuffix('/' + file.name)!r} "
            f"{what} (event {known.n}): load other rows under another id, or replace rows by "
            "--overwrite"
        )
