"""Tables, files and jobs for the tests of data/."""

import io
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard
from airflow_provider_segtable.core.time import Granularity, parse_instant
from airflow_provider_segtable.data.jobs.concat import Grain, Piece, merge, read_input
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.ports.files import DataFiles

START = datetime(2013, 1, 1, tzinfo=UTC)
VERSION = parse_instant("2013-05-05")
MONTH = Granularity.MONTH.chunk(parse_instant("2013-01-01"))

MOVE = Grain(rows=1, size=1)
"""Everything is large enough to be moved."""
REWRITE = Grain(rows=1 << 40, size=1 << 60)
"""Nothing is."""


def segment_id(partition: int) -> SegmentId:
    return SegmentId(MONTH, VERSION, partition)


def plain(rows: int, seed: int = 0) -> pa.Table:
    """Make rows of a time, a number and a word."""
    randomness = random.Random(seed)
    return pa.table(
        {
            "at": pa.array(
                [START + timedelta(seconds=i) for i in range(rows)], pa.timestamp("us", "UTC")
            ),
            "number": pa.array([randomness.randrange(1 << 40) for _ in range(rows)]),
            "word": pa.array([randomness.choice("abc") * 3 for _ in range(rows)]),
        }
    )


def rich(rows: int, seed: int = 0) -> pa.Table:
    """Make rows of many types, nested ones and nulls among them."""
    randomness = random.Random(seed)

    def some(make: Any) -> list[Any]:
        return [None if randomness.random() < 0.2 else make() for _ in range(rows)]

    def pair() -> dict[str, Any]:
        return {
            "a": randomness.randrange(9),
            "b": [str(randomness.random())] * randomness.randrange(3),
        }

    number = pa.field("number", pa.int64(), nullable=False)
    columns = [
        (pa.field("at", pa.timestamp("us", "UTC")), plain(rows).column("at").to_pylist()),
        (number, [randomness.randrange(1 << 40) for _ in range(rows)]),
        (pa.field("small", pa.int8()), some(lambda: randomness.randrange(100))),
        (pa.field("word", pa.string()), some(lambda: randomness.choice(["x", "yy", "zzz"]))),
        (pa.field("text", pa.large_string()), some(lambda: str(randomness.random()))),
        (pa.field("raw", pa.binary()), some(lambda: randomness.randbytes(5))),
        (pa.field("fixed", pa.binary(4)), some(lambda: randomness.randbytes(4))),
        (pa.field("yes", pa.bool_()), some(lambda: randomness.random() < 0.5)),
        (pa.field("ratio", pa.float32()), some(lambda: float(randomness.randrange(8)))),
        (pa.field("money", pa.decimal128(12, 2)), some(lambda: Decimal(randomness.randrange(999)))),
        (pa.field("day", pa.date32()), some(lambda: date(2013, 1, randomness.randrange(1, 28)))),
        (pa.field("naive", pa.timestamp("ns")), some(lambda: START.replace(tzinfo=None))),
        (pa.field("milli", pa.timestamp("ms")), some(lambda: START.replace(tzinfo=None))),
        (
            pa.field("list", pa.list_(pa.int32())),
            some(lambda: [1, None, 3][: randomness.randrange(4)]),
        ),
        (pa.field("pair", pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})), some(pair)),
        (pa.field("map", pa.map_(pa.string(), pa.int64())), some(lambda: [("k", rows)])),
        (pa.field("nothing", pa.int64()), [None] * rows),
    ]
    arrays = [pa.array(values, field.type) for field, values in columns]
    return pa.table(arrays, schema=pa.schema([field for field, _ in columns]))


def written(files: DataFiles, tables: Sequence[pa.Table]) -> tuple[Segment, ...]:
    """Write tables as segments 0, 1, 2, ..."""
    return tuple(
        write_segment(
            files,
            table,
            segment_id=segment_id(partition),
            time_column="at",
            created=VERSION,
            token=f"{partition:016x}",
        )
        for partition, table in enumerate(tables)
    )


def job(segments: Sequence[Segment], outputs: int = 1, grain: Grain = MOVE) -> MinorJob:
    """Plan a minor compaction of segments into ``outputs`` segments 32768, 32769, ..."""
    shards = [
        Shard(
            partition=32768 + number,
            root_start=segments[0].shard.root_start,
            root_end=segments[-1].shard.root_end,
            minor_version=1 + max(segment.shard.minor_version for segment in segments),
            group_size=outputs,
        )
        for number in range(outputs)
    ]
    return MinorJob(
        uri="memory://unused",
        storage_options={},
        inputs=tuple(segments),
        outputs=tuple((segment_id(shard.partition), shard) for shard in shards),
        created=VERSION + 1,
        time_column="at",
        attempt="f" * 16,
        grain=grain,
    )


def content(files: DataFiles, segments: Sequence[Segment]) -> pa.Table:
    """Return the rows of segments one after another."""
    tables = []
    for segment in segments:
        with files.open(segment.path) as source:
            tables.append(pq.read_table(SourceFile(source)))
    return pa.concat_tables(tables)


def parquet(table: pa.Table, **options: Any) -> bytes:
    """Return a table as a Parquet file."""
    made = io.BytesIO()
    pq.write_table(table, made, **{"write_page_index": True, **options})
    return made.getvalue()


def put(files: DataFiles, path: str, data: bytes) -> str:
    """Write a file."""
    with files.create(path) as sink:
        sink.write(data)
        sink.commit()
    return path


def get(files: DataFiles, path: str) -> bytes:
    """Read a file."""
    with files.open(path) as source:
        return source.read_at(0, source.size)


def merged(
    files: DataFiles,
    paths: Sequence[str],
    out: str = "out.parquet",
    grain: Grain = MOVE,
    metadata: Mapping[bytes, bytes] | None = None,
) -> str:
    """Merge whole files, whoever wrote them."""
    pieces = []
    for path in paths:
        with files.open(path) as source:
            one = read_input(source, pieces[-1].input if pieces else None)
        pieces.append(Piece(input=one, first=0, end=one.footer.group_count))
    with files.create(out) as sink:
        merge(files, pieces, sink, metadata=metadata or {}, grain=grain)
        sink.commit()
    return out
