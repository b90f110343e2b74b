"""Checksums of data files: what is written, copied and read keeps to one chain from the log."""

import random
import zlib
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable
from airflow_provider_segtable.core.segment import FooterChecksum, Segment
from airflow_provider_segtable.data.jobs.concat import Grain
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.jobs.segment_writer import JOINED, joined_writes
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet import descriptor
from airflow_provider_segtable.data.parquet.descriptor import (
    BLOCK,
    CHECKSUMS_KEY,
    CheckedSource,
    ChecksumSink,
    SegmentFiles,
    check_footers,
    footer_checksum,
    read_descriptor,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from tests.unit.data.test_minor import job, plain, written

MOVED = Grain(rows=1, size=1)
"""Every row group passes through undecoded."""


def large(files: MemoryFiles, turns: int = 2) -> list[Segment]:
    """Write segments of several blocks each."""
    randomness = random.Random(1)
    tables = [
        plain(6_000, turn).append_column(
            "noise", pa.array([randomness.randbytes(60) for _ in range(6_000)])
        )
        for turn in range(turns)
    ]
    return written(files, tables)


def test_isal_and_zlib_agree() -> None:
    """A file may be written with one and read with the other."""
    data = random.Random(2).randbytes(10_000)
    assert descriptor.crc32(data, descriptor.crc32(b"before")) == zlib.crc32(
        data, zlib.crc32(b"before")
    )


def test_ranges_are_what_was_written() -> None:
    """Any range, across blocks and into the footer, in any order."""
    files = MemoryFiles()
    segment = large(files)[0]
    data = files.store[segment.path]
    assert segment.footer is not None
    assert segment.footer.start > 3 * BLOCK
    randomness = random.Random(3)
    with SegmentFiles(files, [segment]).open(segment.path) as source:
        for _ in range(300):
            start, end = sorted(randomness.randrange(len(data) + 1) for _ in range(2))
            assert source.read_at(start, end - start) == data[start:end]
        with pytest.raises(CorruptTable, match="truncated"):
            source.read_at(len(data) - 1, 2)


def test_the_body_ends_with_the_last_page() -> None:
    """So page indexes and footer are the tail, and nothing else is."""
    files = MemoryFiles()
    segment = large(files)[0]
    assert segment.footer is not None
    with files.open(segment.path) as source:
        footer = read_footer(source)
        last = max(group.extent[1] for group in footer.groups)
        assert segment.footer == footer_checksum(source, footer.metadata)
    assert segment.footer.start == last


def test_blocks_that_pass_through_keep_their_checksums() -> None:
    """Only the first block of an input is cut; the output's checksums are right all the same."""
    files = MemoryFiles()
    inputs = large(files)
    (output,) = run_minor(replace(job(inputs), grain=MOVED), files)
    assert read_descriptor(files, output.path) == output
    with SegmentFiles(files, [output]).open(output.path) as source:
        assert isinstance(source, CheckedSource)
        source.check()
    blocks = [table(files, each) for each in (*inputs, output)]
    assert blocks[2] - (blocks[0] | blocks[1]) < blocks[2]
    assert len(blocks[2] & (blocks[0] | blocks[1])) >= len(blocks[2]) - 4


def table(files: MemoryFiles, segment: Segment) -> set[bytes]:
    """Return the entries of a file's checksums."""
    import base64

    entry = pq.read_metadata(pa.BufferReader(files.store[segment.path])).metadata[CHECKSUMS_KEY]
    raw = base64.b64decode(entry)
    return {raw[at : at + 8] for at in range(0, len(raw), 8)}


def test_pages_that_pass_through_keep_parquets_checksums() -> None:
    """Readers of other engines notice a flipped page of a merged file."""
    files = MemoryFiles()
    (output,) = run_minor(replace(job(large(files)), grain=MOVED), files)
    data = bytearray(files.store[output.path])
    assert output.footer is not None
    data[output.footer.start // 2] ^= 1  # amid a page of noise
    reader = pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True)
    with pytest.raises(OSError, match="CRC"):
        reader.read()


def test_a_damaged_row_group_is_not_moved() -> None:
    """It is noticed when its bytes are copied, and nothing is left behind."""
    files = MemoryFiles()
    inputs = large(files)
    data = bytearray(files.store[inputs[1].path])
    data[len(data) // 2] ^= 16
    files.store[inputs[1].path] = bytes(data)
    before = dict(files.store)
    with pytest.raises(ChecksumMismatch, match=inputs[1].path):
        run_minor(replace(job(inputs), grain=MOVED), files)
    assert files.store == before


def test_files_of_older_versions_are_merged_as_they_are() -> None:
    """Without a checksum there is nothing to compare; what is written has one."""
    files = MemoryFiles()
    inputs = [replace(segment, footer=None) for segment in large(files)]
    (output,) = run_minor(replace(job(inputs), grain=MOVED), files)
    assert read_descriptor(files, output.path) == output
    check_footers(files, [*inputs, output])


@pytest.mark.parametrize("start", [0, -1, 10**9])
def test_a_footer_that_cannot_be_there_is_refused(start: int) -> None:
    """Whatever an event claims."""
    files = MemoryFiles()
    segment = replace(large(files, 1)[0], footer=FooterChecksum(start, 0))
    with (
        pytest.raises(ChecksumMismatch, match=segment.path),
        SegmentFiles(files, [segment]).open(segment.path),
    ):
        pass


def test_bytes_behind_the_body_are_the_tail() -> None:
    """Also those that are copied from another file."""
    files = MemoryFiles()
    with files.create("a") as plain_sink:
        sink = ChecksumSink(plain_sink)
        sink.write(b"body")
        sink.entry()
        sink.write(b"tail")
        sink.commit()
    with files.open("a") as source, files.create("b") as plain_sink:
        other = ChecksumSink(plain_sink)
        other.copy_from(source, 0, 4)
        other.entry()
        other.copy_from(source, 4, 4)
        assert other.footer == sink.footer == FooterChecksum(4, zlib.crc32(b"tail"))


def test_joined_writes_arrive_in_order_before_the_sink_is_used() -> None:
    """Small writes arrive together, a large one behind them; after the context nothing arrives."""
    files = MemoryFiles()
    large = b"d" * (JOINED + 1)
    with files.create("a") as sink:
        with joined_writes(sink) as file:
            for part in (b"a", b"b", b"c" * (JOINED - 2)):
                file.write(part)
            assert file.tell() == JOINED > sink.position
            file.write(large)
            file.flush()
            assert file.tell() == sink.position == 2 * JOINED + 1
            file.write(b"e")
        file.close()
        sink.commit()
    assert files.store["a"] == b"ab" + b"c" * (JOINED - 2) + large
