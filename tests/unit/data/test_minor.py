"""The minor kernel: books, lineage, names, and nothing left behind."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    NotFound,
    SegtableError,
    StorageFull,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.segment import Run, concatenated
from airflow_provider_segtable.data.jobs.concat import Grain
from airflow_provider_segtable.data.jobs.minor_job import run_minor, sliced
from airflow_provider_segtable.data.open_files import MemoryFiles, open_files
from airflow_provider_segtable.data.parquet.descriptor import KEY, read_descriptor
from airflow_provider_segtable.ports.files import Sink
from tests.unit.data.making import (
    MOVE,
    REWRITE,
    content,
    get,
    job,
    parquet,
    plain,
    rich,
    segment_id,
    written,
)


@pytest.mark.parametrize("grain", [MOVE, REWRITE, Grain(rows=25, size=1 << 60)])
@pytest.mark.parametrize("outputs", [1, 2, 3, 5, 9])
def test_rows_and_lineage_go_along(grain: Grain, outputs: int) -> None:
    """However inputs are cut into outputs, the rows and their origins are the same, in order."""
    files = MemoryFiles()
    tables = [rich(rows, rows) for rows in (10, 40, 30)]
    segments = written(files, tables)
    results = run_minor(job(segments, outputs, grain), files)
    assert len(results) == outputs
    assert content(files, results).equals(pa.concat_tables(tables))
    assert concatenated(results) == concatenated(segments)
    for result in results:
        assert read_descriptor(files, result.path) == result
        assert result.size == len(files.store[result.path])
        assert result.created == segments[0].created + 1


@pytest.mark.parametrize("outputs", [3, 4, 7])
def test_inputs_are_cut_between_row_groups(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few inputs of many row groups are moved into more outputs, undecoded."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", 10)
    files = MemoryFiles()
    tables = [rich(40, 1), rich(35, 2)]
    segments = written(files, tables)
    results = run_minor(job(segments, outputs), files)
    assert sum(result.row_groups for result in results) == 8
    assert content(files, results).equals(pa.concat_tables(tables))
    assert concatenated(results) == concatenated(segments)


def test_times_are_those_of_the_inputs() -> None:
    """Each output spans the event times of the inputs it has rows of."""
    files = MemoryFiles()
    segments = written(files, [plain(40).slice(10 * part, 10) for part in (2, 0, 1, 3)])
    first, second = run_minor(job(segments, 2), files)
    assert (first.time_min, first.time_max) == (segments[1].time_min, segments[0].time_max)
    assert (second.time_min, second.time_max) == (segments[2].time_min, segments[3].time_max)


def test_compactions_of_compactions_keep_root_lineage() -> None:
    """After two generations lineage still names first-generation rows, neighbours joined."""
    files = MemoryFiles()
    segments = written(files, [plain(n, n) for n in (3, 4, 5)])
    first = run_minor(job(segments[:2]), files)
    moved = job((*first, segments[2]))
    outputs = ((segment_id(40000), replace(moved.outputs[0][1], partition=40000)),)
    (second,) = run_minor(replace(moved, outputs=outputs), files)
    expected = [(0, 0, 3), (1, 0, 4), (2, 0, 5)]
    assert second.lineage == tuple(Run(segment_id(n), a, rows) for n, a, rows in expected)


def test_a_job_travels() -> None:
    """A job can be pickled, and finds its files by URI alone."""
    files = open_files("memory://travels", {})
    segments = written(files, [plain(5, 1), plain(5, 2)])
    sent = pickle.loads(pickle.dumps(replace(job(segments), uri="memory://travels")))  # noqa: S301
    results = run_minor(sent)
    assert content(files, results).num_rows == 10


def test_names_carry_the_attempt() -> None:
    """Two attempts of one job write different files; without one given, names are random."""
    files = MemoryFiles()
    segments = written(files, [plain(5, 1), plain(5, 2)])
    one = job(segments)
    tries = ("a" * 16, "b" * 16, "", "")
    paths = {run_minor(replace(one, attempt=attempt), files)[0].path for attempt in tries}
    assert len(paths) == 4
    assert "data/20130101T000000_20130201T000000/32768-aaaaaaaaaaaaaaaa.parquet" in paths


def test_fewer_rows_than_outputs_is_refused() -> None:
    """Nothing can be divided into more parts than it has rows."""
    files = MemoryFiles()
    segments = written(files, [plain(2, 1), plain(1, 2)])
    with pytest.raises(InvalidInput, match="3 rows cannot be divided among 4"):
        run_minor(job(segments, 4), files)


def test_outputs_are_about_equal() -> None:
    """Contiguous parts of like bytes: none has twice its share."""
    files = MemoryFiles()
    segments = written(files, [plain(1000 + 10 * n, n) for n in range(20)])
    results = run_minor(job(segments, 4), files)
    total = sum(result.size for result in results)
    assert all(result.size < total / 2 for result in results)
    assert all(result.size > total / 8 for result in results)


Harm = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("harm", "error", "says"),
    [
        (lambda data: data[:-10], CorruptTable, "bytes"),
        (lambda data: data + b"x", CorruptTable, "bytes"),
        (lambda data: data[:-4] + b"JUNK", CorruptTable, "JUNK"),
        (lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1", CorruptTable, "does not fit"),
        (lambda data: data[:-300] + bytes(292) + data[-8:], CorruptTable, "garbled"),
        (lambda data: data.replace(b'"format":1', b'"format":7'), UnsupportedFormat, "format 7"),
        (lambda data: data.replace(b"00_1367", b"00_1368"), CorruptTable, "the log says"),
        (lambda data: data.replace(b'{"created"', b'["created"'), CorruptTable, "descriptor"),
        (lambda data: data.replace(b"segtable", b"SEGTABLE"), CorruptTable, "descriptor"),
    ],
)
def test_harmed_inputs_are_refused(harm: Harm, error: type[SegtableError], says: str) -> None:
    """A file that is not what the log says stops the kernel, which names it and writes nothing."""
    files = MemoryFiles()
    segments = written(files, [plain(50, 1), plain(50, 2)])
    path = segments[1].path
    files.store[path] = harm(files.store[path])
    before = dict(files.store)
    with pytest.raises(error, match=says) as caught:
        run_minor(job(segments), files)
    assert path in str(caught.value)
    assert files.store == before


def test_a_swapped_file_is_noticed() -> None:
    """Another segment's file under this one's path is refused, even of equal size and rows."""
    files = MemoryFiles()
    segments = written(files, [plain(50, 1), plain(50, 1)])
    files.store[segments[1].path] = files.store[segments[0].path]
    with pytest.raises(CorruptTable, match=r"says it is segment .*_0, the log says .*_1"):
        run_minor(job(segments), files)


def test_a_foreign_file_is_noticed() -> None:
    """A Parquet file without descriptor is no input."""
    files = MemoryFiles()
    (segment,) = written(files, [plain(50, 1)])
    data = parquet(plain(50, 1))
    files.store[segment.path] = data
    with pytest.raises(CorruptTable, match="descriptor"):
        run_minor(job([replace(segment, size=len(data))]), files)


def test_garbled_pages_are_corrupt() -> None:
    """Pages that cannot be decoded are a corrupt table when they have to be."""
    files = MemoryFiles()
    segments = written(files, [rich(500, 1), rich(500, 2)])
    data = bytearray(files.store[segments[1].path])
    data[100:8000] = bytes(7900)
    files.store[segments[1].path] = bytes(data)
    with pytest.raises(CorruptTable, match=segments[1].path):
        run_minor(job(segments, grain=REWRITE), files)


def test_a_missing_input_is_not_found() -> None:
    """A cleaned input is NotFound, with its path."""
    files = MemoryFiles()
    segments = written(files, [plain(5, 1), plain(5, 2)])
    files.delete(segments[0].path)
    with pytest.raises(NotFound, match=segments[0].path):
        run_minor(job(segments), files)


class FullAfter(MemoryFiles):
    """A store that is full after so many files."""

    def __init__(self, store: dict[str, bytes], files: int) -> None:
        super().__init__()
        self.store = store
        self.left = files

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Fail once the store is full."""
        self.left -= 1
        if self.left < 0:
            raise StorageFull(f"{path} does not fit")
        with super().create(path) as sink:
            yield sink


def test_a_failure_leaves_nothing() -> None:
    """If the third output fails, the first two are deleted."""
    files = MemoryFiles()
    segments = written(files, [plain(50, seed) for seed in range(4)])
    before = dict(files.store)
    with pytest.raises(StorageFull):
        run_minor(job(segments, 3), FullAfter(files.store, 2))
    assert files.store == before


def test_the_old_descriptor_is_replaced() -> None:
    """The output's footer has one descriptor, its own."""
    files = MemoryFiles()
    (result,) = run_minor(job(written(files, [plain(5, 1), plain(5, 2)])), files)
    entry = bytes([len(KEY)]) + KEY  # as Thrift has a string
    assert get(files, result.path).count(entry) == 1


def test_sliced_lineage() -> None:
    """A part of a lineage is cut at rows, not at runs."""
    one, two = segment_id(0), segment_id(1)
    runs = (Run(one, 0, 5), Run(two, 3, 5))
    assert sliced(runs, 0, 10) == runs
    assert sliced(runs, 3, 4) == (Run(one, 3, 2), Run(two, 3, 2))
    assert sliced(runs, 5, 2) == (Run(two, 3, 2),)
