"""Sorting where rows are deleted: they are left out, all others keep order, address and place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import RowsOutOfBalance, SchemaMismatch
from airflow_provider_segtable.core.predicate import Among, Compare, Compares
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, roots_of
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.sort.sorting import sort_stages
from airflow_provider_segtable.data.table_kinds import RollupArrow
from tests.unit.data.making import MONTH, plain
from tests.unit.data.sort_making import (
    addresses,
    days,
    deleting,
    events,
    named,
    put_in,
    sort,
    spec,
    table_of,
)
from tests.unit.data.test_rollup_job import HOW, STORED, appended, physical

Rows = Mapping[int, Sequence[int]]


def left(files: MemoryFiles, results: Sequence[Segment]) -> list[tuple[int, int]]:
    return [one for segment in results for one in addresses(table_of(files, segment))]


@pytest.mark.parametrize("memory", [10_000, 512 << 20])
@pytest.mark.parametrize("again", [False, True])
def test_equal_keys_stay_in_order(memory: int, again: bool) -> None:  # noqa: FBT001
    """Rows of one key are cut anywhere, and follow one another as before, whatever is deleted."""
    files = MemoryFiles()
    rows = 1_200
    at = pa.array([plain(1).column("at")[0].as_py()] * rows, pa.timestamp("us", "UTC"))
    tables = [pa.table({"at": at, "key": pa.array([7] * rows)}) for _ in range(3)]
    given = put_in(files, tables)
    gone = {0: range(rows), 1: range(0, rows, 3), 2: range(150, 900)}
    what = spec(tables[0].schema, "key", memory=memory, target_size=1_000)
    if again:
        given = sort(files, given, replace(what, attempt="b" * 16))
    results = sort(
        files, given, replace(what, row_filters=deleting(given, gone), deletes_applied_through=9)
    )
    expected = [(r, n) for r in range(3) for n in range(rows) if n not in set(gone.get(r, ()))]
    assert left(files, results) == expected
    assert {segment.deletes_applied_through for segment in results} == {9}
    assert {segment.roots for segment in results} == {roots_of(given)}


def test_chunks_without_rows_get_no_segment() -> None:
    """A major compaction asks for none where all rows of a time chunk are deleted."""
    files = MemoryFiles()
    tables = [events(300, seed, days=4) for seed in range(2)]
    given = put_in(files, tables)
    second = days(2)[1]
    gone = {
        n: [i for i, at in enumerate(t.column("at").cast("int64").to_pylist()) if second.holds(at)]
        for n, t in enumerate(tables)
    }
    what = spec(tables[0].schema, "carrier", intervals=days(31), row_filters=deleting(given, gone))
    results = sort(files, given, what)
    assert [s.id.interval for s in results] == [days(4)[0], *days(4)[2:]]
    assert sum(s.rows for s in results) == 600 - sum(map(len, gone.values()))


@pytest.mark.parametrize("member", [False, True])
def test_nothing_left_is_one_empty_segment_or_none(member: bool) -> None:  # noqa: FBT001
    """Where a group needs a member it gets an empty one, also of inputs that are empty already."""
    files = MemoryFiles()
    tables = [events(50, seed) for seed in range(2)]
    given = put_in(files, tables)
    before = set(files.store)
    all_rows = deleting(given, {0: range(50), 1: range(50)})
    what = spec(
        tables[0].schema, "row", member=member, row_filters=all_rows, deletes_applied_through=5
    )
    results = sort(files, given, what)
    assert set(files.store) == before
    assert len(results) == member
    for one in results:
        assert (one.rows, one.events, one.path, one.size, one.roots) == (0, 0, "", 0, ())
        assert (one.time_min, one.time_max) == (MONTH.start, MONTH.end - 1)
        assert (one.deletes_applied_through, one.clustering) == (5, "row")
        assert sort(files, [one], what) == (one,)
        (mixed,) = sort(files, [one, given[1]], replace(what, row_filters={}))
        assert (mixed.rows, mixed.roots) == (50, roots_of([given[1]]))


def test_a_range_without_rows_is_an_empty_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a segment that was asked for get no row, it is empty, and there."""
    monkeypatch.setattr("airflow_provider_segtable.data.sort.sorting.DIRECT", 1e9)
    files = MemoryFiles()
    table = events(2_000, 1)
    given = put_in(files, [table])
    what = spec(table.schema, "row", target_size=5_000, deletes_applied_through=3, member=True)
    stages = sort_stages(what, given, named, files)
    jobs = stages.send([job.run(files) for job in next(stages)])
    row_filters = dict(enumerate(deleting(given, {0: range(2_000)}).values()))
    results = [replace(job, row_filters=row_filters).run(files) for job in jobs]
    empty = [segment for result in results for segment in result]
    assert len(empty) > 1
    assert {(one.rows, one.path, one.deletes_applied_through) for one in empty} == {(0, "", 3)}
    with pytest.raises(RowsOutOfBalance, match="0 rows out, 2000 rows in, 0 of these deleted"):
        stages.send(results)


def test_a_file_without_addresses_is_refused() -> None:
    """What the log calls untraced must tell its rows' addresses."""
    files = MemoryFiles()
    (segment,) = put_in(files, [events(50, 1)])
    with pytest.raises(SchemaMismatch, match=f"{ROOT}' is missing"):
        sort(files, [replace(segment, roots=roots_of([segment]))], spec(events(1, 1).schema, "row"))


def test_addresses_are_small() -> None:
    """Rows of some files, merged by time, take well under two bytes more each."""
    files = MemoryFiles()
    tables = [events(20_000, seed) for seed in range(4)]
    (result,) = sort(files, put_in(files, tables), spec(tables[0].schema, "carrier"))
    with files.open(result.path) as source:
        group = pq.read_metadata(SourceFile(source)).row_group(0)
    chunks = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert chunks[ROOT].has_dictionary_page
    assert "DELTA_BINARY_PACKED" in chunks[ROW].encodings
    size = chunks[ROOT].total_compressed_size + chunks[ROW].total_compressed_size
    assert size < 3 * group.num_rows


@pytest.mark.parametrize("memory", [2_000, 512 << 20])
def test_rollup_leaves_out_what_predicates_name(memory: int) -> None:
    """Rows that match are gone with their events; unknown is no match; files differ in it."""
    files = MemoryFiles()
    tables = [physical(number, "abcabd") for number in range(4)]
    given = appended(files, tables)
    a, late = Among("word", ("a",)), Compare("word", Compares.AT_LEAST, "d")
    row_filters = {
        given[0].id: RowFilter(predicates=(a,)),
        given[1].id: RowFilter(predicates=(a, late)),
        given[2].id: RowFilter(predicates=(Among("word", ("a", "b", "c", "d")),)),
    }
    what = spec(
        pa.schema([]),
        "",
        row_kind=RollupArrow(HOW),
        memory=memory,
        row_filters=row_filters,
        deletes_applied_through=4,
    )
    results = sort(files, given, replace(what, schema=STORED))
    found: dict[str, int] = {}
    for segment in results:
        with files.open(segment.path) as source:
            table = pq.read_table(SourceFile(source))
        assert ROOT not in table.column_names
        assert (segment.roots, segment.deletes_applied_through) == ((), 4)
        for row in table.to_pylist():
            found[row["word"]] = found.get(row["word"], 0) + row["__segtable_events"]
    assert found == {"a": 2, "b": 2 + 2 + 2, "c": 1 + 1 + 1, "d": 1 + 1}
    assert sum(segment.events for segment in results) == 13
    assert np.all([segment.rows for segment in results])
    everything = {one.id: RowFilter(predicates=(Among("word", tuple("abcd")),)) for one in given}
    last = replace(what, schema=STORED, row_filters=everything, member=True, attempt="c" * 16)
    (empty,) = sort(files, given, last)
    assert (empty.rows, empty.events, empty.path) == (0, 0, "")
