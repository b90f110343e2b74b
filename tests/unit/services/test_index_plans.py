"""The planner run requests indexes of the policy, and plans what indexes lack."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats, FileList
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.planning.properties import OFF, Policy
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out, compact_by_policy
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.services.planner import PlannerRun, plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import rows

NO_COMPACTION = {"compaction.min_segments": "100", "compaction.max_age_minutes": "1e9"}


def with_policy(ports: TableContext, **indexes: str) -> None:
    given = {f"index.{name}": value for name, value in indexes.items()}
    Table(ports).alter(set={**NO_COMPACTION, **given})


def kinds(run: PlannerRun) -> list[str]:
    return [launch.kind for launch in run.launches]


def reasons(run: PlannerRun) -> list[str]:
    return [each.reason for each in run.skipped if each.kind == "index"]


def test_an_index_of_the_policy_is_requested_and_planned(
    ports: TableContext, other: TableContext
) -> None:
    """In one run; the dry run says so and writes nothing, and the next run finds it pending."""
    with_policy(ports, listing="files")
    before = Table(ports).state().n
    dry = plan_table(ports, dry_run=True)
    assert dry.indexes["listing"].startswith("index.listing = files; 8 files of ")
    assert Table(ports).state().n == before
    run = plan_table(ports)
    assert list(run.indexes) == ["listing"]
    assert kinds(run) == ["index"]
    assert "index listing (files) may lack 8 files" in run.launches[0].reason
    again = plan_table(other)
    assert [x.plan_id for x in again.launches] == [x.plan_id for x in run.launches]
    assert not again.indexes


def test_a_list_of_files_is_built_without_reading_them(ports: TableContext) -> None:
    """So its plan has no input, and the engine is never chosen by the size of the table."""
    request_index(ports, "files", FileList())
    request_index(ports, "bounds", ColumnStats(columns=(2,)))
    sizes = {name: requested_plan(ports, name) for name in ("files", "bounds")}
    (listing, bounds) = (known.plan.size for known in sizes.values() if known)
    assert (listing, bounds) == (0, sum(s.size for s in Table(ports).snapshot().segments()))


def test_a_small_table_gets_no_index_yet(ports: TableContext) -> None:
    """The reason names what it has and what it needs; then the index is requested."""
    with_policy(ports, listing="files", min_files="9")
    run = plan_table(ports)
    assert not run.indexes
    (reason,) = reasons(run)
    assert reason.startswith("index listing: the table is too small for it: 8 files of ")
    assert reason.endswith(", of 9 files of 0 B")
    Table(ports).append(rows(9))
    assert list(plan_table(ports).indexes) == ["listing"]


def test_an_index_of_the_name_that_keeps_something_else_stays(ports: TableContext) -> None:
    """The planner drops nothing."""
    request_index(ports, "listing", FileList())
    with_policy(ports, listing="column_stats(row)")
    assert any("drop it, or correct index.listing" in each for each in reasons(plan_table(ports)))


def test_the_policy_can_turn_index_builds_off(ports: TableContext) -> None:
    """Neither requests nor plans."""
    with_policy(ports, listing="files")
    run = plan_table(ports, policy=replace(Policy.read(NO_COMPACTION), indexes=OFF))
    assert (run.launches, run.indexes) == ((), {})


def test_time_that_is_about_to_be_rewritten_is_left_for_later(ports: TableContext) -> None:
    """With a reason; what is not rewritten is built, and the rest is a later plan."""
    request_index(ports, "files", FileList())
    first, second = (chunk.interval for chunk in Table(ports).state().timeline.visible_chunks())
    (minor,) = request(ports, "minor", interval=first)
    Table(ports).alter(set=NO_COMPACTION)
    run = plan_table(ports)
    launch = next(x for x in run.launches if x.kind == "index")
    assert launch.interval == second
    assert reasons(run) == [f"index files: left until plan {minor.plan.id} has rewritten it"]
    (done,) = carry_out(ports, [launch.plan_id], in_process(ports.files))
    assert (done.ended, done.segments_in) == (Ended.COMPLETED, 4)
    index = Table(ports).state().indexes["files"]
    assert [lack.interval for lack in index.lacks] == [first]
    carry_out(ports, [minor.plan.id], in_process(ports.files))
    (later,) = [x for x in plan_table(ports).launches if x.kind == "index"]
    assert later.interval == first
    assert later.plan_id != launch.plan_id


def test_the_last_plan_of_a_run_leaves_out_what_the_others_rewrite(ports: TableContext) -> None:
    """The compactions that the same run chooses count; their commits feed the index."""
    request_index(ports, "files", FileList())
    run = plan_table(ports)
    assert kinds(run) == ["minor", "minor"]
    assert len(reasons(run)) == 2
    compact_by_policy(ports, lambda own, ids: carry_out(own, ids, in_process(own.files)))
    state = Table(ports).state()
    assert state.indexes["files"].current
    assert {known.status for known in state.plans.values()} == {PlanStatus.COMPLETED}


def test_what_an_index_lacks_later_is_a_new_plan(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An available index is caught up with by the planner, too."""
    with_policy(ports, listing="files")
    first = plan_table(ports).launches
    carry_out(ports, [x.plan_id for x in first], in_process(ports.files))
    assert plan_table(ports).launches == ()
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)
    Table(ports).append(rows(9))
    (second,) = plan_table(ports).launches
    assert second.plan_id != first[0].plan_id
    assert "1 commit did not feed it" in second.reason


def test_an_index_rests_after_an_abort(ports: TableContext) -> None:
    """So many dead workers end its plan; the reason says so, and another index goes on."""
    with_policy(ports, listing="files", second="files")
    Table(ports).alter(set={"compaction.max_attempts": "1"})
    dead = plan_table(ports).launches[0]
    carry_out(ports, [dead.plan_id], lambda _: iter(()))
    run = plan_table(ports)
    assert list(run.aborted) == [dead.plan_id]
    assert any("was aborted" in each and "rests 60 min" in each for each in reasons(run))
    assert len(run.launches) == 1
    (done,) = carry_out(ports, [run.launches[0].plan_id], in_process(ports.files))
    assert done.ended is Ended.COMPLETED


def test_the_kind_can_be_asked_for_by_name(ports: TableContext) -> None:
    """As any other kind; chosen segments are refused."""
    with pytest.raises(InvalidInput, match="the table has no index"):
        request(ports, "index")
    request_index(ports, "files", FileList())
    (known,) = request(ports, "index")
    assert known.plan.kind == "index"
    assert request(ports, "index") == (known,)
    (segment, *_) = Table(ports).snapshot().segments()
    with pytest.raises(InvalidInput, match="not built of chosen segments"):
        request(ports, "index", segments=[segment.id])
