"""Merging primary-key rows in any order, in any parts: as one record after another is merged."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeRules
from airflow_provider_segtable.data.merge.merge_runs import merge_runs, read_runs
from airflow_provider_segtable.data.merge.root_orders import Root
from tests.property.merge_model import FIXED, File, Record, roots_of, rules, run_of, schema, visible

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Make = Callable[[int], Any]
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
kinds = st.integers(0, len(TYPES) - 1)
few = st.integers(0, 6)


@st.composite
def records(draw: st.DrawFn, keys: Sequence[Make], ordering: Make) -> Record:
    """Draw a record of few values, so that keys and orders often agree."""
    maybe = st.one_of(st.none(), st.integers(0, 3))
    key = {f"k{at}": make(draw(few)) for at, make in enumerate(keys)}
    seq, seq_c = draw(maybe), draw(maybe)
    row = {
        **key,
        "seq": None if seq is None else ordering(seq),
        "seq_ab": draw(maybe),
        "a": draw(maybe),
        "b": draw(st.one_of(st.none(), st.sampled_from(["u", "v"]))),
        "seq_c": None if seq_c is None else EPOCH + timedelta(seconds=seq_c),
        "c": draw(st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=2))),
        "x": draw(st.one_of(st.none(), st.sampled_from(["p", "q", "r"]))),
        "y": draw(maybe),
        FIXED: date(2026, 2, 1),
    }
    return Record(row, draw(st.integers(0, 3)) == 0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[File], pa.Schema, MergeRules]:
    """Draw files of records, in order of completion, and a table's columns and rules."""
    types = [TYPES[at] for at in draw(st.lists(kinds, min_size=1, max_size=3))]
    kind, ordering = TYPES[draw(kinds)]
    authors = draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from("stuv")),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    makes = [make for _, make in types]
    files = [
        File(
            Root(
                partition=at,
                instant=instant,
                log_version=version,
                write_token=token,
                completed=100 + at,
            ),
            tuple(draw(st.lists(records(makes, ordering), min_size=1, max_size=8))),
        )
        for at, (instant, version, token) in enumerate(authors)
    ]
    how = rules(len(types), partial=draw(st.booleans()), ordering=draw(st.booleans()))
    return files, schema([kind for kind, _ in types], kind), how


def batches(draw: st.DrawFn, run: pa.Table) -> list[pa.Table]:
    """Cut a run into batches of any size."""
    size = draw(st.integers(1, 9))
    return [run.slice(at, size) for at in range(0, run.num_rows, size)]


@settings(max_examples=300)
@given(cases(), st.data())
def test_readers_see_what_the_rules_say(
    case: tuple[list[File], pa.Schema, MergeRules], data: st.DataObject
) -> None:
    """A merge of runs, in any order and any batches, shows the rows of the records' own merge."""
    files, columns, how = case
    arrived = data.draw(st.permutations(files))
    runs = [batches(data.draw, run_of(file, columns, how)) for file in arrived]
    names = columns.names
    found = [row for t in read_runs(runs, how, roots_of(files), names) for row in t.to_pylist()]
    assert found == visible(files, how, columns)


@settings(max_examples=300)
@given(cases(), st.data())
def test_merging_is_associative(
    case: tuple[list[File], pa.Schema, MergeRules], data: st.DataObject
) -> None:
    """Merging merges of any parts, in any order, stores the same rows as merging all at once."""
    files, columns, how = case
    roots = roots_of(files)
    runs = [[run_of(file, columns, how)] for file in files]
    once = [row for table in merge_runs(runs, how, roots) for row in table.to_pylist()]
    while len(runs) > 1:
        some = data.draw(st.sets(st.sampled_from(range(len(runs))), min_size=2))
        rest = [run for at, run in enumerate(runs) if at not in some]
        made = merge_runs([runs[at] for at in data.draw(st.permutations(sorted(some)))], how, roots)
        runs = data.draw(st.permutations([*rest, [*made]]))
    assert [row for table in runs[0] for row in table.to_pylist()] == once
