"""A file that an index excludes holds no matching row, whatever the rows and the condition are.

The oracle reads the file and filters its rows. Values lie near each other and near bounds, so that
an error by one in a bound, or a filter of another column, is seen.
"""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.indexes.index_kind import (
    BloomFilter,
    ColumnStats,
    bits,
    high,
    low,
)
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
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
    Value,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.indexes.entries import entries, entry_columns_for, view_of
from airflow_provider_segtable.data.jobs import segment_writer
from airflow_provider_segtable.data.open_files import MemoryFiles
from tests.support.in_memory import defined_by
from tests.unit.data.making import START, written

SEEDS = 12
FILES = 5
CONDITIONS = 60

Rows: TypeAlias = Sequence[tuple[Segment, pa.Table]]
NEAR = range(-3, 12)
TEXTS = ("", "a", "ab", "b", "é", "\U0010ffff", "a" * 64, "a" * 64 + "b", "a" * 63 + "b")
FLOATS = (float("nan"), -0.0, 0.0, 0.5, 1.0, -3.25, 1e30)
Draw: TypeAlias = Callable[[Random], Any]


def near(times: int = 1, made: Callable[[int], Any] = int) -> Draw:
    """Return a draw of small numbers, as multiples, as other values."""
    return lambda draw: made(times * draw.choice(NEAR))


def among(values: Sequence[Any]) -> Draw:
    """Return a draw of given values."""
    return lambda draw: draw.choice(values)


def day(number: int) -> date:
    """Return a day, by its number."""
    return date(1970, 1, 1) + timedelta(days=number)


def quarter(number: int) -> Decimal:
    """Return so many quarters."""
    return Decimal(number) / 4


def scaled(number: int) -> Decimal:
    """Return so many thousandths: some have more than 64 bits, unscaled."""
    return Decimal(number) / 1000


KINDS: dict[str, tuple[pa.DataType, Draw, Draw]] = {
    "small": (pa.int8(), near(), near()),
    "big": (pa.int64(), near(1 << 33), near(1 << 33)),
    "half": (pa.float32(), among(FLOATS), among(FLOATS[1:])),
    "ratio": (pa.float64(), among(FLOATS), among((*FLOATS[1:], 1))),
    "yes": (pa.bool_(), among((False, True)), among((False, True))),
    "text": (pa.string(), among(TEXTS), among(TEXTS)),
    "long": (pa.large_string(), among(TEXTS), among(TEXTS)),
    "raw": (pa.binary(), among([*map(str.encode, TEXTS)]), among(TEXTS)),
    "cents": (pa.decimal128(7, 2), near(made=quarter), near(made=quarter)),
    "huge": (pa.decimal128(38, 3), near(1 << 61, scaled), near(1 << 61, scaled)),
    "count": (pa.decimal128(20, 0), near(1 << 61, Decimal), near(1 << 61)),
    "day": (pa.date32(), near(made=day), near(made=Day)),
    "at_s": (pa.timestamp("s"), near(), near(1_000_000, Moment)),
    "at_ms": (pa.timestamp("ms", "Europe/Berlin"), near(), near(1000, Moment)),
    "at_us": (pa.timestamp("us", "UTC"), near(), near(made=Moment)),
    "at_ns": (pa.timestamp("ns"), near(500), near(made=Moment)),
}
"""Types; how rows and how conditions get their values."""

SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", "UTC"), nullable=False)]
    + [pa.field(name, kind) for name, (kind, _, _) in KINDS.items()]
)
TABLE = defined_by(SCHEMA, Granularity.MONTH)
IDS = {column.name: column.id for column in TABLE.schema.numbered}
ORDERED = tuple(name for name in KINDS if name != "raw")
HASHED = tuple(name for name in KINDS if name not in {"half", "ratio"})
STATS = IndexDefinition(
    name="s", id="s", kind=ColumnStats(columns=tuple(IDS[name] for name in ORDERED))
)
BLOOM = IndexDefinition(
    name="b", id="b", kind=BloomFilter(columns=tuple(IDS[name] for name in HASHED), rate=0.05)
)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups of three rows."""
    monkeypatch.setattr(segment_writer, "GROUP_ROWS", 3)


def drawn_rows(draw: Random) -> pa.Table:
    """Return rows with few distinct values, some of them null."""
    count = draw.randrange(1, 9)
    columns: list[Any] = [pa.array([START] * count, pa.timestamp("us", "UTC"))]
    for kind, made, _ in KINDS.values():
        some = [made(draw) for _ in range(2)]
        nulls = draw.choice((0, 0.3, 1))
        values = [None if draw.random() < nulls else draw.choice(some) for _ in range(count)]
        columns.append(pa.array(values, kind))
    return pa.table(columns, schema=SCHEMA)


def drawn_files(draw: Random) -> tuple[MemoryFiles, Rows]:
    """Return files of such rows."""
    files = MemoryFiles()
    tables = [drawn_rows(draw) for _ in range(FILES)]
    return files, [*zip(written(files, tables), tables, strict=True)]


def drawn_test(draw: Random, depth: int = 2) -> Predicate:
    """Return a condition."""
    if depth and draw.random() < 0.5:
        left, right = drawn_test(draw, depth - 1), drawn_test(draw, depth - 1)
        return draw.choice((AllOf((left, right)), AnyOf((left, right)), Not(left)))
    name = draw.choice([*KINDS])
    value = KINDS[name][2]
    few: tuple[Value, ...] = tuple(value(draw) for _ in range(draw.randrange(3)))
    return draw.choice(
        (
            Compare(name, Compares.EQUAL, value(draw)),
            Compare(name, draw.choice([*Compares]), value(draw)),
            Compare(name, draw.choice([*Compares]), None),
            Among(name, few),
            Among(name, (*few, None)),
            IsNull(name),
        )
    )


def compared(
    rows: Rows, index: IndexDefinition, found: pa.Table, tests: Sequence[Predicate]
) -> tuple[int, list[Predicate]]:
    """Return how often a file was excluded, and the conditions by which rows were lost."""
    excluded, lost = 0, []
    for test in tests:
        needed = entry_columns_for(index, TABLE, test)
        whole = view_of(index, TABLE, found)
        narrow = view_of(index, TABLE, found.select(needed or found.column_names))
        for segment, table in rows:
            assert whole.knows(segment)
            may = whole.may_hold(segment, test)
            assert may is narrow.may_hold(segment, test), f"{test} needs more than {needed}"
            excluded += not may
            if not may and pc.any(matches(table, test)).as_py():
                lost.append(test)
    return excluded, lost


def played(index: IndexDefinition, wrong: Callable[[pa.Table], pa.Table]) -> tuple[int, list[str]]:
    """Compare entries, after a change of them, over all seeds; stop at the first loss."""
    total = 0
    for seed in range(SEEDS):
        draw = Random(seed)
        files, rows = drawn_files(draw)
        found = wrong(entries(index, TABLE, [segment for segment, _ in rows], files))
        tests = [drawn_test(draw) for _ in range(CONDITIONS)]
        excluded, lost = compared(rows, index, found, tests)
        total += excluded
        if lost:
            return total, [f"seed {seed}: {test}" for test in lost]
    return total, []


@pytest.mark.parametrize("index", [STATS, BLOOM], ids=lambda index: index.kind.name)
def test_an_excluded_file_holds_no_matching_row(index: IndexDefinition) -> None:
    """Of any types, values and conditions; and the columns that a condition needs are enough."""
    excluded, lost = played(index, lambda found: found)
    assert not lost
    assert excluded > SEEDS * FILES * CONDITIONS // 10


def shifted(found: pa.Table, name: str, by: int) -> pa.Table:
    """Return entries with a wrong bound."""
    column = pc.add(found.column(name), pa.scalar(by, found.schema.field(name).type))
    return found.set_column(found.column_names.index(name), name, column)


def swapped(found: pa.Table, one: str, other: str) -> pa.Table:
    """Return entries with the cells of two columns exchanged."""
    names = {one: other, other: one}
    return found.select([names.get(name, name) for name in found.column_names]).rename_columns(
        found.column_names
    )


SMALL, BIG = IDS["small"], IDS["big"]
ERRORS: list[tuple[IndexDefinition, Callable[[pa.Table], pa.Table]]] = [
    (STATS, lambda found: shifted(found, low(SMALL), 1)),
    (STATS, lambda found: shifted(found, high(SMALL), -1)),
    (STATS, lambda found: shifted(found, "nulls_2", -1)),
    (STATS, lambda found: swapped(found, low(SMALL), high(SMALL))),
    (BLOOM, lambda found: swapped(found, bits(SMALL), bits(BIG))),
]


@pytest.mark.parametrize(("index", "wrong"), ERRORS, ids=["low", "high", "nulls", "swap", "bloom"])
def test_an_error_in_entries_is_seen(
    index: IndexDefinition, wrong: Callable[[pa.Table], pa.Table]
) -> None:
    """Bounds that are wrong by one, and the filter of another column, lose rows."""
    _, lost = played(index, wrong)
    assert lost
