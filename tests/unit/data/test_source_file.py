"""Which threads read a data file."""

import re
from dataclasses import replace
from pathlib import Path
from threading import get_ident

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import airflow_provider_segtable
from airflow_provider_segtable.core.errors import ChecksumMismatch
from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.data.conditions import by_predicate
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.data.parquet.segment_scan import SMALL, SMALL_FILE, SegmentRead
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from tests.unit.data.making import plain, written


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the threads that read, one a call."""
    found: list[int] = []
    read = SourceFile.read

    def noted(self: SourceFile, size: int = -1) -> object:
        found.append(get_ident())
        return read(self, size)

    monkeypatch.setattr(SourceFile, "read", noted)
    return found


def test_a_local_file_is_read_by_the_thread_that_asks(tmp_path: Path, readers: list[int]) -> None:
    """No thread of Arrow has a Python object that it could let go while the interpreter ends."""
    rows = pa.table({name: [1, 2, 3] * 1000 for name in "abc"})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1000)
    with LocalFiles(tmp_path).open("rows.parquet") as source:
        batches = parquet_file(SourceFile(source)).iter_batches(
            columns=["a", "c"], use_threads=False
        )
        assert pa.Table.from_batches(batches) == rows.select(["a", "c"])
    assert len(readers) > 3
    assert {*readers} == {get_ident()}


def test_a_small_segment_is_read_by_the_thread_that_asks(
    tmp_path: Path, readers: list[int]
) -> None:
    """The same holds for the rows of a segment, which are decoded by one thread."""
    files, rows = LocalFiles(tmp_path), plain(12_000)
    (segment,) = written(files, [rows])
    assert SMALL_FILE < segment.size < SMALL
    read = SegmentRead(files, segment, schema=rows.schema, time_column="at")
    assert pa.Table.from_batches(read.batches()) == rows
    assert {*readers} == {get_ident()}


def test_a_smaller_segment_is_loaded_whole(tmp_path: Path, readers: list[int]) -> None:
    """Parquet's reader asks Python for no bytes, unless few may be needed, or none of the rows."""
    files, rows = LocalFiles(tmp_path), plain(1000)
    (segment,) = written(files, [rows])
    read = SegmentRead(files, segment, schema=rows.schema, time_column="at")
    assert pa.Table.from_batches(read.batches()) == rows
    assert read.plan().groups[0].rows == 1000
    assert not readers
    late = by_predicate(Compare("number", Compares.MORE, 0), "at")
    assert pa.Table.from_batches(replace(read, where=late).batches()) == rows
    assert {*readers} == {get_ident()}


def test_a_damaged_segment_that_is_loaded_whole_is_found(tmp_path: Path) -> None:
    """Each byte of it is compared with its checksum."""
    files, rows = LocalFiles(tmp_path), plain(1000)
    (segment,) = written(files, [rows])
    read = SegmentRead(files, segment, schema=rows.schema, time_column="at")
    path = tmp_path / segment.path
    whole = path.read_bytes()
    assert segment.footer is not None
    for at in (4, segment.footer.start // 2, segment.footer.start - 1):
        path.chmod(0o644)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ChecksumMismatch):
            pa.Table.from_batches(read.batches())


def test_who_opens_parquet_decides_about_reading_ahead() -> None:
    """By ``pre_buffer``, or by ``parquet_file``; files of Arrow's own have no Python objects."""
    package = Path(airflow_provider_segtable.__file__).parent
    found = {
        path.relative_to(package).as_posix(): re.findall(
            r"pq\.(?:ParquetFile|read_table)\((?!\))[^\n]*(?:\n[^\n]*){2}", path.read_text("utf-8")
        )
        for path in package.rglob("*.py")
    }
    undecided = {path for path, calls in found.items() if any("pre_buffer" not in c for c in calls)}
    assert undecided == {"data/files/input_files.py"}
