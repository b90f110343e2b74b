"""Files of deletion vectors, bits for tasks, and the deletions of a state."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from airflow_provider_segtable.core.deletion import Deletion
from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.row_filter import bits_of, flags_of
from airflow_provider_segtable.data.vector_file import (
    deleted_rows,
    read_vectors,
    row_filters,
    united,
    write_vectors,
)
from tests.support.builders import CHUNK, after, created, first

ROOTS = [CHUNK.segment(number) for number in range(3)]


def forged(files: MemoryFiles, path: str, **change: object) -> None:
    """Replace columns, or the format, of a written file."""
    with pa.ipc.open_file(pa.BufferReader(files.store[path])) as reader:
        table = reader.read_all()
    columns = {name: change.get(name, table.column(name)) for name in table.column_names}
    kept = {**table.schema.metadata, b"segtable.vectors": change.get("format", b"1")}
    made = pa.table(columns).replace_schema_metadata(kept)
    held = io.BytesIO()
    with pa.ipc.new_file(held, made.schema) as writer:
        writer.write_table(made)
    files.store[path] = held.getvalue()


def test_vectors_come_back_as_they_were_written() -> None:
    """A file holds a bitmap a root, says how many rows each names, and leaves out empty ones."""
    files = MemoryFiles()
    rows = {ROOTS[2]: BitMap([0, 2**32 - 1]), ROOTS[0]: BitMap(range(10_000)), ROOTS[1]: BitMap()}
    file = write_vectors(files, rows, "token")
    assert file.path == "deletes/token.arrow"
    assert list(file.rows.items()) == [(ROOTS[0], 10_000), (ROOTS[2], 2)]
    assert file.size == len(files.store[file.path])
    assert read_vectors(files, file.path) == {root: some for root, some in rows.items() if some}


def test_a_file_that_is_gone_says_so() -> None:
    """A cleaned file is told apart from a broken one."""
    with pytest.raises(NotFound, match="newer snapshot"):
        read_vectors(MemoryFiles(), "deletes/x.arrow")


@pytest.mark.parametrize(
    "change",
    [
        {"format": b"9"},
        {"root": pa.array(["no id"])},
        {"rows": pa.array([7], pa.int64())},
        {"bitmap": pa.array([b"no bitmap"], pa.binary())},
    ],
)
def test_a_file_that_contradicts_itself_is_corrupt(change: dict[str, object]) -> None:
    """A format, root, count or bitmap that cannot be is refused."""
    files = MemoryFiles()
    file = write_vectors(files, {ROOTS[0]: BitMap([1, 2])}, "token")
    forged(files, file.path, **change)
    with pytest.raises(CorruptTable):
        read_vectors(files, file.path)


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"something else"])
def test_a_file_of_something_else_is_corrupt(data: bytes) -> None:
    """Bytes that are no Arrow file are refused."""
    files = MemoryFiles()
    files.store["deletes/x.arrow"] = data
    with pytest.raises(CorruptTable):
        read_vectors(files, "deletes/x.arrow")


def test_united_vectors_change_none_of_them() -> None:
    """The union names what any of them names, and leaves the parts as they were."""
    one, two = {ROOTS[0]: BitMap([1])}, {ROOTS[0]: BitMap([2]), ROOTS[1]: BitMap([3])}
    assert united([one, two]) == {ROOTS[0]: BitMap([1, 2]), ROOTS[1]: BitMap([3])}
    assert one == {ROOTS[0]: BitMap([1])}


@given(st.sets(st.integers(0, 5000)))
def test_bits_name_the_rows_they_were_made_of(rows: set[int]) -> None:
    """Packed bits are flags from row 0 on, and name nothing beyond their end."""
    flags = flags_of(bits_of(BitMap(rows).to_array()))
    assert set(np.flatnonzero(flags).tolist()) == rows
    assert len(flags) < max(rows, default=0) + 9


def test_a_file_is_read_once_for_all_segments() -> None:
    """However many segments hold a root, and roots are in a file, it is read once."""
    opened: list[str] = []

    class Counting(MemoryFiles):
        def open(self, path):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            opened.append(path)
            return super().open(path)

    files = Counting()
    one = write_vectors(files, {ROOTS[0]: BitMap([1]), ROOTS[1]: BitMap([2])}, "one")
    two = write_vectors(files, {ROOTS[0]: BitMap([4])}, "two")
    segments = tuple(first(number) for number in range(3))
    state = after(
        created(),
        Appended(segments=segments),
        RowsChanged(kind="delete", vectors=(one,), seen=1, matched=2),
        RowsChanged(kind="delete", vectors=(two,), seen=2, matched=1),
    )
    found = row_filters(files, state, segments)
    assert [found[segment.id].deleted_rows() for segment in segments] == [2, 1, 0]
    assert [found[segment.id].passes_all for segment in segments] == [False, False, True]
    assert sorted(opened) == [one.path, two.path]


def test_deleted_rows_are_those_of_the_deletions_asked_for() -> None:
    """The rows of some deletions are united by root."""
    files = MemoryFiles()
    paths = [write_vectors(files, {ROOTS[0]: BitMap([n])}, str(n)).path for n in (1, 5)]
    asked = {ROOTS[0]: [Deletion(n=n, path=path, rows=1) for n, path in enumerate(paths)]}
    assert deleted_rows(files, asked) == {ROOTS[0]: BitMap([1, 5])}
