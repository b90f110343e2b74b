"""Errors planted in the code of primary-key tables, each of which the model sees."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log import major_plan
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families import restore_events
from airflow_provider_segtable.core.log.group_plans import GroupPlan, MinorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import RecentCommits
from airflow_provider_segtable.core.reads.selection import MayHold, RecordTests, Selection
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.time import Layout
from airflow_provider_segtable.data import table_kinds
from airflow_provider_segtable.data.keyed import file_groups, merge_job, merging
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.key_groups import Order
from airflow_provider_segtable.services import cleaning, compaction, indexing
from airflow_provider_segtable.table import chosen_files, committer, dropping, upsert
from airflow_provider_segtable.table.changes import arrow_engine
from airflow_provider_segtable.table.indexes import routing
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.keyed.scenario import build
from tests.simulation.scenario import run
from tests.simulation.seeds import beginning_with
from tests.simulation.world import Shape, World

Patch = pytest.MonkeyPatch
SEEDS = 14
NOBODY = Shape(appenders=0, compactors=1, planners=1)
WRITERS = replace(NOBODY, upserters=3, upserts_each=3, asks=2)
JOINERS = replace(
    WRITERS, upserts_each=5, compactors=2, asks=4, deleting=0.4, asked_kinds=(MinorPlan.kind,)
)
"""Base files are the planner's alone, so the asker merges log files above them."""
CHANGERS = replace(NOBODY, upserters=2, changers=3, changes_each=3)
DIVIDERS = replace(NOBODY, upserters=3, upserts_each=3, asks=4)
RESTORERS = replace(NOBODY, upserters=2, restorers=1, restores_each=2)
BASES = replace(RESTORERS, asks=3, taggers=1)
STREAMS = replace(NOBODY, streams=2, batches_each=4)
FOLLOWERS = replace(NOBODY, upserters=2, changers=1, followers=1, cleaners=1, asks=1)
INDEXED = replace(WRITERS, requesters=1, wishes_each=1, builders=1, tenders=1)
MOVERS = replace(NOBODY, upserters=2, asks=1, builders=1, hours=3)
LATE = replace(MOVERS, asks=0, requesters=1, wishes_each=1, deleting=0.0)
CUTTERS = replace(MOVERS, asks=4)
ALTERERS = replace(DIVIDERS, alterers=1, alterations_each=3)
MERGERS = replace(NOBODY, upserters=2, upserts_each=3, changers=1, changes_each=4)
DROPPERS = replace(NOBODY, upserters=1, upserts_each=2, streams=1, batches_each=2, droppers=2)


def slow(seed: int) -> Faults:
    """Nothing but delays, so that writers complete long after they began."""
    return Faults(random=Random(seed), delay=0.1)


def deadly(seed: int) -> Faults:
    """Processes that die."""
    return Faults(random=Random(seed), crash=0.03)


def slices_by_instant(monkeypatch: Patch) -> None:
    """A log file belongs to the slice in whose time its writer began, not in which it completed."""
    right = chosen_files.groups_to_read

    def by_instant(*args: Any, **named: Any) -> Selection[FileGroup]:
        found = right(*args, **named)
        return found.grouped(map(narrowed, found.left))

    def narrowed(group: FileGroup) -> FileGroup:
        bases = [s.created for s in group.segments if s.clustering]
        since = max(bases, default=0)
        kept = [s for s in group.segments if s.clustering or s.created > since]
        return replace(group, segments=tuple(kept))

    monkeypatch.setattr(chosen_files, "groups_to_read", by_instant)


def tombstones_go_early(monkeypatch: Patch) -> None:
    """Tombstones are dropped although older files, and late records, may have the key."""
    monkeypatch.setattr(table_kinds, "_drop_before", lambda *_: 2**62)


def tombstones_go_above_others(monkeypatch: Patch) -> None:
    """A log compaction drops tombstones of keys that the base file still has."""
    right = table_kinds._drop_before
    monkeypatch.setattr(
        table_kinds,
        "_drop_before",
        lambda spec, inputs: 2**62 if inputs[0].shard.root_start else right(spec, inputs),
    )


def late_logs_are_covered(monkeypatch: Patch) -> None:
    """A base file claims the roots of logs that completed after its plan, without their records."""

    def named(plan: GroupPlan, found: Any, counts: Any, state: Any) -> Any:
        end = state.id_space(plan.chunk, Generation.FIRST).next
        wider = replace(plan, root_end=max(plan.root_end, end))
        return right(wider, found, counts, state)

    right = GroupPlan.name_outputs
    monkeypatch.setattr(GroupPlan, "name_outputs", named)
    monkeypatch.setattr(GroupPlan, "imbalance", lambda *_: ())


def instants_of_wall_clocks(monkeypatch: Patch) -> None:
    """A writer's instant is its own clock's, however far that is behind what it has read."""
    monkeypatch.setattr(upsert, "instant_after", lambda ports, _: ports.checked_now())


def buckets_of_before(monkeypatch: Patch) -> None:
    """A log file of the old number of buckets is carried over as it is, to the bucket it had."""
    right = major_plan.home

    def careless(segment: Segment, layout: Layout) -> Place | Conflict:
        return right(replace(segment, buckets=layout.own_buckets(segment.time_min)), layout)

    monkeypatch.setattr(major_plan, "home", careless)


def old_buckets_show_through(monkeypatch: Patch) -> None:
    """With fewer buckets than before, nothing hides the others."""
    monkeypatch.setattr(major_plan, "tombstones", lambda *_: iter(()))


def nothing_goes(monkeypatch: Patch) -> None:
    """A restore hides nothing of what came after its version."""
    monkeypatch.setattr(restore_events, "tombstones", lambda *_: iter(()))


def batches_forgotten(monkeypatch: Patch) -> None:
    """The log does not remember micro-batches, so a replayed one is written again."""
    right = RecentCommits.__getitem__

    def forgetful(known: RecentCommits, name: str) -> int:
        if name.startswith("stream"):
            raise KeyError(name)
        return right(known, name)

    monkeypatch.setattr(RecentCommits, "__getitem__", forgetful)


def groups_in_record_order(monkeypatch: Patch) -> None:
    """A group is ordered by its author alone, not by its own column."""
    right = merging.record_codes

    def careless(orders: Any, roots: Any) -> Any:
        single = len(orders) == 1 and orders[0].values is not None
        return right([Order(None, orders[0].roots)] if single else orders, roots)

    monkeypatch.setattr(merging, "record_codes", careless)


def consumers_unnoticed(monkeypatch: Patch) -> None:
    """Cleaners do not ask for consumers."""
    monkeypatch.setattr(cleaning, "_held", lambda *_: ())


def updates_by_the_row_alone(monkeypatch: Patch) -> None:
    """The feed takes rows of equal roots for equal, whatever became of their registers."""
    right = file_groups._other_records
    monkeypatch.setattr(
        file_groups,
        "_other_records",
        lambda old, new: right(old.select(["__segtable_root_partition"]), new),
    )


def files_left(monkeypatch: Patch) -> None:
    """A drop does not know the names of log files."""
    right = dropping.is_own
    monkeypatch.setattr(dropping, "is_own", lambda path: ".log." not in path and right(path))


def hidden_records_show(monkeypatch: Patch) -> None:
    """A file is left out by an index although its records hide those of other files."""

    def careless(
        tests: RecordTests, segments: Sequence[Segment], may_hold: MayHold
    ) -> tuple[Segment, ...]:
        return tuple(s for s in segments if all(may_hold(s, test) for test in tests.all))

    monkeypatch.setattr(RecordTests, "left", careless)


def rivals_unseen(monkeypatch: Patch) -> None:
    """A writer that lost a race does not look at the feeds of those that landed meanwhile."""
    monkeypatch.setattr(routing, "holds", lambda *_: True)


def keys_unsettled(monkeypatch: Patch) -> None:
    """A run of an index of records leaves the rows that were there before it as they are."""
    monkeypatch.setattr(indexing, "correct_keys", lambda *_: None)


@cache
def survives(faults: Callable[[int], Faults], shape: Shape, seed: int) -> World:
    """Run a seed without errors; a dropped table has a successor, which is exact, too."""
    world = build(seed, shape, faults(seed))
    run(world)
    assert world.newest.life == min(shape.droppers, 1)
    return world


def chunks_cut_carelessly(monkeypatch: Patch) -> None:
    """Rows are divided by their times before the records of their keys are merged."""
    monkeypatch.setattr(merge_job, "_cut", lambda *_: iter(()))
    late_files_uncorrected(monkeypatch)


def late_files_uncorrected(monkeypatch: Patch) -> None:
    """A log file that fits a new chunk is carried over, whatever it hid in the old one."""
    monkeypatch.setattr(major_plan, "_fitting", lambda segment, to, _: major_plan.home(segment, to))


def corrections_unfed(monkeypatch: Patch) -> None:
    """Other indexes are fed with an action's own files, and take that for all of them."""
    monkeypatch.setattr(
        committer._Loop, "_new_files", lambda loop, _: committer.new_files(loop.change.action)
    )
    monkeypatch.setattr(Feed, "covers", lambda *_: True)


def late_files_in_earlier_columns(monkeypatch: Patch) -> None:
    """Late log files of a major compaction are divided in the columns of the plan's start."""
    monkeypatch.setattr(compaction, "replace", lambda attempt, **_: attempt)


def deleted_keys_are_met(monkeypatch: Patch) -> None:
    """A merge takes a key for one that is there if a file has a record of it, also a tombstone."""
    right = arrow_engine._rows_with_keys

    def joined(snapshot: Any, keys: Any, source: pa.Table) -> Any:
        rows, met = right(snapshot, keys, source)
        reader = GroupReader(snapshot.ports.files, snapshot.state.table)
        for segment in snapshot.segments():
            for records in chain(*reader.runs([segment], [*keys.columns])):
                found = keys.find(records)
                met[found[found >= 0]] = True
        return rows, met

    monkeypatch.setattr(arrow_engine, "_rows_with_keys", joined)


def majors_leave_no_base(monkeypatch: Patch) -> None:
    """The outputs of a major compaction are no base."""

    def bare(_: Any, __: Any, segments: Sequence[Segment], ___: Any) -> tuple[Segment, ...]:
        return tuple(replace(s, shard=replace(s.shard, base=0)) for s in segments)

    monkeypatch.setattr(MajorPlan, "with_base", bare)


def restored_files_are_bases(monkeypatch: Patch) -> None:
    """All that a restore brings back is the base of its chunk, also log files."""
    monkeypatch.setattr(restore_events, "base_of", lambda some: some)


def restores_leave_no_base(monkeypatch: Patch) -> None:
    """What a restore brings back is no base."""
    monkeypatch.setattr(restore_events, "base_of", lambda _: ())
    monkeypatch.setattr(restore_events, "_with_bases", lambda segments, _: iter(segments))


PLANTED = [
    (slices_by_instant, slow, WRITERS, 4, "rows"),
    (tombstones_go_early, slow, WRITERS, 2, "rows"),
    (tombstones_go_above_others, slow, JOINERS, 1, "rows"),
    (late_logs_are_covered, slow, WRITERS, 4, "rows"),
    (instants_of_wall_clocks, slow, CHANGERS, 2, "rows"),
    (buckets_of_before, slow, DIVIDERS, 0, "rows|bucket"),
    (old_buckets_show_through, slow, DIVIDERS, 4, "rows"),
    (nothing_goes, slow, RESTORERS, 8, "rows"),
    (batches_forgotten, deadly, STREAMS, 1, "a second time"),
    (groups_in_record_order, slow, CHANGERS, 1, "rows"),
    (consumers_unnoticed, slow, FOLLOWERS, 1, "yet to read was cleaned"),
    (updates_by_the_row_alone, slow, FOLLOWERS, 9, "by its changes"),
    (hidden_records_show, slow, INDEXED, 1, "a scan where"),
    (rivals_unseen, slow, MOVERS, 2, "rows"),
    (keys_unsettled, slow, LATE, 4, "rows"),
    (chunks_cut_carelessly, slow, CUTTERS, 5, "rows"),
    (late_files_uncorrected, slow, CUTTERS, 1, "rows"),
    (corrections_unfed, slow, MOVERS, 0, "no entry about"),
    (late_files_in_earlier_columns, slow, ALTERERS, 11, "rows"),
    (deleted_keys_are_met, slow, MERGERS, 1, "rows"),
    (majors_leave_no_base, slow, DIVIDERS, 0, "base_only"),
    (restored_files_are_bases, slow, BASES, 1, "rows"),
    (restores_leave_no_base, slow, BASES, 24, "base_only"),
    (files_left, slow, DROPPERS, 2, "a drop returned, but left"),
]


def first_that_shows(
    plant: Callable[[Patch], None],
    faults: Callable[[int], Faults],
    shape: Shape,
    seed: int,
    words: str,
) -> int:
    """Return the first seed that an error shows in, beginning with one that it was seen in."""
    for each in beginning_with(seed, SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            try:
                run(build(each, shape, faults(each)))
            except AssertionError as wrong:
                if re.search(words, str(wrong)):
                    return each
    raise AssertionError(f"none of {SEEDS} seeds shows it")


@pytest.mark.parametrize(("plant", "faults", "shape", "seed", "words"), PLANTED)
def test_planted_errors_are_seen(
    plant: Callable[[Patch], None],
    faults: Callable[[int], Faults],
    shape: Shape,
    seed: int,
    words: str,
) -> None:
    """Each error shows in words of its own, in a seed that survives without it."""
    survives(faults, shape, first_that_shows(plant, faults, shape, seed, words))
