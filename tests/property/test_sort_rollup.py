"""Sorting a rollup table rolls it up perfectly, however its rows were split before."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
from airflow_provider_segtable.core.time import ALL_TIME, Granularity, Interval, parse_instant
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.rollup.rollup_rows import from_input, visible
from airflow_provider_segtable.data.sort.sort_jobs import groups, noted
from airflow_provider_segtable.data.table_kinds import RollupArrow
from tests.examples import examples
from tests.property import rollup_model as model
from tests.unit.data.making import VERSION
from tests.unit.data.sort_making import sort, sort_key, spec

HOW = model.rollup()
DAYS = tuple(
    Granularity.DAY.chunks(Interval(parse_instant("2013-12-31"), parse_instant("2014-01-03")))
)


def split(files: MemoryFiles, rows: pa.Table, parts: int) -> tuple[Segment, ...]:
    """Write rows as appends would: each part rolled up for itself."""
    segments = []
    for number in range(parts):
        part = rows.take(pa.array(range(number, rows.num_rows, parts), pa.int64()))
        if part.num_rows:
            physical = from_input(part, HOW, time_column="at")
            written = write_segment(
                files,
                physical,
                segment_id=SegmentId(ALL_TIME, VERSION, number),
                time_column="at",
                created=VERSION,
                token=f"{number:016x}",
            )
            segments.append(replace(written, events=part.num_rows))
    return tuple(segments)


@examples(25)
@given(
    rows=model.rows(60).filter(lambda rows: rows.num_rows),
    parts=st.integers(1, 4),
    memory=st.sampled_from([20_000, 512 << 20]),
    target=st.sampled_from([4_000, 128 << 20]),
    intervals=st.sampled_from([(ALL_TIME,), DAYS]),
    order=st.sampled_from(["", "hour", "ratio,carrier", "zorder(carrier,hour)"]),
)
def test_sorting_rolls_up_perfectly(
    rows: pa.Table,
    parts: int,
    memory: int,
    target: int,
    intervals: tuple[Interval, ...],
    order: str,
) -> None:
    """Every group is one row, as plain Python has it, and all events are accounted for."""
    files = MemoryFiles()
    segments = split(files, rows, parts)
    what = spec(
        visible(from_input(rows, HOW, time_column="at")).schema,
        order,
        row_kind=RollupArrow(HOW),
        memory=memory,
        target_size=target,
        intervals=intervals,
    )
    results = sort(files, segments, what)
    tables = []
    for segment in results:
        with files.open(segment.path) as source:
            tables.append(pq.read_table(SourceFile(source)))
        assert sum(tables[-1].column(EVENTS).to_pylist()) == segment.events
    table = pa.concat_tables(tables)
    assert model.found(table, HOW) == model.expected(rows, HOW)
    assert table.num_rows == len(model.expected(rows, HOW))
    assert sum(segment.events for segment in results) == rows.num_rows
    if not order.startswith("zorder"):
        named = [name for name in order.split(",") if name]
        columns = [*named, *(name for name in HOW.dimensions if name not in named), "at"]
        for one in tables:
            keys = [sort_key(row, columns) for row in one.to_pylist()]
            assert keys == sorted(keys)


@pytest.mark.parametrize("distinct", [10, 3_000, 100_000])
def test_groups_are_counted_without_looking(distinct: int) -> None:
    """The number of groups in several runs is known within a third if there are many."""
    runs = [
        pa.table({"word": [f"w{n * 7 % distinct}" for n in range(start, start + 50_000)]})
        for start in (0, 30_000)
    ]
    found = [[hashes[hashes != 0] for hashes in (noted(run, ["word"]) for run in runs)]]
    true = len({word for run in runs for word in run.column("word").to_pylist()})
    (guess,) = groups([100_000.0], found)
    assert guess <= 100_000
    assert true < 3_000 or abs(guess - true) <= true / 3
