"""``Table.restore``: an earlier version's rows come back, whatever changed since."""

import random
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    InvalidInput,
    RestoreRefused,
    VersionExpired,
)
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.table.conftest import files, numbers, rows

NOTHING_KEPT = Retention(hours=0, versions=1, orphan_hours=0)


def contents(table: Table, **version: int) -> list[dict[str, Any]]:
    """Return all rows of a version, in order."""
    return sorted(table.snapshot(**version).to_arrow().to_pylist(), key=str)


def compacted(table: Table, kind: str, **wishes: Any) -> None:
    """Carry out compactions of one kind."""
    plans = [known.plan.id for known in request(table.ports, kind, **wishes)]
    results = compact(table.ports, plans, in_process(table.ports.files))
    assert {result.ended for result in results} <= {Ended.COMPLETED, Ended.OVERTAKEN}, results


def sound(table: Table) -> bool:
    """Return whether neither invariants nor files contradict the log."""
    return not [*violations(table.state()), *verify(table.ports, deep=True).findings]


def cleaned(table: Table) -> None:
    """Clean all but the newest version, a day later."""
    table.ports.clock.sleep(86_400)
    clean(table.ports, retention=NOTHING_KEPT)
    assert sound(table)


def test_appends_deletes_and_compactions_are_undone(table: Table) -> None:
    """The rows of the version are back, without a new file; the state before stays readable."""
    old = table.state().n
    table.delete("row < 10")
    compacted(table, "minor")
    table.append(rows(range(50, 60)))
    before = table.state().n
    there = files(table)
    result = table.restore(version=old)
    assert numbers(table) == [*range(40)]
    assert result.n == table.state().n == before + 1
    assert (result.version, result.segments, result.rows) == (old, 8, 40)
    assert {path for path in files(table) - there if not path.startswith("_segtable")} == set()
    assert numbers(table, version=before) == [*range(10, 40), *range(50, 60)]
    assert read_checkpoint(write_checkpoint(table.state())) == table.state()


def test_a_restore_can_be_undone(table: Table) -> None:
    """The version before it is a version as any other."""
    table.delete("row >= 20")
    before = table.state().n
    table.restore(version=2)
    assert numbers(table) == [*range(20)]
    table.restore(version=before)
    assert numbers(table) == [*range(20)]
    table.restore(version=4)
    assert numbers(table) == [*range(40)]


def test_deletes_of_the_version_stay_deleted(table: Table) -> None:
    """Rows deleted by then stay so, rows deleted later come back, also after compactions."""
    table.delete("row < 7")
    old = table.state().n
    table.delete("row < 20")
    table.delete("row >= 30")
    table.restore(version=old)
    assert numbers(table) == [*range(7, 40)]
    table.delete("row < 10")
    assert numbers(table) == [*range(10, 40)]
    compacted(table, "semi-major")
    assert numbers(table) == [*range(10, 40)]
    assert list(violations(table.state())) == []
    cleaned(table)
    assert numbers(table) == [*range(10, 40)]


def test_an_update_is_undone_and_can_be_made_again(table: Table) -> None:
    """The old values are back, and the next update finds them."""
    old = table.state().n
    table.update({"name": "x"}, "row = 4")
    table.restore(version=old)
    assert contents(table) == contents(table, version=old)
    assert table.update({"name": "y"}, "row = 4").deleted == 1
    assert [r["name"] for r in contents(table) if r["row"] == 4] == ["y"]


def test_time_is_cut_as_it_was(table: Table) -> None:
    """A repartition is undone, and appends go where the restored rows are."""
    old = table.state().n
    compacted(table, "major", granularity="day")
    table.append(rows(range(40, 50)))
    table.restore(version=old)
    assert numbers(table) == [*range(40)]
    table.append(rows(range(60, 70)))
    assert numbers(table) == [*range(40), *range(60, 70)]
    compacted(table, "major")
    assert numbers(table) == [*range(40), *range(60, 70)]


def test_times_and_tags_name_versions(table: Table) -> None:
    """A tag keeps a version, so that it can be restored after a cleaning."""
    table.tag("good")
    time = table.state().time
    table.delete("true")
    assert table.restore(as_of=time).version == 5
    assert numbers(table) == [*range(40)]
    table.delete("true")
    compacted(table, "major")
    cleaned(table)
    assert table.restore(tag="good").version == 4
    assert numbers(table) == [*range(40)]


def test_what_was_cleaned_is_refused(table: Table) -> None:
    """The message names the oldest version kept."""
    table.delete("row < 10")
    compacted(table, "major")
    cleaned(table)
    with pytest.raises(VersionExpired, match="version 2 is no longer kept"):
        table.restore(version=2)


def test_unevenly_deleted_roots_are_refused(table: Table) -> None:
    """A repartition, then separate compactions with a delete between: read it, write it again."""
    compacted(table, "major", granularity="day")
    table.append(rows(range(40, 50)))
    compacted(table, "major", granularity="hour")
    table.delete("row in (40, 41)")
    compacted(table, "semi-major", interval=Interval(0, HOUR_US))
    table.delete("row in (42, 43)")
    old, kept = table.state().n, numbers(table)
    compacted(table, "major", granularity="day")
    table.delete("row > 10")
    with pytest.raises(RestoreRefused, match=r"had applied different deletes to rows of .*again"):
        table.restore(version=old)
    assert numbers(table) == [*range(11)]
    assert numbers(table, version=old) == kept


def test_no_version_is_refused(table: Table) -> None:
    """A restore says to what."""
    with pytest.raises(InvalidInput, match="give a version, a time or a tag"):
        table.restore()


def test_the_same_rows_need_no_event(table: Table) -> None:
    """Neither does a dry run, which says what would change."""
    n = table.state().n
    assert table.restore(version=n).n is None
    found = table.restore(version=2, dry_run=True)
    assert (found.n, len(found.regions), found.rows) == (None, 2, 20)
    assert found.state.n == n
    assert table.state().n == n


def test_a_commit_id_restores_once(table: Table) -> None:
    """The second call returns the event of the first."""
    first = table.restore(version=2, commit_id="back")
    table.append(rows(range(50, 60)))
    again = table.restore(version=2, commit_id="back")
    assert (again.n, again.regions, again.rows) == (first.n, first.regions, first.rows)
    assert again.state.n == table.state().n
    assert numbers(table) == [*range(20), *range(50, 60)]


def test_a_result_says_what_came_back(table: Table) -> None:
    """The regions in order, the segments and rows that are visible again, and the event if any."""
    done = table.restore(version=2)
    assert str(done).startswith("version 2 restored in 2 regions of time, ")
    hours = [Interval(at, at + HOUR_US) for at in (0, HOUR_US)]
    assert (done.regions, done.segments, done.rows) == ((*hours,), 4, 20)
    assert done.state.n == 5
    again = table.restore(version=2)
    assert str(again) == "version 2 restored in 0 regions of time, 0 rows in 0 segments: no event"
    emptied = table.restore(version=0)
    assert (len(emptied.regions), emptied.segments, emptied.rows) == (2, 0, 0)


def test_what_landed_is_not_looked_up_again(table: Table) -> None:
    """The tag that it was restored by may be gone."""
    table.tag("good")
    table.delete("true")
    first = table.restore(tag="good", commit_id="back")
    table.untag("good")
    assert table.restore(tag="good", commit_id="back").n == first.n


def test_a_commit_id_of_an_append_restores_nothing(table: Table) -> None:
    """The id landed already, as something else."""
    n = table.append(rows(range(50, 60)), commit_id="mine").n
    done = table.restore(version=2, commit_id="mine")
    assert (done.n, done.version, done.regions, done.rows) == (n, n, (), 0)
    assert table.state().n == n == done.state.n


def test_what_a_repair_took_cannot_come_back(table: Table) -> None:
    """The error says so before anything is written, in a dry run, too."""
    gone = table.state().timeline.visible_segments()[0]
    repaired = TableRepaired(segments=(), lost=(gone.id,), reason="its file is lost")
    commit(table.ports, table.state(), Change(action=repaired, commit_id="repair"))
    for dry_run in (True, False):
        with pytest.raises(RestoreRefused, match=f"memory://t: version 4 showed {gone.id}"):
            table.restore(version=4, dry_run=dry_run)
    assert table.state().n == 5


def test_an_attempt_in_flight_cannot_complete(table: Table) -> None:
    """Its plan is aborted; asked for again, it compacts the restored rows."""
    plan = request(table.ports, "major")[0].plan.id
    table.restore(version=2)
    known = table.state().plans[plan]
    assert (known.status.value, known.note) == ("aborted", "version 2 was restored")
    compacted(table, "major")
    assert numbers(table) == [*range(20)]


def test_a_delete_begun_before_looks_again(table: Table) -> None:
    """Its rows may be gone, so the log refuses what it found before the restore."""
    table.delete("row = 12", commit_id="vector")
    state = table.state()
    event = table.ports.log.event(state.n)
    assert event is not None
    assert isinstance(event.action, RowsChanged)
    table.restore(version=1)
    late = commit(table.ports, state, Change(action=event.action, commit_id="late"))
    assert isinstance(late, Conflict)
    assert "undone" in late.reason
    assert table.delete("row = 2").deleted == 1


def test_an_overwrite_begun_before_looks_again(table: Table) -> None:
    """Rows that came back in its time would be doubled."""
    old = table.state()
    table.delete("true")
    state, hour = table.state(), Interval(0, HOUR_US)
    table.restore(version=old.n)
    action = RowsChanged(kind="overwrite", seen=state.n, overwritten=(hour,))
    late = commit(table.ports, state, Change(action=action, commit_id="late"))
    assert isinstance(late, Conflict)
    assert late.winner == table.state().n


def test_a_rollup_table_is_restored(table: Table) -> None:
    """Its deletes are conditions: those of the version stay, later ones are undone."""
    kind = Rollup(
        dimensions=("name",),
        metrics=(Metric.parse("total=sum(price)"), Metric.parse("rows=sum(row)")),
    )
    clock = table.ports.clock
    ports = replace(table.ports, storage=MemoryStorage(clock=clock), files=MemoryFiles())
    plain = replace(table.state().table, table_id="r")
    daily = create_table(ports, of_kind(plain, kind))
    for turn in range(3):
        daily.append(rows(range(turn * 10, turn * 10 + 10)))
    daily.delete("name = 'n1'")
    daily.append(rows(range(30, 40)))
    old = daily.state().n
    daily.delete("name = 'n2'")
    compacted(daily, "major")
    daily.restore(version=old)
    assert contents(daily) == contents(daily, version=old)
    daily.delete("name = 'n2'")
    before = contents(daily)
    assert {row["name"] for row in before} == {None, "n1"}
    compacted(daily, "minor")
    assert sum(r["total"] for r in contents(daily)) == sum(r["total"] for r in before)
    assert list(violations(daily.state())) == []


def test_a_rollup_table_is_restored_back_and_forth(table: Table) -> None:
    """A delete that a restore dropped applies again in the versions that had it, and only there."""
    metrics = (Metric.parse("total=sum(price)"), Metric.parse("rows=sum(row)"))
    kind = Rollup(dimensions=("name",), metrics=metrics)
    ports = replace(
        table.ports, storage=MemoryStorage(clock=table.ports.clock), files=MemoryFiles()
    )
    daily = create_table(ports, of_kind(replace(table.state().table, table_id="r"), kind))
    daily.append(rows(range(10)))
    whole = daily.state().n
    daily.delete("name = 'n1'")
    deleted = daily.state().n
    daily.restore(version=whole)
    again = daily.state().n
    for version in (deleted, again, deleted, whole):
        daily.restore(version=version)
        assert contents(daily) == contents(daily, version=version)
        assert {row["name"] for row in contents(daily)} == (
            {None, "n2"} if version == deleted else {None, "n1", "n2"}
        )
    assert list(violations(daily.state())) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_come_back(table: Table, seed: int) -> None:
    """Whatever was appended, deleted, compacted, cleaned and restored before."""
    draw, known = random.Random(seed), {table.state().n: contents(table)}
    following = 100

    def restored() -> None:
        kept = [n for n in known if table.state().keeps(n)]
        version = draw.choice(kept)
        table.restore(version=version)
        assert contents(table) == known[version]

    for _ in range(20):
        low = draw.randrange(following)
        kind = draw.choice(["minor", "semi-major", "major"])
        match draw.randrange(7):
            case 0:
                table.append(rows(range(following, following + 6)))
                following += 6
            case 1:
                table.delete(f"row >= {low} and row < {low + 4}")
            case 2:
                table.update({"name": f"u{low}"}, f"row >= {low} and row < {low + 3}")
            case 3 | 4:
                attempted(table, kind, draw)
            case 5:
                table.ports.clock.sleep(1)
                clean(table.ports, retention=Retention(hours=0, versions=12, orphan_hours=0))
            case _:
                restored()
        assert sound(table)
        known[table.state().n] = contents(table)
    restored()


def attempted(table: Table, kind: str, draw: random.Random) -> None:
    """Compact, if there is anything to compact."""
    wishes = {"granularity": draw.choice(["hour", "day"])} if kind == "major" else {}
    before = contents(table)
    try:
        compacted(table, kind, **wishes)
    except (InvalidInput, CommitConflict):
        return
    assert contents(table) == before
