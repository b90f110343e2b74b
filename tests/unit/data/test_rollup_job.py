"""Minor compaction of rollup tables: few segments, one row a group, the same events."""

import pickle
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    StorageError,
)
from airflow_provider_segtable.core.segment import Segment, Shard
from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    Metric,
    QueryGranularity,
    Rollup,
    bound,
    stored_schema,
)
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.rollup.rollup_rows import RollupJob, from_input, rolled_up
from tests.unit.data.making import START, content, segment_id

GIVEN = pa.schema([("at", pa.timestamp("us", "UTC")), ("word", pa.string()), ("n", pa.int64())])
HOW = bound(
    Rollup(
        dimensions=("word",),
        metrics=(Metric.parse("n=sum(n)"), Metric.parse("newest=last(n)")),
        query_granularity=QueryGranularity.HOUR,
    ),
    from_arrow(GIVEN),
    time_column="at",
    granularity=Granularity.MONTH,
)
STORED = stored_schema(HOW, from_arrow(GIVEN), time_column="at")


def physical(number: int, words: str = "abca") -> pa.Table:
    """Return the rolled-up rows of one append, of the given words."""
    rows = [
        {"at": START + timedelta(minutes=40 * at), "word": word, "n": number * 10 + at}
        for at, word in enumerate(words)
    ]
    return from_input(pa.Table.from_pylist(rows, GIVEN), HOW, time_column="at")


def appended(files: MemoryFiles, tables: list[pa.Table]) -> tuple[Segment, ...]:
    """Write a first-generation segment of each table."""
    return tuple(
        write_segment(
            files,
            table,
            segment_id=segment_id(number),
            time_column="at",
            created=1,
            token=f"{number:016x}",
        )
        for number, table in enumerate(tables)
    )


def job(inputs: tuple[Segment, ...], outputs: int = 1) -> RollupJob:
    """Return the job that compacts these into so many."""
    shards = [
        Shard(
            partition=32768 + number,
            root_start=0,
            root_end=len(inputs),
            minor_version=1,
            group_size=outputs,
        )
        for number in range(outputs)
    ]
    return RollupJob(
        uri="memory://rollup",
        storage_options={},
        inputs=inputs,
        outputs=tuple((segment_id(shard.partition), shard) for shard in shards),
        created=2,
        time_column="at",
        schema=STORED,
        rollup=HOW,
        attempt="f" * 16,
    )


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_adjacent_segments_become_few_and_rolled_up(outputs: int) -> None:
    """The outputs are the inputs rolled up, cut in order; descriptors tell rows and events."""
    files = MemoryFiles()
    tables = [physical(number) for number in range(4)]
    inputs = appended(files, tables)
    done = pickle.loads(pickle.dumps(job(inputs, outputs))).run(files)  # noqa: S301 - ours
    got = content(files, done)
    assert got.equals(rolled_up(pa.concat_tables(tables), HOW, time_column="at"))
    assert max(segment.rows for segment in done) <= min(segment.rows for segment in done) + 1
    assert sum(segment.events for segment in done) == 16
    assert [read_descriptor(files, segment.path) for segment in done] == list(done)
    assert [segment.lineage for segment in done] == [()] * outputs


def test_more_outputs_than_groups_are_filled_without_rolling_up() -> None:
    """One group and two outputs: the rows are divided, and the events still add up."""
    files = MemoryFiles()
    inputs = appended(files, [physical(1, "a"), physical(2, "a"), physical(3, "a")])
    done = job(inputs, 2).run(files)
    assert [segment.rows for segment in done] == [1, 2]
    assert sum(content(files, done).column(EVENTS).to_pylist()) == 3
    with pytest.raises(InvalidInput, match="3 rows cannot be divided among 4 outputs"):
        job(inputs, 4).run(files)


def test_an_input_that_is_not_what_the_log_says_is_named() -> None:
    """Another segment's file, or other numbers of rows or events, stop the job."""
    files = MemoryFiles()
    one, two = appended(files, [physical(1), physical(2)])
    with pytest.raises(CorruptTable, match=r"00001-.* says it is segment .*_1, the log says .*_0"):
        job((replace(one, path=two.path),)).run(files)
    with pytest.raises(CorruptTable, match=r"4 rows of 4 events.* has 4 of 9"):
        job((replace(one, events=9),)).run(files)


def test_a_failed_job_leaves_nothing() -> None:
    """If the second output cannot be written, the first is deleted."""

    class Full(MemoryFiles):
        def create(self, path: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
            if "32769" in path:
                raise StorageError(f"{path}: no space")
            return super().create(path)

    files = Full()
    inputs = appended(files, [physical(1), physical(2)])
    before = set(files.store)
    with pytest.raises(StorageError, match="no space"):
        job(inputs, 2).run(files)
    assert set(files.store) == before


def test_sketches_are_refused_by_name() -> None:
    """A table with sketches is compacted in Spark, and the error says so."""
    files = MemoryFiles()
    inputs = appended(files, [physical(1)])
    sketchy = replace(HOW, metrics=(*HOW.metrics, Metric.parse("words=hll(word)")))
    with pytest.raises(InvalidInput, match=r"words=hll\(word\) is a sketch, which only Spark"):
        replace(job(inputs), rollup=sketchy).run(files)


def test_what_it_costs_is_what_it_reads() -> None:
    """Cost and title are for whoever deals jobs out."""
    files = MemoryFiles()
    inputs = appended(files, [physical(1), physical(2)])
    assert job(inputs).cost == sum(segment.size for segment in inputs)
    assert job(inputs).title == "roll up 2 segments into 1"
