"""Sieves: rows by runs or by hidden columns, in any batches, against a naive reading."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.core.segment import ROOT, ROW, Run, SegmentId
from airflow_provider_segtable.data.row_filter import ROOT_TYPE, RowFilter, bits_of, hidden_of
from tests.support.builders import CHUNK, first

ROOTS = [CHUNK.segment(number) for number in range(3)]
Address = tuple[SegmentId, int]

runs = st.lists(
    st.builds(Run, st.sampled_from(ROOTS), st.integers(0, 20), st.integers(1, 6)), max_size=6
)
deleted = st.dictionaries(st.sampled_from(ROOTS), st.sets(st.integers(0, 25), min_size=1))
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def addresses(some: list[Run]) -> list[Address]:
    return [(run.root, run.start + n) for run in some for n in range(run.rows)]


def with_columns(given_rows: list[Address]) -> pa.RecordBatch:
    roots = pa.array([str(root) for root, _ in given_rows], pa.string()).cast(ROOT_TYPE)
    numbers = pa.array([number for _, number in given_rows], pa.int64())
    return pa.record_batch([roots, numbers], [ROOT, ROW])


def shown(batch: pa.RecordBatch) -> list[Address]:
    names, codes, numbers = hidden_of(batch)
    return [
        (SegmentId.parse(names[code]), int(number))
        for code, number in zip(codes, numbers, strict=True)
    ]


@given(runs, deleted, cuts)
def test_rows_are_kept_by_address_whoever_tells_it(
    some: list[Run], gone: dict[SegmentId, set[int]], steps: list[int]
) -> None:
    """By runs and by hidden columns, in batches of any size, the same rows are left."""
    every = addresses(some)
    left = [(root, number) for root, number in every if number not in gone.get(root, set())]
    bits = {str(root): bits_of(BitMap(rows).to_array()) for root, rows in gone.items()}
    by_runs, by_columns = RowFilter(runs=tuple(some), deleted=bits), RowFilter(deleted=bits)
    seen_by_runs: list[Address] = []
    seen_by_columns: list[Address] = []
    at = turn = 0
    while at < len(every):
        part = every[at : at + steps[turn % len(steps)]]
        plain = pa.record_batch({"x": list(range(len(part)))})
        if some:
            seen_by_runs += shown(by_runs.sifted(by_runs.addressed(plain, at), at))
        seen_by_columns += shown(by_columns.sifted(with_columns(part), at))
        at, turn = at + len(part), turn + 1
    assert seen_by_runs == seen_by_columns == left
    if some:
        assert by_runs.deleted_rows() == len(every) - len(left)


def test_a_sieve_reads_no_more_than_it_needs() -> None:
    """Hidden columns are read only where runs do not tell, and something is deleted."""
    bits = {str(ROOTS[0]): bits_of([1])}
    assert RowFilter(runs=(Run(ROOTS[0], 0, 5),), deleted=bits).reads == ()
    assert RowFilter().reads == ()
    assert RowFilter(deleted=bits).reads == (ROOT, ROW)
    predicates = (Compare("x", Compares.LESS, 1), Compare("x", Compares.MORE, 5))
    assert RowFilter(predicates=predicates).reads == ("x",)


def test_predicates_hold_back_what_they_hold_for() -> None:
    """In a rollup table a row goes if one of the predicates holds; unknown is not enough."""
    predicates = (Compare("x", Compares.LESS, 1), Compare("x", Compares.MORE, 5))
    rows = pa.table({"x": [0, 1, None, 6]})
    assert RowFilter(predicates=predicates).sifted(rows, 0).column("x").to_pylist() == [1, None]


def test_an_idle_sieve_lets_all_pass() -> None:
    """A segment without deletions is not filtered, and still has addresses."""
    row_filter = RowFilter.idle(first(0, rows=3))
    assert row_filter.passes_all
    assert row_filter.kept(pa.table({"x": [1, 2, 3]}), 0) is None
    found = row_filter.addressed(pa.record_batch({"x": [2, 3]}), 1)
    assert np.array_equal(found.column(ROW), [1, 2])
    assert set(found.column(ROOT).to_pylist()) == {str(ROOTS[0])}
