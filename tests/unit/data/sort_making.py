"""Sorting in tests: inputs, specs, an oracle, and what every result must satisfy."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import (
    ROOT,
    ROW,
    Place,
    Segment,
    SegmentId,
    Shard,
    roots_of,
)
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.row_filter import RowFilter, bits_of, with_addresses
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort.sorting import SortSpec, run_stages, sort_stages
from airflow_provider_segtable.data.table_kinds import AppendArrow
from tests.unit.data.making import MONTH, VERSION, segment_id, written

ATTEMPT = "a" * 16


def named(counts: Mapping[Place, int]) -> dict[Place, tuple[tuple[SegmentId, Shard], ...]]:
    """Name outputs as a major compaction does: a core set for each time chunk."""
    return {
        place: tuple(
            (
                SegmentId(place.interval, VERSION + 1, p),
                Shard.first_generation(p, core=count, base=count),
            )
            for p in range(count)
        )
        for place, count in counts.items()
    }


def spec(schema: pa.Schema, order: str, **changes: Any) -> SortSpec:
    """Return what to sort, into one month unless told otherwise."""
    return SortSpec(
        **{  # type: ignore[arg-type]
            "uri": "memory://unused",
            "storage_options": {},
            "schema": from_arrow(schema),
            "time_column": "at",
            "order": Order.parse(order),
            "intervals": (MONTH,),
            "target_size": 128 << 20,
            "attempt": ATTEMPT,
            "created": VERSION + 1,
            "row_kind": AppendArrow(),
            **changes,
        }
    )


def sort(files: MemoryFiles, segments: Sequence[Segment], what: SortSpec) -> tuple[Segment, ...]:
    """Sort in this process."""
    return run_stages(sort_stages(what, segments, named, files), files)


def rows_of(files: MemoryFiles, segment: Segment) -> list[dict[str, Any]]:
    """Return a segment's rows, in the order of its file, without their addresses."""
    rows: list[dict[str, Any]] = table_of(files, segment).drop_columns([ROOT, ROW]).to_pylist()
    return rows


def table_of(files: MemoryFiles, segment: Segment) -> pa.Table:
    """Return all that a segment's file has."""
    with files.open(segment.path) as source:
        return pq.read_table(SourceFile(source))


def sort_key(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    """Return a row's key as Python compares it: nulls first, NaN last, minus zero is zero."""
    return tuple(_comparable(row[name]) for name in columns)


def _comparable(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def expected(
    tables: Sequence[pa.Table], order: Sequence[str], chunks: Sequence[Interval]
) -> list[dict[str, Any]]:
    """Return all rows as plain Python sorts them, with their addresses."""
    table = pa.concat_tables(
        [
            table.append_column(
                ROOT, pa.array([str(segment_id(number))] * table.num_rows)
            ).append_column(ROW, pa.array(range(table.num_rows)))
            for number, table in enumerate(tables)
        ]
    )
    times = instants(table.column("at")).to_pylist()
    rows = list(zip(times, table.to_pylist(), strict=True))

    def key(one: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
        chunk = next(n for n, chunk in enumerate(chunks) if chunk.holds(one[0]))
        return (chunk, sort_key(one[1], [*order, "at"]))

    return [row for _, row in sorted(rows, key=key)]


def same(left: Any, right: Any) -> bool:
    """Compare rows; NaN is NaN."""
    return repr(left) == repr(right)


def check(
    files: MemoryFiles,
    results: Sequence[Segment],
    tables: Sequence[pa.Table],
    what: SortSpec,
) -> None:
    """Assert that files and descriptors are what was asked for, of tables that were ``put_in``."""
    inputs = written(MemoryFiles(), tables)
    rows = [row for segment in results for row in table_of(files, segment).to_pylist()]
    assert same(rows, expected(tables, what.order.columns, what.intervals))
    for segment in results:
        assert read_descriptor(files, segment.path) == segment
        table = table_of(files, segment)
        assert table.schema == with_addresses(tables[0].schema)
        times = instants(table.column("at")).to_pylist()
        assert (min(times), max(times)) == (segment.time_min, segment.time_max)
        assert all(segment.id.interval.holds(at) for at in times)
        assert segment.size == len(files.store[segment.path])
        assert segment.clustering == str(what.order)
        assert not segment.lineage
        assert segment.roots == roots_of(inputs)
        assert segment.deletes_applied_through == what.deletes_applied_through
    left = files.store.keys() - {segment.path for segment in inputs}
    assert left == {segment.path for segment in results}


def events(rows: int, seed: int, *, days: int = 28) -> pa.Table:
    """Make rows of a few types over a month, with nulls, ties and a skewed key."""
    randomness = random.Random(seed)
    start = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    span = days * 86_400 * 1_000_000

    def some(make: Callable[[], Any]) -> list[Any]:
        return [None if randomness.random() < 0.1 else make() for _ in range(rows)]

    at = [start + randomness.randrange(span) // 3_600_000_000 * 3_600_000_000 for _ in range(rows)]
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "carrier": pa.array(
                some(lambda: randomness.choice(["AA", "B6", "DL", "é", ""])), pa.string()
            ),
            "flight": pa.array(some(lambda: randomness.randrange(-50, 50)), pa.int32()),
            "delay": pa.array(
                some(
                    lambda: randomness.choice([0.0, -0.0, 1.5, -7.25, float("nan"), float("inf")])
                ),
                pa.float64(),
            ),
            "tail": pa.array([f"N{randomness.randrange(10**6)}" for _ in range(rows)]),
            "row": pa.array([seed * 10_000_000 + row for row in range(rows)]),
            "late": pa.array([randomness.random() < 0.9 for _ in range(rows)]),
        }
    )


def days(count: int) -> tuple[Interval, ...]:
    """Return the first days of January."""
    return tuple(Granularity.DAY.chunks(MONTH))[:count]


def put_in(files: MemoryFiles, tables: Sequence[pa.Table]) -> tuple[Segment, ...]:
    """Write tables as segments."""
    return written(files, tables)


def deleting(
    segments: Sequence[Segment], rows: Mapping[int, Sequence[int]]
) -> dict[SegmentId, RowFilter]:
    """Return sieves that hold back rows of first-generation segments, by partition."""
    deleted = {str(segment_id(at)): bits_of(sorted(some)) for at, some in rows.items()}
    return {
        one.id: RowFilter(
            runs=one.runs,
            deleted={
                root: bits for root, bits in deleted.items() if one.may_hold(SegmentId.parse(root))
            },
        )
        for one in segments
    }


def addresses(table: pa.Table) -> list[tuple[int, int]]:
    """Return the root's partition and the row number of each row."""
    roots = [SegmentId.parse(root).partition for root in table.column(ROOT).to_pylist()]
    return list(zip(roots, table.column(ROW).to_pylist(), strict=True))
