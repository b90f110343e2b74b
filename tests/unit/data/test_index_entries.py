"""Entries of indexes: what they say of files, which are trusted, what conditions need of them."""

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import ChecksumMismatch
from airflow_provider_segtable.core.indexes.index_kind import (
    CHECKSUM,
    FILE,
    ROW_GROUP,
    ROWS,
    BloomFilter,
    ColumnStats,
    FileList,
    IndexKind,
    bits,
    distinct,
    high,
    low,
    nan,
    nulls,
)
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    IsNull,
    Moment,
    Not,
    Predicate,
)
from airflow_provider_segtable.core.segment import FooterChecksum, Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    RenameColumn,
    WidenColumn,
    evolved,
)
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data import indexes
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.indexes.entries import (
    IndexJob,
    entries,
    entry_columns_for,
    in_jobs,
    view_of,
)
from airflow_provider_segtable.data.jobs import segment_writer
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.sketches import estimated
from airflow_provider_segtable.ports.job import cost_of, run_one
from tests.support.in_memory import defined_by
from tests.unit.data.making import START, written

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("n", pa.int32()),
        pa.field("price", pa.float32()),
        pa.field("name", pa.string()),
    ]
)
TABLE = defined_by(SCHEMA, Granularity.MONTH)
AT, N, PRICE, NAME = 1, 2, 3, 4
STATS = ColumnStats(columns=(AT, N, PRICE, NAME))
BLOOM = BloomFilter(columns=(N, NAME))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups of two rows."""
    monkeypatch.setattr(segment_writer, "GROUP_ROWS", 2)


def defined(kind: IndexKind) -> IndexDefinition:
    """Return an index of a kind."""
    return IndexDefinition(name="i", id="i", kind=kind)


def rows(*given: tuple[int | None, float | None, str | None]) -> pa.Table:
    """Return rows of a number, a price and a name, each a second later."""
    named = [
        {"at": START.replace(second=at), "n": n, "price": price, "name": name}
        for at, (n, price, name) in enumerate(given)
    ]
    return pa.Table.from_pylist(named, SCHEMA)


def stored(files: MemoryFiles, *tables: pa.Table) -> tuple[Segment, ...]:
    """Write tables as segments with checksums in their descriptors."""
    return written(files, tables)


def equal(column: str, value: Any) -> Compare:
    """Return the comparison of a column with a value."""
    return Compare(column, Compares.EQUAL, value)


def held(
    kind: IndexKind, table: TableDefinition, found: pa.Table, segment: Segment, *tests: Predicate
) -> list[bool]:
    """Return for each condition whether the entries let the file be read."""
    view = view_of(defined(kind), table, found)
    assert view.knows(segment)
    return [view.may_hold(segment, test) for test in tests]


def test_statistics_are_those_of_each_row_group() -> None:
    """Bounds without NaN, nulls, and distinct values; nothing of a row group of nulls."""
    files = MemoryFiles()
    given = rows((5, math.nan, "b"), (-1, 2.5, "a"), (None, None, None), (None, None, None))
    found = entries(defined(STATS), TABLE, stored(files, given), files)
    said = {
        name: found.column(name).to_pylist()
        for name in (ROW_GROUP, ROWS, low(N), high(N), nulls(N), low(PRICE), nan(PRICE), high(NAME))
    }
    assert said == {
        ROW_GROUP: [0, 1],
        ROWS: [2, 2],
        low(N): [-1, None],
        high(N): [5, None],
        nulls(N): [0, 2],
        low(PRICE): [2.5, None],
        nan(PRICE): [True, False],
        high(NAME): ["b", None],
    }
    counts = [round(estimated(each)) for each in found.column(distinct(N)).to_pylist()]
    assert counts == [2, 0]


@pytest.mark.parametrize("last", ["a", "\ud7ff", "\U0010ffff"], ids=ascii)
def test_long_texts_are_cut_to_wider_bounds(last: str) -> None:
    """The value lies between them, whatever its last character is; without an end, nothing."""
    text = "m" * 60 + last * 9
    files = MemoryFiles()
    (segment,) = stored(files, rows((1, 1.0, text)))
    found = entries(defined(STATS), TABLE, [segment], files)
    least, most = found.column(low(NAME))[0].as_py(), found.column(high(NAME))[0].as_py()
    assert least < text < most
    assert len(most) <= 64
    assert held(STATS, TABLE, found, segment, equal("name", text), equal("name", "z")) == [
        True,
        False,
    ]


def test_a_text_of_last_characters_has_no_upper_bound() -> None:
    """No text is more than all that begin with them."""
    files = MemoryFiles()
    (segment,) = stored(files, rows((1, 1.0, "\U0010ffff" * 70)))
    found = entries(defined(STATS), TABLE, [segment], files)
    assert found.column(high(NAME)).to_pylist() == [None]
    assert held(STATS, TABLE, found, segment, equal("name", "z")) == [True]


def altered(*changes: Any) -> TableDefinition:
    """Return the table after changes of columns."""
    schema = evolved(TABLE.schema, (), changes, "at")
    return replace(TABLE, schema=schema, earlier=(TABLE.schema,))


@pytest.mark.parametrize("kind", [ColumnStats(columns=(N, 5)), BloomFilter(columns=(N, 5))])
def test_files_of_earlier_schemas_have_entries(kind: IndexKind) -> None:
    """Of renamed and widened columns, and of an added one, of which they have the default."""
    files = MemoryFiles()
    (segment,) = stored(files, rows((7, 1.0, "a"), (9, 1.0, "b")))
    later = altered(
        RenameColumn(name="n", new="number"),
        WidenColumn(name="number", type="int64"),
        AddColumn(name="mark", type="string", default="x"),
    )
    found = entries(defined(kind), later, [segment], files)
    tests = (
        *(equal("number", n) for n in (7, 8, 1 << 40)),
        *(equal("mark", text) for text in ("x", "y")),
    )
    between = isinstance(kind, ColumnStats)
    assert held(kind, later, found, segment, *tests) == [True, between, False, True, False]
    early = entries(defined(BloomFilter(columns=(N,))), TABLE, [segment], files)
    assert held(BloomFilter(columns=(N,)), later, early, segment, *tests[:3]) == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("kind", [FileList(), STATS, BLOOM], ids=lambda kind: kind.name)
def test_only_entries_about_this_very_file_are_trusted(kind: IndexKind) -> None:
    """Of its checksum, with all its rows; else the file is read."""
    files = MemoryFiles()
    segment, other = stored(files, rows(*[(1, 1.0, "a")] * 3), rows((2, 2.0, "b")))
    found = entries(defined(kind), TABLE, [segment], files)
    view = view_of(defined(kind), TABLE, found)
    never = equal("n", 100)
    assert view.knows(segment)
    assert view.may_hold(segment, never) is isinstance(kind, FileList)
    for stranger in (
        other,
        replace(segment, footer=FooterChecksum(1, 2)),
        replace(segment, footer=None),
        replace(segment, rows=4, events=4),
    ):
        assert not view.knows(stranger)
        assert view.may_hold(stranger, never)
    torn = view_of(defined(kind), TABLE, found.slice(1))
    assert not torn.knows(segment)
    assert torn.may_hold(segment, never)
    mixed = pa.concat_tables(
        [
            found,
            found.set_column(
                found.column_names.index(CHECKSUM), CHECKSUM, [["0-0"] * found.num_rows]
            ),
        ]
    )
    assert not view_of(defined(kind), TABLE, mixed).knows(segment)


NUMBERED, NAMED = equal("n", 1), Compare("name", Compares.LESS, "b")
OTHER = equal("price", 1.0)


@pytest.mark.parametrize(
    ("kind", "test", "needed"),
    [
        (FileList(), NUMBERED, ()),
        (ColumnStats(columns=(N, NAME)), NUMBERED, (low(N), high(N), nulls(N), nan(N))),
        (ColumnStats(columns=(N, NAME)), OTHER, ()),
        (ColumnStats(columns=(N,)), AllOf((NUMBERED, OTHER)), (low(N),)),
        (ColumnStats(columns=(N,)), AnyOf((NUMBERED, OTHER)), ()),
        (ColumnStats(columns=(N, NAME)), AllOf((NUMBERED, NAMED)), (low(N), low(NAME))),
        (ColumnStats(columns=(N,)), Not(Among("n", (1,))), ()),
        (ColumnStats(columns=(N,)), IsNull("n"), (nulls(N),)),
        (BLOOM, NUMBERED, (bits(N),)),
        (BLOOM, NAMED, ()),
        (BLOOM, AllOf((NAMED, NUMBERED)), (bits(N),)),
        (BLOOM, AnyOf((NAMED, NUMBERED)), ()),
        (BLOOM, Not(NUMBERED), ()),
        (BLOOM, Not(Compare("n", Compares.UNEQUAL, 1)), (bits(N),)),
        (BLOOM, AllOf((Among("name", ("a", None)), NUMBERED)), (bits(NAME), bits(N))),
        (BLOOM, IsNull("n"), ()),
    ],
)
def test_only_columns_that_can_exclude_rows_are_needed(
    kind: IndexKind, test: Predicate, needed: Sequence[str]
) -> None:
    """None if the index cannot help; then its entries need not be read."""
    found = entry_columns_for(defined(kind), TABLE, test)
    if not needed:
        assert found == ()
        return
    own = {name for name in found if name.startswith("bloom") or not isinstance(kind, BloomFilter)}
    assert own >= {*needed}
    assert {FILE, CHECKSUM, ROWS} <= {*found}
    assert {name.rpartition("_")[2] for name in found if name[-1].isdigit()} == {
        name.rpartition("_")[2] for name in needed
    }


def test_filters_exclude_values_and_nothing_else() -> None:
    """Nulls equal nothing, and a value of another kind than the column may be there."""
    files = MemoryFiles()
    (segment,) = stored(files, rows((1, 1.0, "a"), (3, 1.0, None)))
    found = entries(defined(BLOOM), TABLE, [segment], files)
    tests: list[tuple[Predicate, bool]] = [
        (equal("n", 1), True),
        (equal("n", 2), False),
        (equal("n", None), False),
        (equal("n", True), True),
        (equal("n", 2.0), True),
        (equal("n", 1 << 40), True),
        (equal("n", Moment(2)), True),
        (Among("n", (2, None, 4)), False),
        (Among("n", (2, 3)), True),
        (Not(Among("n", (1, 3))), True),
        (Compare("n", Compares.MORE, 100), True),
        (AllOf((equal("n", 1), equal("name", "b"))), False),
        (AnyOf((equal("n", 2), equal("name", "b"))), False),
        (AnyOf((equal("n", 2), IsNull("name"))), True),
    ]
    said = held(BLOOM, TABLE, found, segment, *(test for test, _ in tests))
    assert [*zip([test for test, _ in tests], said, strict=True)] == tests


def test_a_broken_or_missing_filter_excludes_nothing() -> None:
    """It has not the size of blocks, or was too large to be made."""
    files = MemoryFiles()
    (segment,) = stored(files, rows((1, 1.0, "a")))
    found = entries(defined(BLOOM), TABLE, [segment], files)
    at = found.column_names.index(bits(N))
    for cell in (None, b"\0" * 33):
        broken = found.set_column(at, bits(N), pa.array([cell], pa.binary()))
        assert held(BLOOM, TABLE, broken, segment, equal("n", 2)) == [True]


def test_entries_stay_where_they_are_if_a_file_is_carried_over() -> None:
    """Their key has the time chunk that the file was written for."""
    files = MemoryFiles()
    (segment,) = stored(files, rows((1, 1.0, "a")))
    year = Granularity.YEAR.chunk(segment.id.interval.start)
    moved = segment.carried(replace(segment.id, interval=year, partition=7), core=0)
    for kind in (FileList(), STATS, BLOOM):
        found = entries(defined(kind), TABLE, [segment], files)
        assert entries(defined(kind), TABLE, [moved], files) == found
        assert view_of(defined(kind), TABLE, found).knows(moved)


def test_a_job_returns_entries_in_tasks_too() -> None:
    """It is pickled, leaves out files that are gone, and fails with the path of a damaged one."""
    files = MemoryFiles()
    segments = stored(files, rows((1, 1.0, "a")), rows((2, 2.0, "b")))
    job = IndexJob(
        uri="memory://t",
        storage_options={},
        index=defined(STATS),
        table=TABLE,
        segments=segments,
        attempt="0" * 16,
    )
    sent: IndexJob = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(sent.run(files))) == entries(  # noqa: S301 - our own bytes
        defined(STATS), TABLE, segments, files
    )
    files.delete(segments[0].path)
    assert sent.run(files).column(FILE).to_pylist() == [segments[1].path]
    data = files.store[segments[1].path]
    files.store[segments[1].path] = data[:8] + bytes([data[8] ^ 1]) + data[9:]
    done = run_one(0, sent, files)
    assert done.error is not None
    assert ChecksumMismatch.__name__ in done.error
    assert segments[1].path in done.error


def test_files_are_shared_out_to_jobs_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has at least one file, and each file is in one job."""
    files = MemoryFiles()
    segments = stored(files, *[rows((n, 1.0, "a")) for n in range(5)])
    cost = cost_of(segments[:1])
    monkeypatch.setattr(indexes.entries, "JOB_BYTES", 2 * cost + 100)
    assert [len(some) for some in in_jobs(segments)] == [2, 2, 1]
    monkeypatch.setattr(indexes.entries, "JOB_BYTES", 1)
    assert [*in_jobs(segments)] == [(each,) for each in segments]


def test_times_keep_their_fractions_in_bounds() -> None:
    """A bound in nanoseconds is the microsecond before, or after."""
    schema = SCHEMA.append(pa.field("fine", pa.timestamp("ns")))
    table = replace(TABLE, schema=from_arrow(schema))
    files = MemoryFiles()
    fine = pa.array([1500], pa.timestamp("ns"))
    (segment,) = stored(files, rows((1, 1.0, "a")).append_column("fine", fine))
    kind = ColumnStats(columns=(5,))
    found = entries(defined(kind), table, [segment], files)
    tests = [equal("fine", Moment(us)) for us in (0, 1, 2, 3)]
    assert held(kind, table, found, segment, *tests) == [False, True, True, False]
