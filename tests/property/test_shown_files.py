"""What versions show in files, over random histories: files, clips, deletions, positions, facts."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import (
    ShownFile,
    changed_files,
    difference,
    shown_files,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.time import Interval, joined
from tests.examples import examples
from tests.property.changes_model import script
from tests.property.changes_played import Held, Ours
from tests.property.overshadow_model import segments
from tests.property.test_keyed_tables import World, keyed_table
from tests.property.test_overshadow_random import LAST, legal_family, some_chunks, walk
from tests.property.test_packed_chunks import packed
from tests.property.test_windows import played
from tests.support.builders import created
from tests.unit.publishing.published_rows import published_rows


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


@examples(12)
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
    for seed in range(5):
        ours = Ours()
        for step in script(Random(seed), 80):
            ours.play(step)
        files = [file for state in ours.past for file in shown_files(state).values()]
        deleted += sum(bool(file.deletions) for file in files)
        differing += check_changes(ours.past, Random(seed), 10)
    assert min(deleted, differing) > 20


def placed(draw: Random) -> list[Segment]:
    """Return segments of several versions; some pairs of them have one file, carried over."""
    pool = []
    for chunk in some_chunks(draw):
        made = segments(legal_family(draw, 3, 2), chunk)
        name = f"{chunk.interval.start}_{chunk.interval.end}_{chunk.version}"
        for at, each in enumerate(made):
            first = draw.randrange(chunk.interval.start, chunk.interval.end)
            last = draw.randrange(first, chunk.interval.end)
            rows = {"time_min": first, "time_max": last, "path": f"data/{name}_{at}"}
            twins = [s for s in pool if may_be_twin(s, each)] if draw.random() < 0.3 else []
            if twins:
                twin = draw.choice(twins)
                rows = {name: getattr(twin, name) for name in rows}
            pool.append(replace(each, **rows))
    return pool


def may_be_twin(segment: Segment, other: Segment) -> bool:
    """Return whether the rows of a segment's file may be carried over to another one's chunk."""
    interval = other.id.interval
    inside = interval.holds(segment.time_min) and interval.holds(segment.time_max)
    return inside and segment.id.chunk != other.id.chunk


@examples(20)
@given(st.integers(0, 2**32))
def test_clips_are_the_instants_at_which_a_file_is_visible(seed: int) -> None:
    """Of each file exactly the rows at visible instants are shown, whatever hides parts of it."""
    draw = Random(seed)
    pool = {s.id: s for s in placed(draw)}
    once = {(s.path, s.id.chunk): s for s in pool.values()}  # a chunk has a file once
    states = [
        replace(created(), timeline=timeline)
        for timeline, _ in walk(draw, list(once.values()), steps=6, largest=12)
    ]
    for state in states:
        expected: dict[str, set[int]] = {}
        for at in range(LAST):
            for each in state.timeline.visible_segments(Interval(at, at + 1)):
                if each.time_min <= at <= each.time_max:
                    expected.setdefault(each.path, set()).add(at)
        assert expected == {path: instants(file) for path, file in shown_files(state).items()}
    check_changes(states, draw, 5)
    stored = [replace(state, timeline=packed(state.timeline)) for state in states[-2:]]
    assert not changed_files(states[-1], stored[-1])
    check_changes([*states, *stored], draw, 5)


def instants(file: ShownFile) -> set[int]:
    """Return the instants of shown rows of a file."""
    times = range(file.segment.time_min, file.segment.time_max + 1)
    assert file.clips == joined(file.clips)
    return {at for at in times if not file.clips or any(clip.holds(at) for clip in file.clips)}


@examples(5)
@given(st.integers(0, 2**32), st.integers(5, 16))
def test_files_without_the_hidden_positions_are_the_version(seed: int, length: int) -> None:
    """Reading the shown files without the hidden positions gives each kept version's rows."""
    history = played(seed, length)
    newest = history.table.state()
    draw = random.Random(seed)
    for n in {newest.n, draw.randint(newest.retained_from, newest.n)}:
        state = history.table.snapshot(version=n).state
        rows = published_rows(history.table.ports.files, state).select(["row", "price"])
        found = sorted(zip(*rows.to_pydict().values(), strict=True))
        assert found == sorted(row.shown for row in history.versions[n])


@examples(4)
@given(st.integers(0, 2**32), st.sampled_from(["", "seq"]), st.sampled_from(MergeEngine))
def test_a_keyed_version_shows_the_base_files_without_tombstones(
    seed: int, ordering: str, merge: MergeEngine
) -> None:
    """Files and positions give what a read of the base files gives, by any chunks and buckets."""
    draw = Random(seed)
    kind = PrimaryKey(key=("key",), buckets=draw.randint(1, 3), ordering=ordering, merge=merge)
    with TemporaryDirectory() as place:
        world = World(draw, keyed_table(place, kind), ordered=bool(ordering))
        states = []
        for _ in range(12):
            acts = [world.upsert, world.delete, world.compact, world.divide, world.restore]
            draw.choices(acts, [4, 2, 4, 2, 1])[0]()
            states.append(world.table.state())
            world.bests[states[-1].n] = dict(world.best)
        for state in draw.sample(states, 4):
            rows = world.table.scan(version=state.n, base_only=True).to_arrow()
            found = published_rows(world.table.ports.files, state)
            assert in_order(found) == in_order(rows)
        check_changes(states, draw, 6)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows sorted by key."""
    return sorted(rows.to_pylist(), key=lambda row: row["key"])
