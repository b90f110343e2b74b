"""The sort kernel: sizes, skew, what it reads, and what is left after a fault."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    NotFound,
    RowsOutOfBalance,
    SegtableError,
)
from airflow_provider_segtable.core.segment import Roots, Segment, SegmentId, Shard, tombstone
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.sort.blocks import FOLDER
from airflow_provider_segtable.data.sort.sort_jobs import GatherJob, ScatterJob
from airflow_provider_segtable.data.sort.sorting import SortStages, discard, run_stages, sort_stages
from tests.unit.data.making import MONTH, rich, segment_id
from tests.unit.data.sort_making import (
    check,
    days,
    events,
    named,
    put_in,
    rows_of,
    sort,
    sort_key,
    spec,
    table_of,
)

START = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def plenty(rows: int, seed: int, share: float = 0.0) -> pa.Table:
    """Make many rows quickly; ``share`` of them have the same key."""
    randomness = np.random.default_rng(seed)
    keys = randomness.integers(0, 1000, rows)
    keys[randomness.random(rows) < share] = 500
    return pa.table(
        {
            "at": pa.array(
                START + randomness.integers(0, 28 * 86_400_000_000, rows), pa.timestamp("us", "UTC")
            ),
            "key": keys,
            "word": pa.array([f"w{n:03d}" for n in range(300)]).take(
                pa.array(randomness.integers(0, 300, rows))
            ),
            "value": randomness.normal(size=rows),
        }
    )


def ends_of(files: MemoryFiles, segment: Segment, columns: list[str]) -> tuple[tuple, tuple]:
    """Return the keys of a segment's first and last row."""
    table = table_of(files, segment)
    first, last = table.take([0, table.num_rows - 1]).to_pylist()
    return sort_key(first, columns), sort_key(last, columns)


SHARES, MEMORIES = (0.0, 0.9), (2 << 20, 512 << 20)
ORDERS = ("key", "word,key", "", "zorder(word,key)")
SIZED = [
    pytest.param(SHARES[share], MEMORIES[memory], ORDERS[order], marks=marks)
    for order, memory, share in product(range(4), range(2), range(2))
    for marks in [[pytest.mark.long] * ((order + memory + share) % 2)]
]
"""Every order with either memory and with either share; all three at once in a long run."""


@pytest.mark.parametrize(("share", "memory", "order"), SIZED)
def test_segments_have_about_the_target_size(share: float, memory: int, order: str) -> None:
    """With enough data each segment has 0.75 to 1.8 times the target, however skewed the key."""
    files = MemoryFiles()
    tables = [plenty(20_000, seed, share) for seed in range(4)]
    what = spec(tables[0].schema, order, memory=memory, target_size=200_000)
    results = sort(files, put_in(files, tables), what)
    assert len(results) >= 3
    assert all(0.75 <= segment.size / 200_000 <= 1.8 for segment in results)
    assert sum(segment.rows for segment in results) == 80_000


@pytest.mark.parametrize("memory", [1 << 20, 512 << 20])
@pytest.mark.parametrize("order", [["key"], ["word", "key"], ["value"]])
def test_segments_do_not_overlap(memory: int, order: list[str]) -> None:
    """No value of the order is in two segments unless it is larger than a segment."""
    files = MemoryFiles()
    tables = [plenty(10_000, seed) for seed in range(3)]
    what = spec(tables[0].schema, ",".join(order), memory=memory, target_size=75_000)
    results = sort(files, put_in(files, tables), what)
    assert len(results) > 3
    for left, right in pairwise(results):
        assert ends_of(files, left, order)[1] < ends_of(files, right, order)[0]


def test_a_value_larger_than_a_segment_is_cut_by_time() -> None:
    """One key of 90 % is in several segments, and their times follow one another."""
    files = MemoryFiles()
    tables = [plenty(20_000, seed, 0.9) for seed in range(3)]
    what = spec(tables[0].schema, "key", target_size=150_000)
    results = sort(files, put_in(files, tables), what)
    for left, right in pairwise(results):
        assert ends_of(files, left, ["key", "at"])[1] < ends_of(files, right, ["key", "at"])[0]


@pytest.mark.parametrize("memory", [200_000, 512 << 20])
def test_equal_keys_can_be_cut_and_stay_in_order(memory: int) -> None:
    """Rows all equal in key and time make segments too, in the order of the inputs."""
    files = MemoryFiles()
    rows = 20_000
    tables = [
        pa.table(
            {
                "at": pa.array([START] * rows, pa.timestamp("us", "UTC")),
                "key": pa.array([7] * rows),
                "row": np.random.default_rng(part).permutation(rows) + part * rows,
            }
        )
        for part in range(3)
    ]
    what = spec(tables[0].schema, "key", memory=memory, target_size=30_000)
    results = sort(files, put_in(files, tables), what)
    assert len(results) > 2
    got = [row["row"] for segment in results for row in rows_of(files, segment)]
    assert got == pa.concat_tables(tables).column("row").to_pylist()


def jobs_of(stages: SortStages, files: MemoryFiles) -> tuple[list[list], tuple[Segment, ...]]:
    """Run stages and return their jobs too, each sent through pickle."""
    seen: list[list] = []
    jobs = next(stages)
    try:
        while True:
            seen.append(jobs)
            jobs = stages.send(
                [pickle.loads(pickle.dumps(job)).run(files) for job in jobs]  # noqa: S301
            )
    except StopIteration as stop:
        return seen, stop.value


def test_little_memory_means_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs larger than memory are parted into runs, which are gone afterwards."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", 2_000)
    files = MemoryFiles()
    tables = [plenty(8_000, seed) for seed in range(3)]
    segments = put_in(files, tables)
    what = spec(tables[0].schema, "key", memory=200_000, target_size=60_000, parallelism=3)
    stages = sort_stages(what, segments, named, files)
    seen, results = jobs_of(stages, files)
    kinds = [{type(job) for job in jobs} for jobs in seen]
    assert kinds[1:] == [{ScatterJob}, {GatherJob}]
    runs = {run.path for job in seen[2] for run in job.runs}
    assert len(runs) >= 10
    assert all(path.startswith(f"{FOLDER}/{what.attempt}/") for path in runs)
    assert not runs & files.store.keys()
    check(files, results, tables, what)


def test_sorted_inputs_are_gathered_without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where row groups follow the order, each is read about once, straight from the inputs."""
    files = MemoryFiles()
    tables = [plenty(40_000, seed) for seed in range(3)]
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.sorted_writer.SORTED_ROWS", 2_000)
    first = sort(files, put_in(files, tables), spec(tables[0].schema, "key", target_size=10**9))
    what = spec(tables[0].schema, "key", target_size=300_000, memory=2 << 20, attempt="b" * 16)
    seen, results = jobs_of(sort_stages(what, first, named, files), files)
    assert {type(job) for job in seen[1]} == {GatherJob}
    read = sum(len(job.blocks) for job in seen[1])
    assert read <= 1.5 * first[0].row_groups
    assert sum(segment.rows for segment in results) == 120_000


def test_time_chunks_without_rows_get_no_segment() -> None:
    """Of many target chunks only those with rows are asked for, and each holds its own rows."""
    files = MemoryFiles()
    tables = [events(200, seed, days=3) for seed in range(3)]
    hours = tuple(Granularity.HOUR.chunks(MONTH))
    what = spec(tables[0].schema, "carrier", intervals=hours)
    results = sort(files, put_in(files, tables), what)
    check(files, results, tables, what)
    assert 1 < len(results) <= 72


def test_a_row_outside_all_chunks_is_an_error() -> None:
    """Rows that no target chunk holds are not dropped: nothing is written."""
    files = MemoryFiles()
    tables = [events(200, 1)]
    segments = put_in(files, tables)
    before = set(files.store)
    for intervals in (days(5), days(1)):
        with pytest.raises(RowsOutOfBalance):
            sort(files, segments, spec(tables[0].schema, "carrier", intervals=intervals))
    assert set(files.store) == before


def test_no_more_segments_than_there_are_ids() -> None:
    """With a bound on their number segments become larger."""
    files = MemoryFiles()
    tables = [plenty(20_000, 1)]
    what = spec(tables[0].schema, "key", target_size=20_000, most=3)
    results = sort(files, put_in(files, tables), what)
    assert len(results) == 3


def test_tombstones_are_skipped() -> None:
    """Inputs without rows have no file and count for nothing; only those give nothing."""
    files = MemoryFiles()
    tables = [events(50, 1)]
    hole = tombstone(segment_id(9).chunk, 1)
    what = spec(tables[0].schema, "carrier")
    check(files, sort(files, (hole, *put_in(files, tables)), what), tables, what)
    assert sort(files, (hole,), what) == ()


def test_a_carried_over_segment_is_known_by_its_origin() -> None:
    """The footer names the id that a file was written under."""
    files = MemoryFiles()
    tables = [events(50, 1)]
    (segment,) = put_in(files, tables)
    moved = replace(
        segment,
        id=segment_id(5),
        shard=replace(segment.shard, partition=5, root_start=5, root_end=6),
        origin=segment.id,
    )
    assert sort(files, (moved,), spec(tables[0].schema, ""))
    with pytest.raises(CorruptTable, match="says it is segment"):
        sort(files, (replace(moved, origin=segment_id(7)),), spec(tables[0].schema, ""))


def test_the_first_segment_of_each_chunk_says_what_it_replaces() -> None:
    """What a new version stands for is written where it concerns the chunk."""
    files = MemoryFiles()
    tables = [events(300, 1)]
    segments = put_in(files, tables)
    gone = Roots(chunk=segments[0].id.chunk, spans=((0, 1),))
    what = spec(tables[0].schema, "", intervals=days(31), replaces=(gone,))
    assert {segment.replaces for segment in sort(files, segments, what)} == {(gone,)}


def test_hidden_columns_go_along() -> None:
    """Columns that readers never see are kept; a file without an event count counts its rows."""
    files = MemoryFiles()
    plain = events(50, 1)
    counted = events(50, 2).append_column("__segtable_events", pa.array([3] * 50))
    segments = put_in(files, [plain, counted])
    (result,) = sort(files, segments, spec(plain.schema, "row"))
    table = table_of(files, result)
    assert table.column("__segtable_events").to_pylist() == [1] * 50 + [3] * 50


@pytest.mark.parametrize("order", ["nothing_there", "list", "pair", "zorder(word,map)"])
def test_orders_that_cannot_be_are_refused_first(order: str) -> None:
    """Unknown and nested columns are named before anything is read."""
    with pytest.raises(InvalidInput):
        sort(MemoryFiles(), (), spec(rich(1).schema, order))


def test_columns_of_few_words_are_bounded_by_their_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row group's statistics tell its words, not all that its file has."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.sorted_writer.SORTED_ROWS", 1_000)
    files = MemoryFiles()
    tables = [plenty(10_000, 1)]
    (result,) = sort(files, put_in(files, tables), spec(tables[0].schema, "word"))
    with files.open(result.path) as source:
        metadata = pq.read_metadata(SourceFile(source))
    stats = [metadata.row_group(at).column(2).statistics for at in range(10)]
    assert all(left.max <= right.min for left, right in pairwise(stats))
    assert stats[0].min != stats[-1].max


Named = Mapping[Interval, tuple[tuple[SegmentId, Shard], ...]]
Break = Callable[[MemoryFiles, Segment], Segment | None]


def shorten(files: MemoryFiles, segment: Segment) -> None:
    files.store[segment.path] = files.store[segment.path][:-1]


def garble_footer(files: MemoryFiles, segment: Segment) -> None:
    data = bytearray(files.store[segment.path])
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[start : start + 64] = bytes(64)
    files.store[segment.path] = bytes(data)


def garble_data(files: MemoryFiles, segment: Segment) -> None:
    data = bytearray(files.store[segment.path])
    data[4:2000] = bytes(1996)
    files.store[segment.path] = bytes(data)


def remove(files: MemoryFiles, segment: Segment) -> None:
    files.delete(segment.path)


def other_rows(_: MemoryFiles, segment: Segment) -> Segment:
    return replace(segment, rows=segment.rows + 1, events=-1)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (shorten, CorruptTable),
        (garble_footer, CorruptTable),
        (garble_data, CorruptTable),
        (remove, NotFound),
        (other_rows, CorruptTable),
    ],
)
@pytest.mark.parametrize("memory", [100_000, 512 << 20])
def test_a_broken_input_leaves_nothing_behind(
    spoil: Break, error: type[SegtableError], memory: int
) -> None:
    """The error says what is broken, and no run and no segment remains."""
    files = MemoryFiles()
    tables = [plenty(5_000, seed) for seed in range(3)]
    segments = list(put_in(files, tables))
    segments[1] = spoil(files, segments[1]) or segments[1]
    before = set(files.store)
    with pytest.raises(error, match=segments[1].path):
        sort(files, segments, spec(tables[0].schema, "key", memory=memory, target_size=50_000))
    assert set(files.store) == before


def test_an_input_lost_after_the_survey_leaves_nothing_behind() -> None:
    """What jobs had written before another failed is removed through their results."""
    files = MemoryFiles()
    tables = [plenty(5_000, seed) for seed in range(4)]
    segments = put_in(files, tables)
    what = spec(tables[0].schema, "key", memory=100_000, target_size=50_000)
    stages = sort_stages(what, segments, named, files)
    jobs = stages.send([job.run(files) for job in next(stages)])
    files.delete(segments[3].path)
    before = set(files.store)
    results = [job.run(files) for job in jobs[:-1]]
    with pytest.raises(NotFound):
        jobs[-1].run(files)
    stages.close()
    discard(files, results)
    assert set(files.store) == before


def test_a_lost_run_leaves_nothing_behind() -> None:
    """If gathering fails, the segments written so far and all runs are removed."""
    files = MemoryFiles()
    tables = [plenty(5_000, seed) for seed in range(4)]
    segments = put_in(files, tables)
    before = set(files.store)

    def losing(counts: Mapping[Interval, int]) -> Named:
        last = max(path for path in files.store if path.startswith(FOLDER))
        files.delete(last)
        return named(counts)

    what = spec(tables[0].schema, "key", memory=100_000, target_size=50_000)
    with pytest.raises(NotFound):
        run_stages(sort_stages(what, segments, losing, files), files)
    assert set(files.store) == before


def test_books_that_do_not_balance_are_an_error() -> None:
    """If a result loses rows, nothing is left of any."""
    files = MemoryFiles()
    tables = [plenty(5_000, 1)]
    segments = put_in(files, tables)
    before = set(files.store)
    stages = sort_stages(spec(tables[0].schema, "key"), segments, named, files)
    jobs = stages.send([job.run(files) for job in next(stages)])
    results = [job.run(files) for job in jobs]
    lost = [tuple(replace(s, rows=s.rows - 1, events=-1) for s in result) for result in results]
    with pytest.raises(RowsOutOfBalance, match="4999 rows out, 5000 rows in, 0 of"):
        stages.send(lost)
    discard(files, results)
    assert set(files.store) == before
