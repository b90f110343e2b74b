"""Files of primary-key tables: their names, their rows as runs, and the roots of their records.

1. Names say what RFC-66's say: ``<bucket>_<instant>.log.<version>_<token>.parquet`` for log files,
   ``<bucket>_<token>_<instant>.parquet`` for base files, below the folder of the time chunk. The
   token is unguessable, and every author has its own, so no two authors ever share a name.
2. The root of a record is the number in the id that its log file was written with: it is random,
   and stays the file's own wherever the log puts the file.
3. A log file's records have one root, its own, which its descriptor and its name describe. If its
   name has ``IN_ORDER`` for the instant, the log orders it: by the time of its commit. A file
   that compaction wrote has records of many; its footer describes them (``ROOTS``), as far as they
   occur in its rows.
4. All files are sorted by key, so a file is a run as it is. The files of a base are one run.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.merge.keyed_rows import with_root
from airflow_provider_segtable.data.merge.root_orders import SCHEMA, Root
from airflow_provider_segtable.data.parquet.metadata.footer import read_footer
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import DataFiles

ROOTS = b"segtable.roots"
IN_ORDER: Instant = 0
"""Stands, in the name of a log file, for the time of its commit."""
_LOG = re.compile(
    r"(?P<bucket>\d+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_(?P<token>\w+)\.parquet"
)


def log_path(segment_id: SegmentId, instant: Instant, version: int, token: str) -> str:
    """Return the path of a log file; ``version`` counts the files of one write in the bucket."""
    name = f"{segment_id.bucket}_{instant}.log.{version}_{token}.parquet"
    return f"data/{segment_id.interval.name}/{name}"


def base_path(segment_id: SegmentId, instant: Instant, token: str) -> str:
    """Return the path of a base file; the later-generation id tells those of one write apart."""
    name = f"{segment_id.bucket}_{segment_id.partition}-{token}_{instant}.parquet"
    return f"data/{segment_id.interval.name}/{name}"


def own_root(segment: Segment) -> Root:
    """Return the root that a log file is.

    Raises:
        CorruptTable: its name is not that of a log file.
    """
    found = _LOG.fullmatch(segment.path.rpartition("/")[2])
    if not found:
        raise CorruptTable(
            f"{segment.path} of segment {segment.id} is neither a log file by its name, nor does "
            "its footer describe its records: restore the file"
        )
    return Root(
        partition=segment.file_id.partition,
        instant=int(found["instant"]) or segment.completed,
        log_version=int(found["version"]),
        write_token=found["token"],
        completed=segment.completed,
    )


def roots_in(files: DataFiles, segments: Iterable[Segment]) -> pa.Table:
    """Return the roots of the records in some files, as a table of ``root_orders.SCHEMA``.

    The files are not checked here.
    """
    tables = [SCHEMA.empty_table()]
    for segment in (one for one in segments if one.rows):
        described = described_roots(files, segment)
        if described is None:
            own = own_root(segment)
            row = {name: [getattr(own, name)] for name in SCHEMA.names}
            described = pa.table(row, schema=SCHEMA)
        tables.append(described)
    return pa.concat_tables(tables)


def described_roots(files: DataFiles, segment: Segment) -> pa.Table | None:
    """Return the roots that a file's footer describes; None of a log file, which is its own root.

    Raises:
        CorruptTable: the entry of the footer is broken.
    """
    with files.open(segment.path) as source:
        entry = read_footer(source).metadata.get(ROOTS)
    return None if entry is None else _decoded(entry, segment)


def merged_roots(metadata: Mapping[bytes, bytes], segment: Segment) -> tuple[int, ...]:
    """Return the numbers of the roots that a footer describes; none of a log file.

    Raises:
        CorruptTable: the entry is broken.
    """
    entry = metadata.get(ROOTS)
    if entry is None:
        return ()
    numbers: list[int] = _decoded(entry, segment).column("partition").to_pylist()
    return tuple(numbers)


def roots_entry(roots: pa.Table) -> dict[bytes, bytes]:
    """Return the footer entry that describes the roots of a file's records."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(roots)
    return {ROOTS: base64.b64encode(sink.getvalue())}


def _decoded(entry: bytes, segment: Segment) -> pa.Table:
    try:
        with pa.ipc.open_stream(base64.b64decode(entry, validate=True)) as reader:
            found = reader.read_all()
        return found.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptTable(
            f"{segment.path} of segment {segment.id}: the footer's roots are broken ({error})"
        ) from None


def run_of(reads: Iterable[SegmentRead]) -> Iterator[pa.Table]:
    """Yield the rows of one run's files that match, with their roots.

    Args:
        reads: the files, in the order of their ids; a condition's columns are among those read.
    """
    for read in reads:
        for batch in read.batches():
            kept = batch if read.where is None else read.where.keep(batch)
            yield with_root(pa.Table.from_batches([kept]), read.segment.file_id.partition)
