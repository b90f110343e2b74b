"""Repair: lost logs come back from files, lost files fall back to inputs, nothing is guessed."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import CommitConflict, InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.recovery.claims import Reason
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.time import HOUR_US, Granularity
from airflow_provider_segtable.data.parquet.descriptor import KEY
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.unit.services.repairing import World, ports_at

SEEDS = (2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 1, 4, 5)))
"""Histories with late appends before compactions of each kind; the others add no kind of case."""


@pytest.mark.parametrize("granularity", [Granularity.HOUR, Granularity.DAY])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_log_comes_back(tmp_path: Path, seed: int, granularity: Granularity) -> None:
    """Whatever happened to a table, its files tell its contents; and life goes on."""
    world = World.begin(tmp_path, seed, granularity=granularity).live(9)
    before = world.contents()
    assert sorted(row for _, row in before) == world.rows
    world.lose_log()
    plan = plan_repair(world.ports)
    assert plan.fresh
    assert plan.blocking == ()
    repair(world.ports, plan)
    assert world.contents() == before
    assert not plan_repair(world.ports).needed
    world.check_alive()
    assert sorted(row for _, row in world.contents()) == world.rows


def visible(world: World) -> list[Segment]:
    """Return the visible segments."""
    return [*Table(world.ports).state().timeline.visible_segments()]


def events(world: World) -> list[Path]:
    """Return the files of the log, in order."""
    return sorted((world.folder / "_segtable" / "timeline").glob("*.json"))


def no_checkpoints(world: World) -> None:
    """Take away all checkpoints."""
    shutil.rmtree(world.folder / "_segtable" / "checkpoints", ignore_errors=True)


def compacted(folder: Path) -> World:
    """Return a table of one hour: three appends, joined."""
    world = World.begin(folder, 0)
    for _ in range(3):
        world.append(1)
    world.compact("minor")
    return world


def test_a_sound_table_needs_nothing(tmp_path: Path) -> None:
    """Nothing is planned, nothing is written."""
    world = compacted(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    plan = plan_repair(world.ports)
    assert (plan.needed, plan.event, plan.doubts) == (False, None, ())
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_rollup_table_comes_back(tmp_path: Path) -> None:
    """The definition in the footers has the rollup, too; events balance after major compaction."""
    rollup = Rollup(
        dimensions=(),
        metrics=(Metric.parse("n=count"), Metric.parse("total=sum(row)")),
        query_granularity=QueryGranularity.HOUR,
    )
    world = World.begin(tmp_path, 1, rollup=rollup)
    for _ in range(3):
        world.append(1, 30)
    world.compact("minor")
    world.append(1)
    world.compact("major", late=True)
    before, table = world.contents(), Table(world.ports).state().table
    world.lose_log()
    repair(world.ports, plan_repair(world.ports))
    assert world.contents() == before
    assert Table(world.ports).state().table == table


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_output_falls_back_to_its_inputs(tmp_path: Path, seed: int) -> None:
    """Whatever compaction made the file, without it the table shows the same rows."""
    world = World.begin(tmp_path, seed).live(8)
    before = world.contents()
    made = [s for s in visible(world) if s.shard.minor_version or s.shard.core]
    for segment in made[:1]:
        (tmp_path / segment.path).unlink()
    plan = plan_repair(world.ports)
    assert plan.blocking == ()
    assert plan.needed is bool(made)
    repair(world.ports, plan)
    assert world.contents() == before
    assert not plan_repair(world.ports).needed
    world.check_alive()
    assert sorted(row for _, row in world.contents()) == world.rows


def test_rows_that_nothing_holds_are_named_first(tmp_path: Path) -> None:
    """A lost append is told with its hour and its rows; it goes only if that is accepted."""
    world = compacted(tmp_path)
    world.append(5)
    (lost,) = (s for s in visible(world) if s.id.interval.start == 5 * HOUR_US)
    (tmp_path / lost.path).unlink()
    plan = plan_repair(world.ports)
    (doubt,) = plan.blocking
    assert (doubt.reason, doubt.interval, doubt.rows) == (Reason.ROWS_LOST, lost.id.interval, 2)
    with pytest.raises(InvalidInput, match="lost: 2 rows"):
        repair(world.ports, plan)
    repair(world.ports, plan_repair(world.ports, Decisions(accept_loss=True)))
    assert [row for _, row in world.contents()] == world.rows[:-2]


def test_a_torn_tail_is_put_aside_and_proven_by_what_is_left(tmp_path: Path) -> None:
    """Events before the tear stay; later readable ones prove their files; the old log is kept."""
    world = World.begin(tmp_path, 3)
    for hour in range(5):
        world.append(hour)
    no_checkpoints(world)
    before, log = world.contents(), events(world)
    torn = log[3].read_bytes()[:40]
    log[3].write_bytes(torn)
    world.restart()
    plan = plan_repair(world.ports)
    assert (plan.fresh, plan.blocking) == (False, ())
    doubtful = [path for doubt in plan.doubts for path in doubt.paths]
    assert len(doubtful) == 1  # the append of the torn event; later events prove theirs
    done = repair(world.ports, plan)
    assert world.contents() == before
    assert (tmp_path / done.aside / "timeline" / log[3].name).read_bytes() == torn
    assert Table(world.ports).state().n == 3
    assert not plan_repair(world.ports).needed
    world.check_alive()


def test_an_unreadable_beginning_with_a_checkpoint_is_no_loss(tmp_path: Path) -> None:
    """Where a checkpoint says what the lost events said, nothing is in doubt."""
    world = World.begin(tmp_path, 3)
    for hour in range(3):
        world.append(hour)
    log = EventLog(world.ports.storage)
    log.checkpoint(log.load())
    before = world.contents()
    events(world)[0].write_bytes(b"{")
    (tmp_path / "_segtable" / "checkpoints" / "_last").unlink()
    plan = plan_repair(world.ports)
    assert plan.doubts == ()
    repair(world.ports, plan)
    assert world.contents() == before


def test_two_files_of_one_id_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """Neither is taken by guess; one can be left out, or both taken."""
    world = compacted(tmp_path)
    world.append(7)
    (one,) = (s for s in visible(world) if s.id.interval.start == 7 * HOUR_US)
    twin = one.path.replace(".parquet", "f.parquet")
    shutil.copy(tmp_path / one.path, tmp_path / twin)
    before = world.contents()
    world.lose_log()
    plan = plan_repair(world.ports)
    assert [doubt.reason for doubt in plan.blocking] == [Reason.SAME_ID]
    both = plan_repair(world.ports, Decisions(also=frozenset([twin])))
    assert both.blocking == ()
    assert sum(s.rows for s in both.shown) == len(before) + 2
    repair(world.ports, plan_repair(world.ports, Decisions(without=frozenset([twin]))))
    assert world.contents() == before


def test_foreign_files_and_rubbish_are_listed_and_left(tmp_path: Path) -> None:
    """What is no segment of this table is neither taken nor touched."""
    world = compacted(tmp_path)
    before = world.contents()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "data" / "mine.parquet")
    (tmp_path / "data" / "torn.parquet").write_bytes(b"PAR1")
    world.lose_log()
    plan = plan_repair(world.ports)
    assert plan.files.foreign == ("data/mine.parquet",)
    assert [*plan.files.unreadable] == ["data/torn.parquet"]
    repair(world.ports, plan)
    assert world.contents() == before
    assert (tmp_path / "data" / "torn.parquet").exists()


class Killed(BaseException):
    """The process ended here."""


class Killing:
    """A storage that ends the process before its ``n``-th change."""

    def __init__(self, below: Storage, n: int) -> None:
        self._below, self._left = below, n

    def __getattr__(self, name: str) -> Any:
        if name in ("create", "replace", "delete"):
            self._left -= 1
            if self._left < 0:
                raise Killed
        return getattr(self._below, name)


@pytest.mark.parametrize("torn", [0, 4])
def test_a_repair_killed_anywhere_is_finished_by_the_next(tmp_path: Path, torn: int) -> None:
    """Between no two writes is a table to be seen with other rows; the next run ends it."""
    world = World.begin(tmp_path / "given", 2)
    for hour in (1, 2, 1, 3, 1):
        world.append(hour)
    no_checkpoints(world)
    before = world.contents()
    events(world)[torn].write_bytes(b"torn")
    for n in range(100):
        folder = tmp_path / str(n)
        shutil.copytree(world.folder, folder)
        ports = ports_at(folder)
        killed = True
        try:
            repair(
                replace(ports, storage=cast("Storage", Killing(ports.storage, n))),
                plan_repair(ports),
            )
            killed = False
        except Killed:
            pass
        again = plan_repair(ports)
        assert again.blocking == ()
        repair(ports, again)
        assert World(ports=ports, random=world.random).contents() == before
        assert not plan_repair(ports).needed
        assert list(violations(Table(ports).state())) == []
        shutil.rmtree(folder)
        if not killed:
            return
    pytest.fail("it never ended")


@pytest.mark.parametrize("torn", [0, 3])
def test_two_repairs_at_once_write_one_log(tmp_path: Path, torn: int) -> None:
    """Both planned the same; the second is told to look again, and finds its work done."""
    world = World.begin(tmp_path, 2)
    for hour in (1, 2, 1, 3):
        world.append(hour)
    no_checkpoints(world)
    before = world.contents()
    events(world)[torn].write_bytes(b"torn")
    one, two = plan_repair(world.ports), plan_repair(world.ports)
    repair(world.ports, one)
    n = Table(world.ports).state().n
    with pytest.raises(CommitConflict, match="plan again"):
        repair(replace(world.ports, author="other"), two)
    assert not plan_repair(world.ports).needed
    assert (Table(world.ports).state().n, world.contents()) == (n, before)


def test_files_of_older_writers_need_a_definition(tmp_path: Path) -> None:
    """Without it the way out is named; with it the table comes back."""
    world = World.begin(tmp_path, 0)
    world.append(1)
    before, table = world.contents(), Table(world.ports).state().table
    for path in (tmp_path / "data").rglob("*.parquet"):
        rows = pq.read_table(path)
        own = {KEY: pq.read_metadata(path).metadata[KEY]}
        pq.write_table(rows.replace_schema_metadata(own), path)
    world.lose_log()
    with pytest.raises(InvalidInput, match="give --time and --granularity"):
        plan_repair(world.ports)
    repair(world.ports, plan_repair(world.ports, Decisions(definition=table)))
    assert world.contents() == before
