"""Any rows in any files, by any order, into any chunks, in any memory: as Python sorts them."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.open_files import MemoryFiles
from tests.examples import examples
from tests.unit.data.making import MONTH, rich
from tests.unit.data.sort_making import (
    check,
    days,
    events,
    put_in,
    rows_of,
    sort,
    sort_key,
    spec,
)

Chunks = tuple[Interval, ...]
COLUMNS = ["carrier", "flight", "delay", "tail", "row", "late", "at"]
columns = st.lists(st.sampled_from(COLUMNS), max_size=3, unique=True)
memories = st.sampled_from([20_000, 200_000, 512 << 20])
targets = st.sampled_from([3_000, 30_000, 128 << 20])
grains = st.sampled_from([37, 500, 1 << 20])
chunks = st.sampled_from([(MONTH,), days(31)])


def inputs(sizes: list[int], seed: int, grain: int) -> tuple[MemoryFiles, list[pa.Table], tuple]:
    """Write random events with row groups of ``grain`` rows."""
    files = MemoryFiles()
    tables = [events(size, seed * 10 + number) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", grain)
        return files, tables, put_in(files, tables)


@examples(35)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    seed=st.integers(0, 99),
    order=columns,
    memory=memories,
    target=targets,
    grain=grains,
    intervals=chunks,
)
def test_rows_come_out_as_python_sorts_them(
    sizes: list[int],
    seed: int,
    order: list[str],
    memory: int,
    target: int,
    grain: int,
    intervals: Chunks,
) -> None:
    """Whatever the files, chunks and memory: Python's order, true descriptors, no litter."""
    files, tables, segments = inputs(sizes, seed, grain)
    what = spec(
        tables[0].schema, ",".join(order), memory=memory, target_size=target, intervals=intervals
    )
    results = sort(files, segments, what)
    check(files, results, tables, what)


@examples(20)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    order=st.lists(st.sampled_from(COLUMNS), min_size=2, max_size=4, unique=True),
    memory=memories,
    grain=grains,
    intervals=chunks,
)
def test_z_order_keeps_rows_and_groups_equals(
    sizes: list[int], seed: int, order: list[str], memory: int, grain: int, intervals: Chunks
) -> None:
    """No row is lost on the curve, and equal values of the order stand together, by time."""
    files, tables, segments = inputs(sizes, seed, grain)
    text = f"zorder({','.join(order)})"
    what = spec(tables[0].schema, text, memory=memory, target_size=5_000, intervals=intervals)
    results = sort(files, segments, what)
    rows = [row for segment in results for row in rows_of(files, segment)]
    given_rows = pa.concat_tables(tables).to_pylist()
    assert sorted(row["row"] for row in rows) == sorted(row["row"] for row in given_rows)
    for interval in intervals:
        keys = [
            sort_key(row, order)
            for segment in results
            if segment.id.interval == interval
            for row in rows_of(files, segment)
        ]
        changes = sum(a != b for a, b in pairwise(keys))
        assert changes == max(0, len(set(keys)) - 1)


@examples(12)
@given(seed=st.integers(0, 99), memory=memories, order=st.sampled_from(["money,day", "raw,ratio"]))
def test_all_types_go_along(seed: int, memory: int, order: str) -> None:
    """Nested values, decimals, binaries and nulls survive, and decimals can be sorted by."""
    files = MemoryFiles()
    tables = [rich(size, seed + size) for size in (50, 1, 120)]
    what = spec(tables[0].schema, order, memory=memory, target_size=4_000)
    check(files, sort(files, put_in(files, tables), what), tables, what)


@examples(12)
@given(seed=st.integers(0, 99), order=st.sampled_from(["carrier,flight", "tail", ""]))
def test_sorting_again_changes_nothing(seed: int, order: str) -> None:
    """What is sorted already comes out in the same order, with fewer rows read."""
    files, tables, segments = inputs([300, 200], seed, 100)
    what = spec(tables[0].schema, order, target_size=3_000)
    once = sort(files, segments, what)
    rows = [row for segment in once for row in rows_of(files, segment)]
    again = sort(files, once, spec(tables[0].schema, order, target_size=9_000, attempt="b" * 16))
    assert repr([row for segment in again for row in rows_of(files, segment)]) == repr(rows)


@given(
    names=st.lists(
        st.text(min_size=1, max_size=8).filter(
            lambda name: name == name.strip() and not set(name) & set(",()")
        ),
        max_size=4,
        unique=True,
    ),
    z=st.booleans(),
)
def test_an_order_is_its_text(names: list[str], z: bool) -> None:  # noqa: FBT001
    """An order written down is read back as the same order."""
    curve = "zorder" if z and len(names) >= 2 else "lexicographic"
    order = Order(columns=tuple(names), curve=curve)
    assert Order.parse(str(order)) == order
