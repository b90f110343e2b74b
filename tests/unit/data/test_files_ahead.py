"""Files of an object store: the requests that are sent, joined, or sent before they are needed."""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from airflow_provider_segtable.core.errors import AlreadyExists, CorruptTable
from airflow_provider_segtable.data import files_ahead
from airflow_provider_segtable.data.files_ahead import AT_ONCE, SMALL_FILE, FilesAhead, read_ahead
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.open_files import (
    COLLECTED,
    ArrowFiles,
    ArrowSource,
    MemoryFiles,
    joined_ranges,
)
from airflow_provider_segtable.data.parquet import segment_scan
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import Source
from tests.unit.data.making import MOVE, REWRITE, content, job, rich, written

PATIENCE_S = 60.0


class CountedFileSystem:
    """A local folder as an Arrow file system that notes its calls."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self.inner = fs.LocalFileSystem()
        self.seen: list[str] = []

    def open_input_file(self, path: str) -> Any:
        """Note and open."""
        self.seen.append("head")
        return self.inner.open_input_file(path)

    def open_output_stream(self, path: str) -> Any:
        """Note and start."""
        self.seen.append("put")
        return self.inner.open_output_stream(path)

    def delete_file(self, path: str) -> None:
        """Note and delete."""
        self.seen.append("delete")
        self.inner.delete_file(path)


@pytest.fixture
def threads() -> Iterator[Executor]:
    """Return threads for commits in the background; two, so that one may wait."""
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def counted(tmp_path: Path) -> tuple[CountedFileSystem, ArrowFiles]:
    """Return a counting file system, and data files on it."""
    system = CountedFileSystem()
    return system, ArrowFiles(system, str(tmp_path))  # type: ignore[arg-type]


def test_a_small_file_is_a_check_and_a_put(
    counted: tuple[CountedFileSystem, ArrowFiles], tmp_path: Path, threads: Executor
) -> None:
    """The check goes out while the bytes are collected; no more is sent."""
    system, files = counted
    with files.create("a") as sink:
        sink.write(b"one")
        sink.write(b"two")
        ready = sink.begin_commit(threads)
    assert ready is not None
    ready()
    assert system.seen == ["head", "put"]
    assert (tmp_path / "a").read_bytes() == b"onetwo"


def test_an_uncommitted_small_file_sends_nothing(
    counted: tuple[CountedFileSystem, ArrowFiles], tmp_path: Path
) -> None:
    """It was in memory only."""
    system, files = counted
    with files.create("a") as sink:
        sink.write(b"one")
    assert "put" not in system.seen
    assert not [*tmp_path.iterdir()]


def test_a_large_file_is_sent_while_it_is_written(
    counted: tuple[CountedFileSystem, ArrowFiles], tmp_path: Path
) -> None:
    """Memory holds its first bytes only; left uncommitted, it is deleted."""
    system, files = counted
    with files.create("a") as sink:
        sink.write(b"x" * COLLECTED)
        assert "put" not in system.seen
        sink.write(b"y")
        assert "put" in system.seen
        sink.commit()
    assert (tmp_path / "a").stat().st_size == COLLECTED + 1
    with files.create("b") as sink:
        sink.write(b"x" * (COLLECTED + 1))
    assert system.seen[-1] == "delete"


def test_a_taken_name_is_refused_before_anything_is_sent(
    counted: tuple[CountedFileSystem, ArrowFiles], tmp_path: Path, threads: Executor
) -> None:
    """Nothing is overwritten, however the file is committed."""
    system, files = counted
    (tmp_path / "a").write_bytes(b"first")
    with files.create("a") as sink:
        sink.write(b"second")
        ready = sink.begin_commit(threads)
    assert ready is not None
    with pytest.raises(AlreadyExists):
        ready()
    assert "put" not in system.seen
    assert (tmp_path / "a").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("ranges", "requests"),
    [
        ([(0, 100), (100, 200)], [(0, 200)]),
        ([(100, 200), (0, 100)], [(0, 200)]),
        ([(0, 100), (110, 200)], [(0, 200)]),
        ([(0, 100), (150, 200)], [(0, 100), (150, 200)]),
        ([(0, 100), (50, 80)], [(0, 100)]),
        ([], []),
    ],
)
def test_neighbours_are_one_request(
    ranges: list[tuple[int, int]], requests: list[tuple[int, int]]
) -> None:
    """Ranges are joined where the gap is at most a tenth of what is wanted."""
    assert joined_ranges(ranges) == requests


class Ranged:
    """An Arrow file of which each read waits for the others."""

    def __init__(self, data: bytes, together: int) -> None:
        """Serve ``data`` once so many reads are under way."""
        self.data = data
        self.seen: list[tuple[int, int]] = []
        self.barrier = threading.Barrier(together)

    def size(self) -> int:
        """Return the number of bytes."""
        return len(self.data)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Wait for the others, and read."""
        self.barrier.wait(PATIENCE_S)
        self.seen.append((offset, offset + nbytes))
        return self.data[offset : offset + nbytes]


def test_loaded_ranges_are_read_at_once_and_from_memory() -> None:
    """Ranges far apart are requested together, and later reads in them send nothing."""
    data = bytes(range(256)) * 40
    file = Ranged(data, together=2)
    source = ArrowSource("a", file, len(data))
    source.load([(0, 1000), (5000, 6000)])
    assert sorted(file.seen) == [(0, 1000), (5000, 6000)]
    assert source.read_at(10, 20) == data[10:30]
    assert source.read_at(5500, 500) == data[5500:6000]
    assert len(file.seen) == 2


def test_small_items_are_read_together_and_large_ones_in_their_turn() -> None:
    """Items come in order; a large one is not read before its turn."""
    small = AT_ONCE - 1
    barrier = threading.Barrier(small)
    begun: list[int] = []

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        if item != small:
            barrier.wait(PATIENCE_S)
        yield from (item, item)

    def size(item: int) -> int:
        return SMALL_FILE + 1 if item == small else 1

    found = []
    for item, some in read_ahead(range(small + 1), read, size):
        assert item == small or small not in begun
        found.append((item, list(some)))
    assert found == [(item, [item, item]) for item in range(small + 1)]


def test_a_reader_that_stops_reads_no_more() -> None:
    """After the end of the reader no further item is read."""
    begun: list[int] = []

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        yield item

    ahead = read_ahead(range(1000), read, lambda _: 1)
    next(ahead)
    ahead.close()
    assert len(begun) <= AT_ONCE


class RemoteFiles(MemoryFiles):
    """Files in memory whose opening counts as a round trip."""

    remote = True

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.opened: list[str] = []

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Note and open."""
        self.opened.append(path)
        with super().open(path) as source:
            yield source


@pytest.mark.parametrize("grain", [MOVE, REWRITE])
def test_a_minor_compaction_loads_each_small_input_once(grain: Any) -> None:
    """Footers and bytes of an input come from one load."""
    files = RemoteFiles()
    tables = [rich(50, seed) for seed in range(AT_ONCE + 4)]
    segments = written(files, tables)
    files.opened.clear()
    results = run_minor(job(segments, grain=grain), files)
    opened = [path for path in files.opened if path in {one.path for one in segments}]
    assert sorted(opened) == sorted(one.path for one in segments)
    assert content(files, results).equals(pa.concat_tables(tables))


class Ranges(RemoteFiles):
    """Remote files of known sizes, which note the ranges that are read of them."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.read: list[tuple[str, int, int]] = []

    @contextmanager
    def open_known(self, path: str, size: int) -> Iterator[Source]:
        """Open without a request."""
        with MemoryFiles.open(self, path) as source:
            assert source.size == size
            yield NotedSource(source, self.read)


class NotedSource:
    """An open file that notes what is read."""

    def __init__(self, inner: Source, read: list[tuple[str, int, int]]) -> None:
        """Note into ``read``."""
        self.path, self.size = inner.path, inner.size
        self.inner, self.read = inner, read

    def read_at(self, offset: int, length: int) -> bytes:
        """Note and read."""
        self.read.append((self.path, offset, offset + length))
        return self.inner.read_at(offset, length)


def test_a_small_file_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file, or its end and then its columns; its size is in the log."""
    files = Ranges()
    (segment,) = written(files, [rich(500)])
    assert segment.footer is not None

    def scanned() -> pa.Table:
        files.read.clear()
        read = SegmentRead(files, segment, schema=rich(1).schema, time_column="at")
        return pa.Table.from_batches(read.batches())

    assert scanned().num_rows == 500
    assert files.read == [(segment.path, 0, segment.size)]
    monkeypatch.setattr(segment_scan, "WHOLE", 0)
    assert scanned().num_rows == 500
    assert files.read[0] == (segment.path, segment.footer.start, segment.size)
    assert files.opened == []


@pytest.mark.parametrize("grain", [MOVE, REWRITE])
def test_a_compaction_of_more_than_fits_loads_each_byte_once(
    grain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the ends of all files, then the rows, large files in pieces, within the memory."""
    files = Ranges()
    tables = [rich(200, seed) for seed in range(5)]
    segments = written(files, tables)
    size = segments[0].size
    monkeypatch.setattr(files_ahead, "MEMORY", 2 * size)
    monkeypatch.setattr(files_ahead, "AHEAD", size)
    monkeypatch.setattr(files_ahead, "SMALL_FILE", size - 100)  # some are small, some are not
    monkeypatch.setattr(files_ahead, "PIECE", size // 4)
    held: list[int] = []
    forget = FilesAhead._forget

    def noted(ahead: FilesAhead, needed: set[int], more: int) -> None:
        forget(ahead, needed, more)
        held.append(sum(map(ahead._size, ahead._loads)) + more)

    monkeypatch.setattr(FilesAhead, "_forget", noted)
    results = run_minor(job(segments, grain=grain), files)
    inputs = [each for each in files.read if each[0] in {one.path for one in segments}]
    assert len(inputs) == len({*inputs})
    assert sum(end - start for _, start, end in inputs) < 1.5 * sum(one.size for one in segments)
    assert max(held) <= 2 * size
    assert files.opened == []
    assert content(files, results).equals(pa.concat_tables(tables))


def test_a_compaction_names_an_input_of_a_wrong_size() -> None:
    """Its bytes are not used."""
    files = RemoteFiles()
    segments = written(files, [rich(50, seed) for seed in range(2)])
    files.store[segments[1].path] += b"more"
    with pytest.raises(CorruptTable, match=f"{segments[1].path} has .* bytes"):
        run_minor(job(segments), files)


def test_files_that_are_read_ahead_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytes are bounded together, not their number alone."""
    monkeypatch.setattr(files_ahead, "READ_AHEAD", 25)
    begun: list[int] = []

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        return iter([item])

    ahead = files_ahead.read_ahead(range(9), read, lambda _: 10)
    first, rows = next(ahead)
    assert (first, list(rows)) == (0, [0])
    assert [(item, list(some)) for item, some in ahead] == [(n, [n]) for n in range(1, 9)]
    assert sorted(begun) == [*range(9)]
    some = files_ahead.read_ahead(range(9), read, lambda _: 10)
    begun.clear()
    next(some)
    some.close()
    assert set(begun) <= {0, 1, 2}
