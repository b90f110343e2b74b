"""Merging primary-key rows in any order, in any parts: as one record after another is merged."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed.key_groups import Root
from airflow_provider_segtable.data.keyed.merging import merge_runs, read_runs
from tests.examples import examples
from tests.property.merge_model import FIXED, File, Record, roots_of, rules, run_of, schema, visible

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Make = Callable[[int], Any]
Case = tuple[list[File], pa.Schema, MergeRules]
TYPES: list[tuple[pa.DataType, Make]] = [
    (pa.int64(), lambda n: (n - 3) * (1 << 60)),
    (pa.int32(), lambda n: n - 3),
    (pa.string(), lambda n: ["", "a", "a\0", "ab", "b" * 20, "b" * 20 + "é", "ü"][n]),
    (pa.decimal128(20, 3), lambda n: Decimal(n - 3) / 8),
    (pa.timestamp("us", "UTC"), lambda n: EPOCH + timedelta(microseconds=n)),
    (pa.date32(), lambda n: date(2026, 1, 1 + n)),
    (pa.bool_(), lambda n: n % 2 == 1),
    (pa.binary(), lambda n: bytes([n]) * n),
]
seeds = st.integers(0, 2**48)


def case_of(chance: random.Random, *, partial: bool) -> Case:
    """Make files of few keys and few values, so that keys and orders often agree."""
    types = chance.choices(TYPES, k=chance.randint(1, 3))
    kind, ordering = chance.choice(TYPES)
    pool = [
        {f"k{at}": make(chance.randint(0, 6)) for at, (_, make) in enumerate(types)}
        for _ in range(chance.randint(1, 4))
    ]
    authors = [(i, v, token) for i in range(3) for v in range(2) for token in "stuv"]
    files = [
        File(
            Root(partition=at, instant=i, log_version=v, write_token=token, completed=100 + at),
            tuple(record(chance, pool, ordering) for _ in range(chance.randint(1, 6))),
        )
        for at, (i, v, token) in enumerate(chance.sample(authors, chance.randint(1, 6)))
    ]
    how = rules(len(types), partial=partial, ordering=chance.random() < 0.7)
    return files, schema([kind for kind, _ in types], kind), how


def record(chance: random.Random, keys: Sequence[dict[str, Any]], ordering: Make) -> Record:
    """Make a record; a third of the values are null."""

    def maybe(*values: Any) -> Any:
        return None if chance.random() < 0.35 else chance.choice(values)

    seq_c = maybe(*range(4))
    row = {
        **chance.choice(keys),
        "seq": maybe(*map(ordering, range(4))),
        "seq_ab": maybe(*range(4)),
        "a": maybe(*range(9)),
        "b": maybe("u", "v", "w"),
        "seq_c": None if seq_c is None else EPOCH + timedelta(seconds=seq_c),
        "c": maybe([], [1], [1, 2]),
        "x": maybe(*"pqrstu"),
        "y": maybe(*range(9)),
        FIXED: date(2026, 2, 1),
    }
    return Record(row, chance.random() < 0.3)


def batches(chance: random.Random, run: pa.Table) -> list[pa.Table]:
    """Cut a run into batches of some size."""
    size = chance.randint(1, 5)
    return [run.slice(at, size) for at in range(0, run.num_rows, size)]


def shuffled(chance: random.Random, some: Sequence[Any]) -> list[Any]:
    """Return them in another order."""
    return chance.sample(some, len(some))


@pytest.mark.parametrize("partial", [False, True], ids=["latest", "partial_update"])
@examples(100)
@given(seed=seeds)
def test_readers_see_what_the_rules_say(*, partial: bool, seed: int) -> None:
    """A merge of runs, in any order and any batches, shows the rows of the records' own merge."""
    chance = random.Random(seed)
    files, columns, how = case_of(chance, partial=partial)
    runs = [batches(chance, run_of(file, columns, how)) for file in shuffled(chance, files)]
    tables = read_runs(runs, how, roots_of(files), columns.names)
    found = [row for table in tables for row in table.to_pylist()]
    assert found == visible(files, how, columns)


@pytest.mark.parametrize("partial", [False, True], ids=["latest", "partial_update"])
@examples(100)
@given(seed=seeds)
def test_merging_is_associative(*, partial: bool, seed: int) -> None:
    """Merging merges of any parts, in any order, stores the same rows as merging all at once."""
    chance = random.Random(seed)
    files, columns, how = case_of(chance, partial=partial)
    roots = roots_of(files)
    runs = [[run_of(file, columns, how)] for file in files]
    once = [row for table in merge_runs(runs, how, roots) for row in table.to_pylist()]
    while len(runs) > 1:
        runs = shuffled(chance, runs)
        count = chance.randint(2, len(runs))
        runs = [[*merge_runs(runs[:count], how, roots)], *runs[count:]]
    assert [row for table in runs[0] for row in table.to_pylist()] == once


@examples(60)
@given(seed=seeds)
def test_forgotten_tombstones_change_no_read(seed: int) -> None:
    """A base compaction that drops tombstones shows the same rows, also after newer records."""
    chance = random.Random(seed)
    files, columns, how = case_of(chance, partial=True)
    newest = File(
        Root(partition=99, instant=9, log_version=0, write_token="z", completed=999),
        tuple(
            Record({**one.row, "seq": None, "seq_ab": 9, "seq_c": EPOCH + timedelta(days=1)}, False)
            for one in files[0].records
        ),
    )
    how = rules(len(how.key), partial=True, ordering=False)
    roots = roots_of([*files, newest])
    runs = [[run_of(file, columns, how)] for file in files]
    base = [*merge_runs(runs, how, roots, drop_tombstones_before=500)]
    later = [run_of(newest, columns, how)]
    tables = read_runs([base, later], how, roots, columns.names)
    found = [row for table in tables for row in table.to_pylist()]
    assert found == visible([*files, newest], how, columns)
