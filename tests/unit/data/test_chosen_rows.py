"""Row filters that choose rows by address, on files with several row groups."""

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.segment import ROOT, ROW, Run
from airflow_provider_segtable.data.row_filter import RowFilter, RowSets, bits_of
from tests.support.builders import CHUNK

OLD, NEW = CHUNK.segment(0), CHUNK.segment(1)
RUNS = (Run(OLD, 0, 4), Run(NEW, 0, 3), Run(OLD, 4, 2))


def kept(row_filter: RowFilter, first: int, count: int) -> list[int]:
    """Return which rows of the file are left of some of them."""
    every = pa.table({"n": range(first, first + count)})
    found: list[int] = row_filter.sifted(every, first).column("n").to_pylist()
    return found


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({str(NEW): None}, [4, 5, 6]),
        ({str(OLD): None}, [0, 1, 2, 3, 7, 8]),
        ({str(OLD): bits_of([1, 5])}, [1, 8]),
        ({str(NEW): bits_of([2]), str(OLD): bits_of([0])}, [0, 6]),
        ({}, []),
        (None, [*range(9)]),
    ],
)
def test_rows_are_chosen_by_runs_or_by_columns(chosen: RowSets | None, left: list[int]) -> None:
    """Both ways choose the same rows, wherever a batch begins."""
    by_runs = RowFilter(runs=RUNS, chosen=chosen)
    for first in range(9):
        for count in range(10 - first):
            expected = [row for row in left if first <= row < first + count]
            assert kept(by_runs, first, count) == expected
            assert by_runs.may_keep(first, count) == (bool(expected) or not count)
    assert by_runs.deleted_rows() == 9 - len(left)
    assert by_runs.passes_all == (chosen is None)
    rows = by_runs.addressed(pa.table({"n": range(9)}), 0)
    by_columns = RowFilter(chosen=chosen)
    assert by_columns.reads == (() if chosen is None else (ROOT, ROW))
    assert by_columns.sifted(rows, 0).column("n").to_pylist() == left
    assert by_columns.may_keep(0, 9)


def test_deleted_rows_are_not_chosen() -> None:
    """A row is left if it is chosen and not deleted."""
    given: dict[str, Any] = {"deleted": {str(OLD): bits_of([1, 2])}, "chosen": {str(OLD): None}}
    assert kept(RowFilter(runs=RUNS, **given), 0, 9) == [0, 3, 7, 8]
    rows = RowFilter(runs=RUNS).addressed(pa.table({"n": range(9)}), 0)
    assert RowFilter(**given).sifted(rows, 0).column("n").to_pylist() == [0, 3, 7, 8]
