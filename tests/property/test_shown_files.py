"""What versions show in files, over random histories: files, clips, deletions, positions, facts."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing.shown import (
    changed_files,
    difference,
    shown_files,
)
from airflow_provider_segtable.core.publishing.shown_file import ShownFile
from airflow_provider_segtable.data.parquet.segment_scan import SourceFile
from airflow_provider_segtable.data.publishing.file_facts import facts_of
from airflow_provider_segtable.data.publishing.hidden_rows import hidden_rows
from airflow_provider_segtable.table.table import Table
from tests.examples import examples
from tests.property.changes_model import script
from tests.property.changes_played import Held, Ours
from tests.property.test_windows import played


def check_changes(states: Sequence[State], draw: Random, count: int) -> int:
    """Compare changes between versions, in either direction, with all files of both."""
    found = 0
    for _ in range(count):
        before, after = draw.choice(states), draw.choice(states)
        changes = changed_files(before, after)
        assert changes == difference(shown_files(before), shown_files(after))
        found += bool(changes)
    for before, after in pairwise(states):
        assert changed_files(before, after) == difference(shown_files(before), shown_files(after))
    return found


def rows_shown(ours: Ours, files: Iterable[ShownFile]) -> Iterator[Held]:
    """Yield the rows that shown files have, by the model's own reading of deletions."""
    for file in files:
        gone = {
            (root, index)
            for root, some in file.deletions
            for each in some
            for index in ours.vectors[each.path][root]
        }
        for held in ours.addressed(file.segment):
            clipped = file.clips and not any(clip.holds(held.row.at) for clip in file.clips)
            if not clipped and (held.root, held.index) not in gone:
                yield held


@examples(40)
@given(st.integers(0, 2**32))
def test_shown_files_of_any_history_have_the_rows_that_readers_find(seed: int) -> None:
    """Each version's files show its rows, and changes between versions equal their difference."""
    ours = Ours()
    for step in script(Random(seed), 60):
        ours.play(step)
    kept = [*ours.past[ours.state.retained_from :], ours.state]
    for state in kept[-6:]:
        found = sorted(held.row for held in rows_shown(ours, shown_files(state).values()))
        assert found == sorted(held.row for held in ours.read(state))
    check_changes([*ours.past, ours.state], Random(seed), 10)


def test_the_histories_reach_what_is_interesting() -> None:
    """Files have deletions, and differ between versions in these histories."""
    deleted = differing = 0
    for seed in range(20):
        ours = Ours()
        for step in script(Random(seed), 80):
            ours.play(step)
        files = [file for state in ours.past for file in shown_files(state).values()]
        deleted += sum(bool(file.deletions) for file in files)
        differing += check_changes(ours.past, Random(seed), 10)
    assert min(deleted, differing) > 100


def published(table: Table, state: State) -> list[dict[str, Any]]:
    """Return the rows that a reader finds who knows files, positions and nothing else."""
    files = shown_files(state)
    hidden = hidden_rows(table.ports.files, state.table, files.values())
    facts = facts_of(table.ports.files, state.table, (file.segment for file in files.values()))
    found = []
    for path in files:
        with table.ports.files.open(path) as source:
            rows = pq.read_table(SourceFile(source))
        kept = [at for at in range(rows.num_rows) if at not in hidden.get(path, ())]
        found += rows.take(pa.array(kept, pa.int64())).select(["row", "price"]).to_pylist()
        assert len(hidden.get(path, ())) < rows.num_rows or not kept
        bounded(rows, facts[path].columns)
    return found


def bounded(rows: pa.Table, facts: Any) -> None:
    """Check the facts of a file of the flat table of the histories."""
    for number, name in enumerate(["at", "row", "name", "price"], start=1):
        column = rows.column(name)
        if name == "at":
            column = column.cast(pa.int64())
        values = column.drop_null().to_pylist()
        assert (facts[number].low, facts[number].high) == (min(values), max(values))
        assert facts[number].nulls == column.null_count
        assert facts[number].nan == (name == "price")


@examples(5)
@given(st.integers(0, 2**32), st.integers(5, 16))
def test_files_without_the_hidden_positions_are_the_version(seed: int, length: int) -> None:
    """Reading the shown files without the hidden positions gives each kept version's rows."""
    history = played(seed, length)
    newest = history.table.state()
    draw = random.Random(seed)
    for n in {newest.n, draw.randint(newest.retained_from, newest.n)}:
        state = history.table.snapshot(version=n).state
        found = sorted((row["row"], row["price"]) for row in published(history.table, state))
        assert found == sorted(row.shown for row in history.versions[n])
