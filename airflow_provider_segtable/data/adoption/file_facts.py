"""What the footer of a Parquet file says, so far as an adoption depends on it.

1. One read of a file's tail answers everything, except where statistics are missing.
2. Columns have the types in which pyarrow reads them, which follow ``ARROW:schema`` if the writer
   left it. Their metadata has Parquet's field ids.
3. The bounds of a time column are those of its row groups' statistics. They are exact, because
   statistics of integers are. Without them, or without a count of nulls, the column itself is read.
4. A file that cannot be read as a whole has a ``problem`` instead: it is truncated, encrypted, or
   has parts that this segtable does not know.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.segment import FooterChecksum
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.local_files import make_durable
from airflow_provider_segtable.data.parquet.adopted_source import own_checksum
from airflow_provider_segtable.data.parquet.descriptor import KEY
from airflow_provider_segtable.data.parquet.footer import MAGIC, Footer, read_footer
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.data.rows import instants, is_time
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.storage import Entry

THREADS = 16

Report = Callable[[int, int], None]
"""Called with the number of files that were read, and of all."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """The first and last event time of a file, and whether some are null."""

    first: Instant
    last: Instant
    nulls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The facts about one file.

    Attributes:
        path: its path, relative to the table's root.
        size: its size in bytes.
        rows: its number of rows.
        row_groups: its number of row groups.
        columns: its columns, with field ids in their metadata.
        unlike: for columns that readers of Parquet disagree about, the reason.
        nulls: the number of nulls by column, where statistics have it.
        times: the bounds of the columns that may be the event time, where they are known.
        footer: the start and CRC-32 of its footer.
        descriptor: whether it has a descriptor: segtable wrote it.
        problem: why it cannot be read; empty if it can.
    """

    path: str
    size: int
    rows: int = 0
    row_groups: int = 0
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    unlike: Mapping[str, str] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, TimeBounds] = field(default_factory=dict)
    footer: FooterChecksum | None = None
    descriptor: bool = False
    problem: str = ""


def read_facts(files: DataFiles, entries: Iterable[Entry], report: Report) -> list[FileFacts]:
    """Read the footers of files, many at once."""
    return _each(lambda entry: file_facts(files, entry), [*entries], report)


def with_times(
    files: DataFiles, facts: Sequence[FileFacts], name: str, report: Report
) -> list[FileFacts]:
    """Return the facts with the bounds of a time column, read where statistics lack them."""
    lacking = [each for each in facts if _lacks(each, name)]
    found = {each.path: each for each in _each(lambda f: _timed(files, f, name), lacking, report)}
    return [found.get(each.path, each) for each in facts]


def settle_file(files: DataFiles, facts: FileFacts) -> str:
    """Make a file durable; return how it has changed since its facts were read, or nothing."""
    try:
        with files.open(facts.path) as source:
            if source.size != facts.size:
                return f"it had {facts.size} bytes, and now has {source.size}"
            if own_checksum(read_footer(source)) != facts.footer:
                return "it was written again meanwhile"
            make_durable(source)
    except SegtableError as error:
        return str(error)
    return ""


def file_facts(files: DataFiles, entry: Entry) -> FileFacts:
    """Read the footer of a file."""
    blank = FileFacts(path=entry.path, size=entry.size)
    try:
        with files.open(entry.path) as source:
            if source.size != entry.size:
                return replace(blank, problem="it is being written")
            footer = read_footer(source)
            if footer.foreign:
                return replace(blank, problem=f"it has parts that are not known: {footer.foreign}")
            return _facts(blank, footer)
    except (SegtableError, pa.ArrowException, OSError, ValueError) as error:
        return replace(blank, problem=str(error))


def _each(
    work: Callable[[Any], FileFacts], given: Sequence[Any], report: Report
) -> list[FileFacts]:
    found: list[FileFacts] = []
    with ThreadPoolExecutor(THREADS) as pool:
        for facts in pool.map(work, given):
            found.append(facts)
            report(len(found), len(given))
    return found


def _facts(blank: FileFacts, footer: Footer) -> FileFacts:
    tail = footer.data + len(footer.data).to_bytes(4, "little") + MAGIC
    metadata = pq.read_metadata(pa.BufferReader(tail))
    columns = metadata.schema.to_arrow_schema().remove_metadata()
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = _chunks(metadata.schema, [group for group in groups if group.num_rows])
    times = ((each, chunks.get(each.name)) for each in columns if is_time(each.type))
    return replace(
        blank,
        rows=footer.rows,
        row_groups=footer.group_count,
        columns=columns,
        unlike=dict(_unlike(metadata.schema, groups)),
        nulls={name: n for name, some in chunks.items() if (n := _nulls(some)) is not None},
        times={each.name: found for each, some in times if (found := _bounds(each, some or ()))},
        footer=own_checksum(footer),
        descriptor=KEY in footer.metadata,
    )


def _chunks(schema: pq.ParquetSchema, groups: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the column chunks of each flat column, by name."""
    leaves = [schema.column(number) for number in range(len(schema))]
    flat = {
        number: leaf.path
        for number, leaf in enumerate(leaves)
        if leaf.max_repetition_level == 0 and leaf.path == leaf.name
    }
    return {name: [group.column(number) for group in groups] for number, name in flat.items()}


def _nulls(chunks: Iterable[Any]) -> int | None:
    total = 0
    for chunk in chunks:
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return None
        total += found.null_count
    return total


def _bounds(column: "pa.Field[Any]", chunks: Sequence[Any]) -> TimeBounds | None:
    """Return the bounds of a time column; None if its statistics do not determine them."""
    found = [chunk.statistics for chunk in chunks]
    if pa.types.is_date64(column.type):
        return None
    if not found or any(s is None or not (s.has_min_max and s.has_null_count) for s in found):
        return None
    if any(s.physical_type not in ("INT64", "INT32") for s in found):
        return None
    raw = [min(s.min_raw for s in found), max(s.max_raw for s in found)]
    stored = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    first, last = instants(pa.array(raw, stored).view(column.type)).to_pylist()
    return TimeBounds(first, last, nulls=any(s.null_count for s in found))


def _unlike(schema: pq.ParquetSchema, groups: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns that readers read differently, or not at all."""
    for number in range(len(schema)):
        leaf = schema.column(number)
        name = leaf.path.partition(".")[0]
        if leaf.physical_type == "INT96":
            yield name, "is stored as INT96, which has no logical type"
        for group in groups:
            codec = group.column(number).compression
            if codec not in ("UNCOMPRESSED", "LZ4_RAW") and not pa.Codec.is_available(
                codec.lower()
            ):
                yield name, f"is compressed by {codec}, which cannot be read here"


def _lacks(facts: FileFacts, name: str) -> bool:
    known = name in facts.times or facts.problem or not facts.rows
    return not known and name in facts.columns.names and is_time(facts.columns.field(name).type)


def _timed(files: DataFiles, facts: FileFacts, name: str) -> FileFacts:
    try:
        with files.open(facts.path) as source:
            column = parquet_file(SourceFile(source)).read(columns=[name]).column(name)
    except (SegtableError, pa.ArrowException, OSError, ValueError) as error:
        return replace(facts, problem=str(error))
    bounds = pc.min_max(instants(column))
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is None:
        return replace(facts, problem=f"its column {name!r} has no value")
    found = TimeBounds(first, last, nulls=column.null_count > 0)
    return replace(facts, times={**facts.times, name: found})
