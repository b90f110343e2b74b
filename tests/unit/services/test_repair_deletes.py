"""Repair of tables with deletes: what vectors delete is exact, whether they count a person says."""

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.recovery.claims import Reason
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.rollup_kind import QueryGranularity, Rollup
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.health.delete_recovery import Verdict
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.table import Table
from tests.unit.services.repairing import World

APPLY = Decisions(deletes=Verdict.APPLY)
IGNORE = Decisions(deletes=Verdict.IGNORE)


def shown(world: World) -> list[int]:
    return sorted(row for _, row in world.contents())


def delete(world: World, *numbers: int) -> None:
    Table(world.ports).delete(f"row IN ({', '.join(map(str, numbers))})")


def delete_some(world: World) -> None:
    rows = shown(world)
    if rows:
        delete(world, *world.random.sample(rows, max(1, len(rows) // world.random.choice((3, 10)))))


def live(folder: Path, seed: int, steps: int, granularity: Granularity) -> World:
    """Return a table with a history of everything, with deletes between."""
    world = World.begin(folder, seed, granularity=granularity).live(2)
    for _ in range(steps):
        world.step() if world.random.random() < 0.6 else delete_some(world)
    delete_some(world)
    return world


def check_sound(world: World) -> None:
    """Check invariants, files and vectors; then that all kinds of work go on, with equal rows."""
    state = Table(world.ports).state()
    assert [*violations(state)] == []
    found = verify(world.ports, deep=True, all_versions=True).findings
    assert [each for each in found if each.severity.value != "info"] == []
    before = shown(world)
    for kind in ("minor", "semi-major", "major"):
        world.compact(kind)
        assert shown(world) == before
    assert not Table(world.ports).state().pending_plans()
    delete_some(world)
    world.append()
    world.compact("major")
    assert [*violations(Table(world.ports).state())] == []


@pytest.mark.parametrize(
    ("seed", "granularity"), [*enumerate([Granularity.HOUR, Granularity.DAY] * 2)]
)
def test_a_lost_log_comes_back_with_its_deletes(
    tmp_path: Path, seed: int, granularity: Granularity
) -> None:
    """Applied, the files of vectors give equal contents, whatever was compacted before or after."""
    world = live(tmp_path, seed, 8, granularity)
    before = world.contents()
    world.lose_log()
    asked = plan_repair(world.ports)
    assert {doubt.reason for doubt in asked.blocking} <= {Reason.DELETES}
    assert asked.blocking
    plan = plan_repair(world.ports, APPLY)
    assert plan.blocking == ()
    repair(world.ports, plan)
    assert world.contents() == before
    assert not plan_repair(world.ports).needed
    world.restart()
    check_sound(world)


def one_hour(folder: Path) -> World:
    """Return a table of one hour: three appends of two rows."""
    world = World.begin(folder, 0)
    for _ in range(3):
        world.append(0)
    return world


def test_nothing_is_applied_before_somebody_says_so(tmp_path: Path) -> None:
    """The files are listed with what they delete; without a word the repair is refused."""
    world = one_hour(tmp_path)
    delete(world, 0, 3)
    world.lose_log()
    plan = plan_repair(world.ports)
    (doubt,) = plan.blocking
    assert (doubt.reason, doubt.rows) == (Reason.DELETES, 2)
    assert "deletes 2 rows, 2 of them still present" in doubt.note
    assert "--deletes apply or --deletes ignore" in doubt.note
    with pytest.raises(InvalidInput, match="1 doubt to resolve before the repair"):
        repair(world.ports, plan)
    assert not (world.folder / "_segtable").exists()


def test_ignored_deletes_show_their_rows_again(tmp_path: Path) -> None:
    """But for those that a compaction has left out: they are gone for good."""
    world = one_hour(tmp_path)
    delete(world, 0)
    world.compact("semi-major")
    delete(world, 3)
    world.lose_log()
    plan = plan_repair(world.ports, IGNORE)
    assert sorted(plan.delete_recovery.there.values()) == [0, 1]
    repair(world.ports, plan)
    assert shown(world) == [1, 2, 3, 4, 5]
    world.restart()
    check_sound(world)


def test_a_single_file_may_be_left_out(tmp_path: Path) -> None:
    """Of a delete that is known to have failed, say."""
    world = one_hour(tmp_path)
    delete(world, 0)
    delete(world, 3)
    state = Table(world.ports).state()
    (path,) = {each.path for some in state.vectors.values() for each in some if each.n == state.n}
    world.lose_log()
    chosen = Decisions(deletes=Verdict.APPLY, without=frozenset({path}))
    repair(world.ports, plan_repair(world.ports, chosen))
    assert shown(world) == [1, 2, 3, 4, 5]


def test_rows_that_two_files_delete_count_once(tmp_path: Path) -> None:
    """A delete that lost a race left a file that names the same rows: the books stay exact."""
    world = one_hour(tmp_path)
    delete(world, 0, 3)
    folder = tmp_path / "deletes"
    (file,) = folder.iterdir()
    (folder / "lost-race.arrow").write_bytes(file.read_bytes())
    world.lose_log()
    done = repair(world.ports, plan_repair(world.ports, APPLY)).state
    assert [each.rows for some in done.vectors.values() for each in some] == [1, 1]
    world.restart()
    check_sound(world)


def test_an_update_comes_back_with_both_its_sides(tmp_path: Path) -> None:
    """What it deleted is deleted, what it appended is there."""
    world = one_hour(tmp_path)
    Table(world.ports).update({"row": 77}, where="row = 3")
    before = world.contents()
    assert shown(world) == [0, 1, 2, 4, 5, 77]
    world.lose_log()
    repair(world.ports, plan_repair(world.ports, APPLY))
    assert world.contents() == before


def test_hidden_inputs_whose_deleted_rows_nothing_names_are_left_out(tmp_path: Path) -> None:
    """So a lost output never makes deleted rows show again: it is told as a loss."""
    world = one_hour(tmp_path)
    delete(world, 0)
    world.compact("semi-major")
    world.lose_log()
    done = repair(world.ports, plan_repair(world.ports)).state
    assert [s.shard.root_start for s in done.timeline.segments() if s.traced] == [1, 2]
    (segment,) = done.timeline.visible_segments()
    (tmp_path / segment.path).unlink()
    plan = plan_repair(world.ports)
    assert {doubt.reason for doubt in plan.blocking} == {Reason.ROWS_LOST}


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_a_lost_output_falls_back_to_inputs_and_their_vectors(tmp_path: Path, kind: str) -> None:
    """Vectors are kept while inputs are present, so what was deleted stays so."""
    world = one_hour(tmp_path)
    delete(world, 0)
    world.compact(kind)
    delete(world, 3)
    before = world.contents()
    for segment in Table(world.ports).state().timeline.visible_segments():
        (tmp_path / segment.path).unlink()
    plan = plan_repair(world.ports)
    assert plan.blocking == ()
    repair(world.ports, plan)
    assert world.contents() == before
    world.restart()
    check_sound(world)


@pytest.mark.parametrize("torn", [3, 5])
def test_a_torn_event_in_the_middle(tmp_path: Path, torn: int) -> None:
    """Deletes that later events prove are applied again; a torn one itself has to be decided."""
    world = one_hour(tmp_path)
    delete(world, 0)  # event 4
    delete(world, 3)  # event 5
    world.append(0)
    before = world.contents()
    timeline = tmp_path / "_segtable" / "timeline"
    sorted(timeline.glob("*.json"))[torn].write_bytes(b"torn")
    plan = plan_repair(world.ports)
    if torn == 3:
        assert plan.blocking == ()
    else:
        (doubt,) = plan.blocking
        assert (doubt.reason, doubt.rows) == (Reason.DELETES, 1)
        plan = plan_repair(world.ports, APPLY)
    repair(world.ports, plan)
    assert world.contents() == before
    world.restart()
    check_sound(world)


def test_killed_before_its_event_a_repair_is_finished_by_the_next(tmp_path: Path) -> None:
    """The united file is the same then; it is written once."""
    world = one_hour(tmp_path)
    delete(world, 0, 3)
    delete(world, 1)
    before = world.contents()
    world.lose_log()
    plan_repair(world.ports, APPLY).delete_recovery.keep(world.ports)
    there = sorted((tmp_path / "deletes").iterdir())
    repair(world.ports, plan_repair(world.ports, APPLY))
    assert sorted((tmp_path / "deletes").iterdir()) == there
    assert world.contents() == before


def test_an_unreadable_file_of_deletions_is_listed(tmp_path: Path) -> None:
    """What it named reappear, and that is said."""
    world = one_hour(tmp_path)
    delete(world, 0)
    for path in (tmp_path / "deletes").iterdir():
        path.write_bytes(b"torn")
    world.lose_log()
    (doubt,) = plan_repair(world.ports).blocking
    assert (doubt.reason, "reappear" in doubt.note) == (Reason.DELETES, True)
    repair(world.ports, plan_repair(world.ports, APPLY))
    assert shown(world) == [0, 1, 2, 3, 4, 5]


def test_deletes_of_a_rollup_table_are_listed_as_lost(tmp_path: Path) -> None:
    """Predicates live in only in the log; what compaction left out stays out."""
    rollup = Rollup(
        query_granularity=QueryGranularity("hour"),
        dimensions=("row",),
        metrics=(Metric(name="n", kind=MetricKind.COUNT),),
    )
    world = World.begin(tmp_path, 0, rollup=rollup)
    world.append(0)
    world.append(0)
    Table(world.ports).delete("row = 0")
    world.compact("major")
    Table(world.ports).delete("row = 1")
    world.lose_log()
    plan = plan_repair(world.ports)
    assert plan.blocking == ()
    assert any(
        doubt.reason is Reason.DELETES and "only in the log" in doubt.note for doubt in plan.doubts
    )
    repair(world.ports, plan)
    rows: Any = Table(world.ports).snapshot().to_arrow().column("row").to_pylist()
    assert sorted(rows) == [1, 2, 3]
