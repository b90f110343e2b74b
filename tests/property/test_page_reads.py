"""Reads by pages agree with a naive oracle: read all rows of a file, and filter them.

Files have columns of many types, nested ones and nulls among them, with dictionaries or without,
compressed or not, row groups and pages of a few rows, and deleted rows. Conditions name few
values, ranges, and both. Readers keep tails and pages, or nothing.
"""

from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
)
from airflow_provider_segtable.core.segment import ROW, Run, Segment
from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.data.conditions import by_predicate, matches
from airflow_provider_segtable.data.jobs import segment_writer
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet import page_reader
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import RowFilter, bits_of
from airflow_provider_segtable.table.entry_cache import EntryCache
from tests.unit.data.making import rich, segment_id

FILES = 30
READS = 8
ORDERED = ("number", "at", "word", "day", "milli", "small")


@pytest.fixture(autouse=True)
def few_rows_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read pages for a value of any small file."""
    monkeypatch.setattr(page_reader, "_ROWS_A_VALUE", 1)
    monkeypatch.setattr(page_reader, "LEAST_ROWS", 0)


def written(draw: Random, rows: pa.Table, files: MemoryFiles) -> Segment:
    """Write rows with small row groups and pages, and forms that larger files have."""
    form = {"compression": draw.choice(("zstd", "none")), "compression_level": None}
    words = draw.random() < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_writer, "codec_options", lambda *_: form)
        patch.setattr(segment_writer, "dictionary_columns", lambda *_: words)
        return write_segment(
            files,
            rows,
            segment_id=segment_id(0),
            time_column="at",
            created=0,
            token=f"{draw.randrange(1 << 62):016x}",
            group_rows=draw.randrange(1, 40),
            page_rows=draw.choice((1, 2, 5, 16)),
        )


def value_of(rows: pa.Table, name: str, draw: Random) -> Any:
    """Return a value of a column, or one near it, as predicates have it."""
    column = rows.column(name)
    found = column[draw.randrange(rows.num_rows)].as_py()
    if found is None or name == "word":
        return found if name != "day" or found is None else Day(0)
    match name:
        case "day":
            return Day((found - type(found)(1970, 1, 1)).days + draw.randrange(-1, 2))
        case "at" | "milli":
            return Moment(parse_instant(found.isoformat()) + 1_000 * draw.choice((-1, 0, 0, 1)))
        case _:
            return found + draw.choice((0, 0, 1))


def leaf(rows: pa.Table, draw: Random) -> Predicate:
    name = draw.choice(ORDERED)
    match draw.randrange(6):
        case 0:
            return Among(name, tuple(value_of(rows, name, draw) for _ in range(draw.randrange(4))))
        case 1:
            return IsNull(name)
        case 2:
            return Not(Compare(name, draw.choice([*Compares]), value_of(rows, name, draw)))
        case 3:
            return Compare(name, Compares.EQUAL, value_of(rows, name, draw))
        case _:
            return Compare(name, draw.choice([*Compares]), value_of(rows, name, draw))


def predicate(rows: pa.Table, draw: Random, depth: int = 2) -> Predicate:
    """Return a condition on some columns."""
    if not depth or draw.random() < 0.4:
        return leaf(rows, draw)
    parts = tuple(predicate(rows, draw, depth - 1) for _ in range(draw.randrange(1, 4)))
    return AllOf(parts) if draw.random() < 0.5 else AnyOf(parts)


def oracle(rows: pa.Table, test: Predicate, gone: set[int]) -> pa.Table:
    """Return the rows that match, with their numbers."""
    numbered = rows.append_column("__number", pa.array(range(rows.num_rows)))
    left = numbered.filter(pa.array([n not in gone for n in range(rows.num_rows)]))
    return left.filter(pc.fill_null(matches(left, test), False))


@pytest.mark.parametrize("seed", range(FILES))
def test_pages_have_the_rows_that_match(seed: int) -> None:
    """A read with a condition has exactly its rows, in their order, in any columns."""
    draw, files = Random(seed), MemoryFiles()
    rows = rich(draw.randrange(1, 90), seed)
    if draw.random() < 0.6:
        rows = rows.sort_by(draw.choice(("number", "word", "day")))
    segment, views = written(draw, rows, files), EntryCache()
    for _ in range(READS):
        test = predicate(rows, draw)
        where = by_predicate(test, "at")
        gone = set(draw.sample(range(rows.num_rows), draw.choice((0, 0, rows.num_rows // 3))))
        runs = (Run(segment.id, 0, rows.num_rows),)
        deleted = {str(segment.id): bits_of(sorted(gone))} if gone else {}
        shown = draw.sample(rows.column_names, draw.randrange(1, 5))
        names = [*dict.fromkeys([*shown, *where.columns])]
        read = SegmentRead(
            files,
            segment,
            schema=rows.schema,
            time_column="at",
            columns=names,
            row_filter=RowFilter(runs=runs, deleted=deleted),
            addressed=draw.random() < 0.5,
            where=where,
            views=draw.choice((None, views)),
        )
        kept = draw.random() < 0.5
        batches = [*read.matching()] if kept else [*map(where.keep, read.batches())]
        expected = oracle(rows, test, gone)
        if not batches:
            assert not expected.num_rows, test
            continue
        found = pa.Table.from_batches(batches)
        assert found.select(names).equals(expected.select(names)), test
        if read.addressed:
            assert found.column(ROW).to_pylist() == expected.column("__number").to_pylist()
