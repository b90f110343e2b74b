"""Ingest: what is refused, what is cast, and what a segment's file looks like."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, TimeOutOfRange
from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.row_checks import check_rows
from tests.unit.data.making import VERSION, content, get, plain, rich, segment_id, written

SCHEMA = plain(1).schema


def write(files: MemoryFiles, rows: Any, **options: Any) -> Any:
    return write_segment(
        files,
        rows,
        segment_id=segment_id(7),
        time_column="at",
        created=VERSION,
        token="0" * 16,
        **options,
    )


def test_a_segment_tells_what_was_written() -> None:
    """Rows, size, row groups and exact first and last event time are in the descriptor."""
    files = MemoryFiles()
    (segment,) = written(files, [rich(100)])
    assert (segment.rows, segment.row_groups, segment.lineage) == (100, 1, ())
    assert segment.size == len(files.store[segment.path])
    assert segment.time_min == parse_instant("2013-01-01")
    assert segment.time_max == parse_instant("2013-01-01T00:01:39")
    assert read_descriptor(files, segment.path) == segment
    assert content(files, [segment]).equals(rich(100))


def test_statistics_and_indexes_are_written() -> None:
    """Every column chunk has statistics and page indexes, compressed with zstd."""
    files = MemoryFiles()
    (segment,) = written(files, [plain(100)])
    meta = pq.read_metadata(pa.BufferReader(get(files, segment.path)))
    columns = [meta.row_group(0).column(n) for n in range(3)]
    assert all(c.is_stats_set and c.has_column_index and c.has_offset_index for c in columns)
    assert {c.compression for c in columns} == {"ZSTD"}


def test_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are cut at the row limit, for tables and for streams alike."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", 40)
    for rows in (plain(100), iter(plain(100).to_batches(max_chunksize=20))):
        files = MemoryFiles()
        segment = write(files, rows)
        meta = pq.read_metadata(pa.BufferReader(get(files, segment.path)))
        found = [meta.row_group(n).num_rows for n in range(meta.num_row_groups)]
        assert (found, segment.row_groups) == ([40, 40, 20], 3)
        assert content(files, [segment]).equals(plain(100))


def test_wide_rows_make_smaller_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are cut at the byte limit, too."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_BYTES", 1000)
    segment = write(MemoryFiles(), plain(1000))
    assert segment.row_groups > 10


def test_sorting_is_stable() -> None:
    """Rows of equal time keep their order."""
    files = MemoryFiles()
    rows = pa.concat_tables([plain(10, 1), plain(10, 2)])
    segment = write(files, rows, sort=True)
    pairs = zip(plain(10, 1).to_pylist(), plain(10, 2).to_pylist(), strict=True)
    assert content(files, [segment]).to_pylist() == [row for pair in pairs for row in pair]


def test_no_rows_are_refused() -> None:
    """A segment without rows is refused, and nothing is written."""
    files = MemoryFiles()
    for rows in (plain(0), iter(plain(0).to_batches())):
        with pytest.raises(InvalidInput, match="no rows"):
            write(files, rows)
    assert not files.store


def test_a_late_bad_row_leaves_nothing() -> None:
    """A null time in the last batch of a stream leaves no file; the row's number is global."""
    files = MemoryFiles()
    bad = plain(3).set_column(
        0, SCHEMA.field("at"), pa.array([0, None, 0], SCHEMA.field("at").type)
    )
    stream = [*plain(10).to_batches(), *bad.to_batches()]
    with pytest.raises(TimeOutOfRange, match=r"row 11 \(from 0\): event time at is null"):
        write(files, iter(stream))
    assert not files.store


def test_rows_outside_the_chunk_are_refused() -> None:
    """A segment takes rows of its own time chunk only."""
    far = pa.array([parse_instant("2013-02-01")], SCHEMA.field("at").type)
    with pytest.raises(TimeOutOfRange, match="2013-02-01T00:00:00Z is outside"):
        write(MemoryFiles(), plain(1).set_column(0, SCHEMA.field("at"), far))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (plain(3).drop_columns(["word"]), "column 'word' is missing: the table has it as string"),
        (plain(3).append_column("more", pa.array([1, 2, 3])), r"column 'more' \(int64\) is not in"),
        (
            plain(3).set_column(1, "number", pa.array(["1", "2", "3"])),
            "column 'number': expected int64, found string",
        ),
        (
            plain(3).set_column(1, "number", pa.array([1.5, 2.0, 3.0])),
            "column 'number': expected int64, found double",
        ),
        (
            plain(3).append_column("word", plain(3).column("word")),
            "column 'word' occurs 2 times",
        ),
        (plain(3).append_column("at", plain(3).column("at")), "column 'at' occurs 2 times"),
        (
            plain(3).set_column(0, "at", pa.array([1, 2, 3])),
            r"column 'at': expected timestamp\[us, tz=UTC\], found int64",
        ),
        (
            plain(3).set_column(0, "at", pa.array([1, 2, 3]).cast(pa.timestamp("ns"))),
            "column 'at': .* casting would lose data",
        ),
    ],
)
def test_mismatches_name_column_and_types(rows: pa.Table, says: str) -> None:
    """A wrong schema is refused with the column, the expected and the found type."""
    with pytest.raises(SchemaMismatch, match=says):
        check_rows(rows, SCHEMA, "at")


def test_a_null_in_a_required_column_is_refused() -> None:
    """A column that is not null in the table must have no nulls; the row is named."""
    schema = SCHEMA.set(1, pa.field("number", pa.int64(), nullable=False))
    rows = plain(3).set_column(1, "number", pa.array([1, None, 3]))
    with pytest.raises(
        SchemaMismatch, match="'number' is not null in the table, but row 1 \\(from 0\\) is"
    ):
        check_rows(rows, schema, "at")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("s"), 2**40),
        (pa.timestamp("us"), 2**62),
        (pa.timestamp("ms", "UTC"), -(2**60)),
    ],
)
def test_absurd_times_name_row_and_value(kind: pa.DataType, value: int) -> None:
    """A time outside the years 1 to 9998 is refused with row and value, whatever its unit."""
    rows = plain(3).set_column(0, "at", pa.array([0, 0, value]).cast(kind))
    with pytest.raises(TimeOutOfRange, match=rf"row 2 \(from 0\): event time at is {value} "):
        check_rows(rows, SCHEMA, "at")


def test_null_times_are_refused() -> None:
    """A null time is refused with its row."""
    rows = plain(3).set_column(0, "at", pa.array([0, None, 0]).cast(pa.timestamp("us")))
    with pytest.raises(TimeOutOfRange, match=r"row 1 \(from 0\): event time at is null"):
        check_rows(rows, SCHEMA, "at")


Change = Callable[[pa.Table], pa.Table]


def test_whole_decimals_are_large_unsigned_integers() -> None:
    """Spark holds uint64 as decimal(20, 0); what is no such integer is refused."""
    schema = pa.schema([("at", pa.timestamp("us")), ("large", pa.uint64())])
    at, most = pa.array([0, 1]).cast(pa.timestamp("us")), Decimal(2**64 - 1)
    given = pa.table({"at": at, "large": pa.array([most, None], pa.decimal128(20, 0))})
    assert check_rows(given, schema, "at")["large"].to_pylist() == [2**64 - 1, None]
    for wrong in (pa.array([Decimal(-1), None]), pa.array([Decimal("1.5"), None])):
        with pytest.raises(SchemaMismatch, match="'large': expected uint64"):
            check_rows(given.set_column(1, "large", wrong), schema, "at")


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.select(["word", "at", "number"]),
        lambda t: t.set_column(1, "number", t.column("number").cast(pa.uint64())),
        lambda t: t.set_column(2, "word", t.column("word").dictionary_encode()),
        lambda t: t.set_column(2, "word", t.column("word").cast(pa.large_string())),
        lambda t: t.set_column(0, "at", t.column("at").cast(pa.timestamp("ns", "UTC"))),
        lambda t: t.set_column(0, "at", t.column("at").cast(pa.timestamp("s"))),
    ],
)
def test_representations_are_cast(change: Change) -> None:
    """What means the same is cast: order, width, encoding and unit do not matter."""
    assert check_rows(change(plain(5)), SCHEMA, "at").equals(plain(5))


@pytest.mark.parametrize(
    "times",
    [
        pa.nulls(2),
        pa.array([0, None], pa.timestamp("us", "UTC")).dictionary_encode(),
        pa.array([0, 2**53], pa.timestamp("ms", "UTC")).dictionary_encode(),
    ],
)
def test_no_event_time_is_missing_in_whatever_form_it_comes(times: pa.Array) -> None:
    """Nulls without a type, and encoded times, are refused by the check that log writers use."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(TimeOutOfRange, match=r"row \d \(from 0\): event time at is "):
        check_rows(pa.table([times], names=["at"]), schema, "at")
