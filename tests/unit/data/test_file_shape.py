"""The shape of new files, and how much of a file is in memory while it is read or written."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.data.jobs.segment_writer import (
    FEW,
    VERY_FEW,
    dictionary_columns,
    unlike_numbers,
    write_segment,
)
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import Source
from tests.unit.data.making import VERSION, get, segment_id

ROWS = 3 * FEW


def rows(count: int = ROWS) -> pa.Table:
    """Make rows with numbers that repeat, and others that do not."""
    chance = np.random.default_rng(5)
    at = parse_instant("2013-01-01") + np.arange(count) * (DAY_US // count // 2)
    numbers = chance.integers(0, 2**60, count)
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "unlike": numbers,
            "kind": pa.array(numbers % 500, mask=numbers % 2 == 0),
            "text": pa.array(numbers.astype(str)),
            "nested": pa.array([{"n": n} for n in numbers.tolist()]),
        }
    )


def written(files: MemoryFiles, given: pa.Table | Iterator[pa.RecordBatch], most: int) -> pa.Table:
    return write_segment(
        files,
        given,
        segment_id=segment_id(7),
        time_column="at",
        created=VERSION,
        token="0" * 16,
        group_rows=most,
    )


def words(given: pa.Table) -> list[str] | bool:
    """Return the columns with a dictionary."""
    return dictionary_columns(given, unlike_numbers(given))


def test_dictionaries_of_values_that_repeat() -> None:
    """Text and nested columns have dictionaries, and numbers that repeat.

    Of few rows all columns have, and of very few no numbers.
    """
    assert unlike_numbers(rows()) == {"at", "unlike"}
    assert words(rows()) == ["kind", "text", "nested.n"]
    assert words(rows().drop_columns("nested")) == ["kind", "text"]
    assert words(rows(FEW)) is True
    assert words(rows(VERY_FEW).drop_columns("nested")) == ["text"]
    assert words(rows(VERY_FEW)) is True  # the paths of its columns cost more
    files = MemoryFiles()
    segment = written(files, rows(), ROWS)
    group = pq.read_metadata(pa.BufferReader(get(files, segment.path))).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    have = [chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page]
    assert have == ["kind", "text", "nested.n"]


def test_streams_fill_row_groups() -> None:
    """A stream of batches becomes full row groups, whatever the size of its batches."""
    files = MemoryFiles()
    segment = written(files, iter(rows(1000).to_batches(max_chunksize=70)), 100)
    meta = pq.read_metadata(pa.BufferReader(get(files, segment.path)))
    assert [meta.row_group(n).num_rows for n in range(meta.num_row_groups)] == [100] * 10


def test_one_row_group_is_in_memory() -> None:
    """While a stream is written, rows of earlier row groups are let go."""
    alive: list[weakref.ref[np.ndarray]] = []
    most = []

    def stream() -> Iterator[pa.RecordBatch]:
        for number in range(12):
            values = np.full(1000, parse_instant("2013-01-01") + number)
            alive.append(weakref.ref(values))
            at = pa.Array.from_buffers(
                pa.timestamp("us", "UTC"), 1000, [None, pa.py_buffer(values)]
            )
            del values
            yield pa.record_batch([at], names=["at"])
            del at
            most.append(sum(one() is not None for one in alive))

    written(MemoryFiles(), stream(), 1000)
    assert max(most) == 1


class CountedFiles(MemoryFiles):
    """Files that count the bytes that were read."""

    read = 0

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        with super().open(path) as source:
            yield CountedSource(source, self)


class CountedSource:
    """A source that counts the bytes that were read."""

    def __init__(self, source: Source, files: CountedFiles) -> None:
        """Read ``source``."""
        self.path, self.size = source.path, source.size
        self._source, self._files = source, files

    def read_at(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        self._files.read += length
        return self._source.read_at(offset, length)


def test_row_groups_are_loaded_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch of a file is there before its later row groups are loaded."""
    monkeypatch.setattr("airflow_provider_segtable.data.parquet.segment_scan.READ_AHEAD", 1)
    files = CountedFiles()
    given = rows().drop_columns("nested")
    segment = written(files, given, ROWS // 8)
    read = SegmentRead(files, segment, schema=given.schema, time_column="at", checked=False)
    found = read.batches()
    first = next(found)
    assert files.read < segment.size / 2
    assert pa.Table.from_batches([first, *found]).equals(given)
    assert files.read > segment.size * 0.9
