"""Merging the rows of primary-key tables: tombstones, memory, reads of few columns, errors."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.tables.merge_rules import (
    AT_OF,
    GROUPS_ONLY,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    ColumnGroup,
    MergeEngine,
    MergeRules,
)
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.keyed.key_groups import Root, RootOrders
from airflow_provider_segtable.data.keyed.keyed_rows import file_schema, log_rows, with_root
from airflow_provider_segtable.data.keyed.merging import merge_runs, read_runs, windows

LATEST = MergeRules(key=("id",), ordering="seq")
JOIN = MergeRules(
    key=("id",),
    engine=MergeEngine.PARTIAL_UPDATE,
    groups=(
        ColumnGroup(columns=("price",), ordering="priced"),
        ColumnGroup(columns=("paid",), ordering="paid_at"),
    ),
)
ROOTS = RootOrders.of(
    Root(partition=n, instant=n, log_version=1, write_token="t", completed=100 * n)
    for n in range(10)
)


def run(root: int, rules: MergeRules, deleted: Sequence[bool] = (), **columns: list) -> pa.Table:
    """Return the rows of a log file."""
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    flags = np.array([*deleted] or [False] * table.num_rows)
    return with_root(log_rows(table, rules, flags), root)


def rows(tables: Iterator[pa.Table]) -> list[dict]:
    """Return the rows of some tables."""
    return [row for table in tables for row in table.to_pylist()]


def test_a_tombstone_outlives_the_row() -> None:
    """A tombstone is kept until its horizon, so a late event does not bring the key back."""
    base = run(0, LATEST, id=[1, 2], seq=[5, 5])
    delete = run(1, LATEST, [True], id=[1], seq=[8])
    late = run(2, LATEST, id=[1], seq=[7])
    compacted = [*merge_runs([[base], [delete]], LATEST, ROOTS, drop_tombstones_before=100)]
    assert rows(read_runs([compacted, [late]], LATEST, ROOTS, ["id"])) == [{"id": 2}]
    forgotten = [*merge_runs([[base], [delete]], LATEST, ROOTS, drop_tombstones_before=101)]
    assert [row[OP] for row in rows(iter(forgotten))] == [0]
    assert len(rows(read_runs([forgotten, [late]], LATEST, ROOTS, ["id"]))) == 2


def test_a_tombstone_is_as_young_as_its_youngest_part() -> None:
    """A tombstone of several deletions is kept while one of them completed within the horizon."""
    old = run(1, JOIN, [True], id=[1], price=[0], priced=[9], paid=[0], paid_at=[9])
    young = run(3, JOIN, [True], id=[1], price=[0], priced=[9], paid=[0], paid_at=[None])
    for horizon, left in ((100, 1), (301, 0)):
        merged = merge_runs([[old], [young]], JOIN, ROOTS, drop_tombstones_before=horizon)
        assert len(rows(merged)) == left
    by_group = run(2, JOIN, [True], id=[1], price=[0], priced=[3], paid=[0], paid_at=[None])
    older = merge_runs([[by_group], [young]], JOIN, ROOTS, drop_tombstones_before=300)
    assert len(rows(older)) == 1


def test_three_writers_fill_one_row() -> None:
    """Each group has the columns of its own newest record; a late delete takes what it names."""
    order = run(1, JOIN, id=[1], price=[10], priced=[5], paid=[None], paid_at=[None])
    payment = run(2, JOIN, id=[1], price=[None], priced=[None], paid=[7], paid_at=[2])
    late = run(3, JOIN, id=[1], price=[99], priced=[4], paid=[None], paid_at=[None])
    names = ["id", "price", "paid"]
    found = rows(read_runs([[late], [payment], [order]], JOIN, ROOTS, names))
    assert found == [{"id": 1, "price": 10, "paid": 7}]
    gone = run(4, JOIN, [True], id=[1], price=[None], priced=[5], paid=[None], paid_at=[None])
    found = rows(read_runs([[late], [gone], [payment], [order]], JOIN, ROOTS, names))
    assert found == [{"id": 1, "price": None, "paid": 7}]


def test_a_row_of_one_record_keeps_no_orders() -> None:
    """Registers have roots of their own only where they come from another record than the row."""
    how = MergeRules(key=("id",), ordering="seq", engine=MergeEngine.PARTIAL_UPDATE)
    whole = run(1, how, id=[1, 2], seq=[5, 5], x=[1, 1], y=[1, 1])
    part = run(2, how, id=[1, 2], seq=[6, 6], x=[2, 2], y=[None, 2])
    names = [ROOT_PARTITION, ROOT_OF + "x", ROOT_OF + "y", AT_OF + "x", AT_OF + "y"]
    found = pa.concat_tables(merge_runs([[part], [whole]], how, ROOTS)).select(names).to_pylist()
    assert [[*row.values()] for row in found] == [
        [2, None, 1, None, 5],
        [2, None, None, None, None],
    ]


def test_a_row_of_groups_alone_stays_one() -> None:
    """A deleted row of which a group is left goes with the group, also if its tombstone is gone."""
    paid = run(5, JOIN, id=[1], price=[None], priced=[None], paid=[7], paid_at=[2])
    row = run(6, JOIN, [True], id=[1], price=[None], priced=[None], paid=[None], paid_at=[None])
    base = [*merge_runs([[paid], [row]], JOIN, ROOTS, drop_tombstones_before=601)]
    assert [found[OP] for found in rows(iter(base))] == [GROUPS_ONLY]
    assert len(rows(read_runs([base], JOIN, ROOTS, ["id"]))) == 1
    priced = run(3, JOIN, id=[1], price=[1], priced=[1], paid=[None], paid_at=[None])
    both = rows(merge_runs([base, [priced]], JOIN, ROOTS))
    assert [found[OP] for found in both] == [UPSERT]
    both = rows(merge_runs([[priced], [paid], [row]], JOIN, ROOTS, drop_tombstones_before=601))
    assert [(found[OP], found[ROOT_PARTITION]) for found in both] == [(GROUPS_ONLY, 5)]
    refund = run(4, JOIN, [True], id=[1], price=[None], priced=[None], paid=[None], paid_at=[3])
    assert rows(read_runs([base, [refund]], JOIN, ROOTS, ["id"])) == []


def test_reads_of_few_columns() -> None:
    """A read needs the key, what orders rows, and its own columns; it shows the same values."""
    order = run(1, JOIN, [True], id=[1], price=[1], priced=[5], paid=[1], paid_at=[None])
    payment = run(2, JOIN, id=[1], price=[None], priced=[None], paid=[7], paid_at=[2])
    merged = pa.concat_tables(merge_runs([[payment], [order]], JOIN, ROOTS))
    needed = JOIN.needed(["price"], merged.column_names)
    assert "paid" not in needed
    assert "paid_at" in needed
    assert rows(read_runs([[merged.select(needed)]], JOIN, ROOTS, ["id", "price"])) == [
        {"id": 1, "price": None}
    ]
    few = file_schema(pa.schema([(name, pa.int64()) for name in ("id", "seq", "x", "y")]), LATEST)
    assert LATEST.needed(["x"], few.names) == ("id", "seq", "x", OP, ROOT_PARTITION)


def test_a_merge_holds_one_batch_of_each_run() -> None:
    """No batch is read before the one that precedes it in its run is merged up to its last key."""
    read: list[int] = []

    def base() -> Iterator[pa.Table]:
        for at in range(0, 1000, 100):
            read.append(at)
            yield run(0, LATEST, id=[*range(at, at + 100)], seq=[0] * 100)

    log = run(1, LATEST, id=[*range(0, 1000, 50)], seq=[1] * 20)
    reads = []
    for table in merge_runs([base(), [log]], LATEST, ROOTS):
        assert table.num_rows <= 201
        reads.append(len(read))
    assert reads == sorted(reads)
    assert reads[0] <= 2
    assert len(reads) >= 9


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_many_rows(*, text: bool) -> None:
    """A base and logs of thousands of rows, in row groups, become what a dictionary would hold."""
    chance = np.random.default_rng(4)
    runs, model = [], {}
    for root, (count, top) in enumerate([(8000, 9000), (3000, 12000), (3000, 12000), (500, 40)]):
        keys = chance.choice(top, count, replace=count > top)
        seqs, deleted = chance.integers(0, 5, count), chance.random(count) < 0.1
        names = [f"https://shop.example/{key * 37:x}" for key in keys] if text else keys.tolist()
        records = pa.table({"id": names, "seq": seqs, "n": np.arange(count)})
        table = with_root(log_rows(records, LATEST, deleted), root)
        runs.append([table.slice(at, 700) for at in range(0, table.num_rows, 700)])
        for key, seq, n, gone in zip(names, seqs.tolist(), range(count), deleted, strict=True):
            if key not in model or model[key][:2] <= (seq, root):
                model[key] = (seq, root, n, gone)
    expected = [{"id": key, "n": model[key][2]} for key in sorted(model) if not model[key][3]]
    assert rows(read_runs(runs, LATEST, ROOTS, ["id", "n"])) == expected


def test_a_range_of_one_run_is_passed_on() -> None:
    """Where no other run has keys, the rows of a run are not touched."""
    base = [run(0, LATEST, id=[at, at + 1], seq=[0, 0]) for at in range(0, 100, 2)]
    log = run(1, LATEST, id=[51], seq=[1])
    alone = [parts for parts in windows([base, [log]], ("id",)) if len(parts) == 1]
    assert sum(part.num_rows for (part,) in alone) >= 95


def test_windows_are_as_few_as_the_batches_of_a_run() -> None:
    """Not every batch of every run ends a window: a run is read on before its rows are used up."""
    runs = []
    for root in range(9):  # their batches end at different keys
        keys = [*range(root, 2000, 9)]
        rows = run(root, LATEST, id=keys, seq=[0] * len(keys))
        starts = [0, *range(root + 1, len(keys), 11)]
        runs.append([rows.slice(a, b - a) for a, b in pairwise([*starts, len(keys)])])
    found = [*windows(runs, ("id",))]
    assert sum(part.num_rows for some in found for part in some) == 2000
    assert len(found) <= 2 * len(runs[0]) < sum(map(len, runs))


def test_words_may_be_dictionaries() -> None:
    """Runs may have dictionaries of their own for a column."""
    parts = []
    for root in range(2):
        table = run(root, LATEST, id=[1 + root, 5], seq=[root, root])
        words = pa.array([f"w{root}", "both"]).dictionary_encode()
        parts.append([table.append_column("word", words)])
    found = rows(read_runs(parts, LATEST, ROOTS, ["id", "word", ROOT_PARTITION]))
    assert [tuple(row.values()) for row in found] == [(1, "w0", 0), (2, "w1", 1), (5, "both", 1)]


def test_errors_name_the_way_out() -> None:
    """Runs that are not sorted, roots that nobody knows, and rules that clash are refused."""
    good, bad = run(1, LATEST, id=[1, 2], seq=[0, 0]), run(2, LATEST, id=[1, 2, 3, 4], seq=[0] * 4)
    with pytest.raises(CorruptTable, match=r"input 1 are not sorted by key from .*1"):
        [*merge_runs([[good], [bad.take([0, 2, 1, 3])]], LATEST, ROOTS)]
    for batches in ([bad.take([2, 0])], [bad.slice(2), bad.slice(0, 2)]):
        with pytest.raises(CorruptTable, match=r"not sorted by key: \(.,\) after \(.,\)"):
            [*merge_runs([[good], batches], LATEST, ROOTS)]
    with pytest.raises(CorruptTable, match="a row has root 77"):
        [*merge_runs([[good], [run(77, LATEST, id=[1], seq=[0])]], LATEST, ROOTS)]
    with pytest.raises(CorruptTable, match="root 1 has two descriptions"):
        RootOrders.of(
            Root(partition=1, instant=n, log_version=1, write_token="t", completed=1)
            for n in range(2)
        )
    with pytest.raises(InvalidInput, match="'id' has two roles"):
        MergeRules(key=("id",), ordering="id")
    with pytest.raises(InvalidInput, match="the primary key is empty"):
        MergeRules(key=())
    with pytest.raises(InvalidInput, match="'latest' keeps whole rows"):
        MergeRules(key=("id",), groups=JOIN.groups)
    with pytest.raises(SchemaMismatch, match="no column 'seq'"):
        LATEST.check(from_arrow(pa.schema([("id", pa.int64())])))
    kinds = from_arrow(pa.schema([("id", pa.int64()), ("seq", pa.list_(pa.int64()))]))
    with pytest.raises(SchemaMismatch, match=r"seq: list.* can not order rows"):
        LATEST.check(kinds)
