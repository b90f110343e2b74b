"""Minor compaction where rows are deleted, or where some inputs are traced and others not."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import StorageFull
from airflow_provider_segtable.core.predicate import Among
from airflow_provider_segtable.core.segment import ROOT, ROW, Roots, Segment, concatenated, roots_of
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.row_filter import RowFilter, with_addresses
from tests.unit.data.making import MONTH, REWRITE, content, get, job, plain, rich, written
from tests.unit.data.sort_making import addresses, deleting, sort, spec, table_of
from tests.unit.data.test_minor import FullAfter
from tests.unit.data.test_rollup_job import appended, physical
from tests.unit.data.test_rollup_job import job as rollup_job

SIZES = (10, 40, 30)
GONE = {0: range(10), 1: [0, 7, 39], 2: [29]}
ALL = {number: range(size) for number, size in enumerate(SIZES)}


def inputs(files: MemoryFiles) -> tuple[list[pa.Table], tuple[Segment, ...]]:
    tables = [rich(rows, rows) for rows in SIZES]
    return tables, written(files, tables)


def left(tables: list[pa.Table]) -> pa.Table:
    """Return what is not deleted, in order."""
    kept = [[row for row in range(n) if row not in GONE[at]] for at, n in enumerate(SIZES)]
    return pa.concat_tables(
        [t.take(pa.array(k, pa.int64())) for t, k in zip(tables, kept, strict=True)]
    )


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
def test_deleted_rows_are_left_out(outputs: int) -> None:
    """All other rows stay in order, each with its address; descriptors are exact."""
    files = MemoryFiles()
    tables, segments = inputs(files)
    work = replace(
        job(segments, outputs), row_filters=deleting(segments, GONE), deletes_applied_through=7
    )
    results = run_minor(work, files)
    assert [result.id for result in results] == [name for name, _ in work.outputs]
    held = [one for one in results if one.rows]
    got = content(files, held)
    assert got.schema == with_addresses(tables[0].schema)
    assert got.drop_columns([ROOT, ROW]).equals(left(tables))
    expected = [(r, n) for r, size in enumerate(SIZES) for n in range(size) if n not in GONE[r]]
    assert addresses(got) == expected
    for result in results:
        assert (result.deletes_applied_through, result.lineage) == (7, ())
    for result in held:
        assert read_descriptor(files, result.path) == result
        assert result.roots == roots_of(segments)
        at = table_of(files, result).column("at").cast("int64").to_pylist()
        assert (min(at), max(at)) == (result.time_min, result.time_max)


def test_what_deletes_nothing_here_lets_rows_pass_through() -> None:
    """A vector of rows that an input does not have costs nothing: lineage as ever."""
    files = MemoryFiles()
    _, segments = inputs(files)
    (_, half, _) = run_minor(job(segments[:2], 3), files)
    row_filters = deleting([half], {1: [0, 39]})
    assert not row_filters[half.id].passes_all
    (result,) = run_minor(
        replace(job([half]), row_filters=row_filters, deletes_applied_through=3, attempt="1" * 16),
        files,
    )
    assert (result.lineage, result.roots, result.deletes_applied_through) == (half.runs, (), 3)


def test_untraced_inputs_pass_through() -> None:
    """What has hidden columns already keeps them, undecoded, and names all their roots."""
    files = MemoryFiles()
    tables = [plain(60, 1), plain(50, 2)]
    one, two = (
        sort(files, [segment], spec(tables[0].schema, "word", attempt=f"{at:016x}"))[0]
        for at, segment in enumerate(written(files, tables), 7)
    )
    two = replace(
        two,
        id=replace(two.id, partition=1),
        origin=two.id,
        shard=replace(two.shard, partition=1, root_start=1, root_end=2, base=0),
    )
    (result,) = run_minor(job([one, two]), files)
    assert (result.roots, result.lineage) == (roots_of([one, two]), ())
    assert result.row_groups == one.row_groups + two.row_groups
    assert get(files, one.path)[4:200] in get(files, result.path)
    expected = [*addresses(table_of(files, one)), *addresses(table_of(files, two))]
    assert addresses(table_of(files, result)) == expected
    (again,) = run_minor(replace(job([one, two], grain=REWRITE), attempt="b" * 16), files)
    assert addresses(table_of(files, again)) == expected
    with files.open(again.path) as source:
        group = pq.read_metadata(SourceFile(source)).row_group(0)
    assert "DELTA_BINARY_PACKED" in group.column(group.num_columns - 1).encodings


def test_traced_and_untraced_inputs_become_untraced() -> None:
    """Addresses that only lineage told are written beside those that were written already."""
    files = MemoryFiles()
    segments = written(files, [plain(n, n) for n in (30, 20, 25)])
    (ordered,) = sort(files, segments[:1], spec(plain(1).schema, "word"))
    ordered = replace(ordered, origin=ordered.id, id=segments[0].id)
    (moved,) = run_minor(job(segments[1:]), files)
    (result,) = run_minor(replace(job([ordered, moved]), attempt="b" * 16), files)
    assert concatenated([result]) == ()
    assert result.roots == roots_of(segments)
    expected = [(1, n) for n in range(20)] + [(2, n) for n in range(25)]
    assert addresses(table_of(files, result))[30:] == expected
    assert addresses(table_of(files, result))[:30] == addresses(table_of(files, ordered))


def test_nothing_left_is_empty_segments() -> None:
    """A group has as many members as its shards say, empty ones; they are inputs of the next."""
    files = MemoryFiles()
    _, segments = inputs(files)
    before = set(files.store)
    work = replace(job(segments, 2), row_filters=deleting(segments, ALL), deletes_applied_through=7)
    results = run_minor(work, files)
    assert set(files.store) == before
    for one in results:
        assert (one.rows, one.events, one.path, one.roots, one.deletes_applied_through) == (
            0,
            0,
            "",
            (),
            7,
        )
        assert (one.time_min, one.time_max) == (MONTH.start, MONTH.end - 1)
    next_one = replace(job(results), inputs=results)
    assert [(one.rows, one.path) for one in run_minor(next_one, files)] == [(0, "")]


def test_what_is_replaced_is_in_the_first_file() -> None:
    """If the first output is empty, the next one's footer says what they stand for."""
    files = MemoryFiles()
    _, segments = inputs(files)
    gone = Roots(chunk=segments[0].id.chunk, spans=((0, 1),))
    given = (replace(segments[0], replaces=(gone,)), *segments[1:])
    work = replace(job(given, 3), row_filters=deleting(segments, GONE))
    _, second, third = run_minor(work, files)
    assert (second.replaces, third.replaces) == ((gone,), ())
    assert read_descriptor(files, second.path).replaces == (gone,)


@pytest.mark.parametrize("outputs", [1, 3])
def test_what_is_replaced_passes_through_with_the_rows(outputs: int) -> None:
    """Where no row is decoded, too, the first footer says what the inputs stand for."""
    files = MemoryFiles()
    _, segments = inputs(files)
    gone = Roots(chunk=segments[0].id.chunk, spans=((0, 1),))
    given = (replace(segments[0], replaces=(gone,)), *segments[1:])
    results = run_minor(job(given, outputs), files)
    footers = [read_descriptor(files, result.path).replaces for result in results]
    assert [result.replaces for result in results] == footers
    assert footers == [(gone,), *[()] * (outputs - 1)]


def test_a_failure_leaves_nothing() -> None:
    """Also if the outputs before it were empty."""
    files = MemoryFiles()
    _, segments = inputs(files)
    before = dict(files.store)
    work = replace(job(segments, 3), row_filters=deleting(segments, GONE))
    with pytest.raises(StorageFull):
        run_minor(work, FullAfter(files.store, 2))
    assert files.store == before


def gone(*words: str) -> RowFilter:
    return RowFilter(predicates=(Among("word", words),))


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_rollup_leaves_out_what_predicates_name(outputs: int) -> None:
    """Each input loses what its own erasures name; events count; a group stays whole."""
    files = MemoryFiles()
    given = appended(files, [physical(number, "abc") for number in range(3)])
    row_filters = {given[0].id: gone("a", "b"), given[1].id: gone("a", "b", "c")}
    done = replace(
        rollup_job(given, outputs), row_filters=row_filters, deletes_applied_through=6
    ).run(files)
    assert len(done) == outputs
    assert sum(one.events for one in done) == 4
    assert {one.deletes_applied_through for one in done} == {6}
    words = content(files, [one for one in done if one.rows]).column("word").to_pylist()
    assert sorted(set(words)) == ["a", "b", "c"]
    everything = dict.fromkeys((one.id for one in given), gone("a", "b", "c"))
    last = replace(rollup_job(given, outputs), row_filters=everything, attempt="c" * 16).run(files)
    assert [(one.rows, one.events, one.path) for one in last] == [(0, 0, "")] * outputs
    empties = tuple(
        replace(one, id=g.id, shard=g.shard) for one, g in zip(last, given[:outputs], strict=True)
    )
    again = rollup_job(empties, 1).run(files)
    assert [(one.rows, one.path) for one in again] == [(0, "")]
