"""The doctor: each trouble of operation is named with its way out, and health is silent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, LockLost, StorageError
from airflow_provider_segtable.core.locks import FencingToken, Generation, LockRequest
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanInflight,
    PlanYielded,
)
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, event_path
from airflow_provider_segtable.core.log.state import IdSpace, IdSpaces
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.planning.findings.health_findings import Bounds, Observed, diagnose
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.ports.coordination import StrayNode
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.log_directory import ClaimedBuckets
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.append import AppendTicket, append
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.services.conftest import rows
from tests.unit.services.test_planner import clock_of

MINUTES, HOURS = 60.0, 3600.0


def found(ports: TableContext, code: str, **bounds: Any) -> list[Finding]:
    """Return the findings of one code."""
    return [f for f in examine(ports, Bounds(**bounds)).findings if f.code == code]


def launched(ports: TableContext) -> list[str]:
    return [launch.plan_id for launch in plan_table(ports).launches]


def lock(ports: TableContext, purpose: str = "something") -> Any:
    """Take a lock on the first visible segment."""
    first = Table(ports).state().timeline.visible_segments()[0]
    asked = LockRequest(
        table="t",
        group=f"group of {purpose}",
        purpose=purpose,
        holder="host-a pid 1",
        segments=frozenset({first.id}),
    )
    return ports.coordinator.acquire(asked, wait_s=0)


def test_a_table_that_is_looked_after_gives_no_finding(ports: TableContext) -> None:
    """After a compaction, with nobody at work, there is nothing to say."""
    compact(ports, launched(ports), in_process(ports.files))
    assert examine(ports).findings == ()


def test_work_under_way_is_no_trouble(ports: TableContext) -> None:
    """A plan in flight with its worker alive is as it should be, however long it takes."""
    seen = []

    def execute(jobs: Sequence[Any]) -> Iterator[Any]:
        clock_of(ports).advance(50 * MINUTES)
        seen.append(examine(ports))
        yield from in_process(ports.files)(jobs)

    compact(ports, launched(ports), execute)
    assert seen[0].findings == ()


def test_a_plan_without_worker_is_named_after_a_while(ports: TableContext) -> None:
    """How long it waits, and the command that carries it out."""
    plans = launched(ports)
    clock_of(ports).advance(29 * MINUTES)
    assert found(ports, "abandoned-plan") == []
    clock_of(ports).advance(2 * MINUTES)
    told = found(ports, "abandoned-plan")
    assert sorted(f.where for f in told) == sorted(plans)
    assert "31 min" in told[0].what
    assert told[0].do == f"segtable compact {ports.uri} {told[0].where}"
    assert found(ports, "abandoned-plan", pending_minutes=60) == []


def test_without_coordinator_nobody_is_called_dead(ports: TableContext) -> None:
    """No address: liveness is unchecked, and the plans may be in good hands."""
    launched(ports)
    clock_of(ports).advance(3 * HOURS)
    told = examine(replace(ports, optional_coordinator=None)).findings
    assert [(f.code, f.severity) for f in told] == [("no-coordinator", Severity.UNCHECKED)]


def test_a_coordinator_that_does_not_answer_is_critical(ports: TableContext) -> None:
    """It is a finding, not an error, and everything else is still looked at."""

    class Silent(MemoryCoordinator):
        """Nobody there."""

        def progress(self, table: str) -> Any:
            """Fail."""
            raise CoordinatorUnavailable(f"no ZooKeeper answers for {table}")

    silent = Silent(ports.clock, MemoryService())
    clock_of(ports).advance(48 * HOURS)
    told = examine(replace(ports, optional_coordinator=silent)).findings
    assert [(f.code, f.severity) for f in told] == [
        ("no-coordinator", Severity.CRITICAL),
        ("not-compacted", Severity.WARNING),
    ]
    assert "no ZooKeeper answers" in told[0].what


def test_a_node_that_nobody_can_read_is_named(ports: TableContext) -> None:
    """Critical where it may be a lock, a warning where it counts for nothing; with the way out."""

    class Littered(MemoryCoordinator):
        """Somebody put nodes there."""

        def strays(self, table: str) -> tuple[StrayNode, ...]:
            """Return one of each."""
            assert table
            return tuple(
                StrayNode(name=f"locks/{blocks}", why="junk", blocks=blocks)
                for blocks in (True, False)
            )

    littered = Littered(ports.clock, MemoryService())
    told = [
        f
        for f in examine(replace(ports, optional_coordinator=littered)).findings
        if f.code == "stray-node"
    ]
    assert [f.severity for f in told] == [Severity.CRITICAL, Severity.WARNING]
    assert told[0].do.endswith(f"segtable locks {ports.uri} --release locks/True")


def test_an_old_lock_is_named_with_its_holder(ports: TableContext) -> None:
    """And with the command that frees it."""
    held = lock(ports)
    clock_of(ports).advance(61 * MINUTES)
    (told,) = found(ports, "old-lock")
    assert "host-a pid 1 has held its lock for 61 min, for something" in told.what
    assert told.do.endswith(f"segtable locks {ports.uri} --release group of something")
    held.release()
    assert found(ports, "old-lock") == []


def test_a_worker_that_does_not_move_is_named(ports: TableContext) -> None:
    """Two looks at the same report are needed; one is not enough."""
    lock(ports).report({"done": "3"})
    assert [f.code for f in examine(ports).findings] == []
    (told,) = [f for f in examine(ports, watch_s=30).findings if f.code == "no-progress"]
    assert "done 3" in told.what
    assert 30 in clock_of(ports).slept


def test_attempts_that_died_are_counted_towards_the_bound(ports: TableContext) -> None:
    """The last but one is critical: one more, and the plan is given up."""
    plans = launched(ports)
    assert found(ports, "dying-attempts") == []
    compact(ports, plans, lambda _: iter(()))
    told = found(ports, "dying-attempts")
    assert {f.severity for f in told} == {Severity.CRITICAL}  # the table's bound is 2
    assert "1 of at most 2 attempts died" in told[0].what


def test_giving_way_often_is_told(ports: TableContext) -> None:
    """It is no death, and no trouble yet."""
    (plan, *_) = launched(ports)
    for turn in range(3):
        state = Table(ports).state()
        token = FencingToken("e", turn)
        start = PlanInflight(plan_id=plan, attempt=f"{turn}", token=token, outputs=())
        commit(ports, state, Change(action=start, commit_id=f"start-{turn}"))
        gave_way = PlanYielded(plan_id=plan, attempt=f"{turn}", reason="an ingest came")
        commit(ports, state, Change(action=gave_way, commit_id=f"yield-{turn}"))
    (told,) = examine(ports).findings
    assert (told.code, told.severity) == ("gave-way-often", Severity.INFO)
    assert "3 times, last: an ingest came" in told.what


def test_ids_of_dead_writers_are_named(
    ports: TableContext, other: TableContext, service: MemoryService
) -> None:
    """While the writer lives they are its own; then they break adjacency until voided."""
    chunk = Table(ports).state().timeline.visible_chunks()[0]
    alive: list[list[Finding]] = []

    def die(_: AppendTicket) -> list[object]:
        Table(ports).append(rows(9))
        alive.append(found(ports, "abandoned-ids"))
        service.expire(other.coordinator.session)  # type: ignore[attr-defined]
        raise LockLost("died")

    with pytest.raises(LockLost):
        append(other, lambda _: ({chunk.interval: 1}, die), commit_id="dead")  # type: ignore[arg-type]
    assert alive == [[]]
    (told,) = found(ports, "abandoned-ids")
    assert (told.where, told.do) == (str(chunk), f"segtable plan {ports.uri} --request")
    plan_table(ports)
    assert found(ports, "abandoned-ids") == []


def test_chunks_that_rest_after_an_abort_are_named(ports: TableContext) -> None:
    """With the reason of the abort."""
    (plan, *_) = launched(ports)
    state = Table(ports).state()
    given_up = PlanAborted(plan_id=plan, attempt=None, reason="out of memory")
    commit(ports, state, Change(action=given_up, commit_id="abort"))
    (told,) = found(ports, "stuck-chunk")
    assert "out of memory" in told.what
    assert told.where in told.do


def test_what_waits_for_the_next_run_is_not_stuck(ports: TableContext) -> None:
    """The number of plans in a run is used up: the next run makes the others."""
    Table(ports).alter(set={"compaction.max_plans": "1"})
    assert found(ports, "stuck-chunk") == []
    Table(ports).alter(set={"compaction.max_plan_bytes": "10"})
    told = found(ports, "stuck-chunk")
    assert len(told) == 2
    assert "max_plan_bytes=BYTES" in told[0].do


def test_a_late_checkpoint_is_named(ports: TableContext) -> None:
    """Counted from the newest one, or from the start."""
    (told,) = found(ports, "late-checkpoint", checkpoint_events=4)
    assert "5 events" in told.what
    EventLog(ports.storage).checkpoint(Table(ports).state())
    assert found(ports, "late-checkpoint", checkpoint_events=4) == []


def test_a_clock_behind_the_log_is_critical(ports: TableContext) -> None:
    """The newest event is from this machine's future."""
    clock_of(ports).jump(clock_of(ports).now() - 120_000_000)
    (told,) = found(ports, "clock-skew")
    assert told.severity is Severity.CRITICAL
    assert "120 s ahead" in told.what
    assert found(ports, "clock-skew", clock_skew_s=150) == []


def test_a_clock_behind_the_coordinator_is_critical(ports: TableContext) -> None:
    """A lock was granted in this machine's future."""
    clock_of(ports).advance(HOURS)
    lock(ports)
    clock_of(ports).jump(clock_of(ports).now() - 120_000_000)
    (told,) = found(ports, "clock-skew")
    assert "ZooKeeper" in told.what


def test_compaction_that_pays_and_does_not_happen_is_named(ports: TableContext) -> None:
    """After a day, not before; and never if there is nothing to gain."""
    assert found(ports, "not-compacted") == []
    clock_of(ports).advance(25 * HOURS)
    (told,) = found(ports, "not-compacted")
    assert "25 h" in told.what
    assert f"segtable compact {ports.uri} --all" in told.do


def test_a_policy_nobody_can_carry_out_is_critical(ports: TableContext) -> None:
    """A clustering by a column that the table does not have stops every planner run."""
    state = Table(ports).state()
    properties = {"compaction.clustering": "nowhere"}
    other = replace(ports, storage=type(ports.storage)())
    poisoned = replace(state.table, properties=properties)  # an older segtable did not refuse it
    made = Event(n=0, time=state.base_version, commit="c", author="older", action=poisoned)
    other.storage.create(event_path(0), encode(made))
    (told,) = found(other, "bad-policy")
    assert "nowhere" in told.what


def test_files_that_nothing_names_are_counted_after_a_while(
    ports: TableContext, tmp_path: Path
) -> None:
    """Young ones may belong to somebody who is still writing; committed ones never count."""
    local = replace(ports, storage=LocalStorage(tmp_path), files=LocalFiles(tmp_path))
    create_table(local, Table(ports).state().table)
    Table(local).append(rows(0))
    (tmp_path / "data" / "_runs").mkdir()
    (tmp_path / "data" / "_runs" / "left.parquet").write_bytes(b"x" * 2048)
    written = (tmp_path / "data" / "_runs" / "left.parquet").stat().st_mtime_ns // 1000
    clock_of(local).jump(written + 3_600_000_000)
    assert found(local, "orphans") == []
    (told,) = found(local, "orphans", orphan_hours=0.5)
    assert (told.severity, "1 unreferenced files (2.0 KiB)" in told.what) == (Severity.INFO, True)
    assert "data/_runs/left.parquet" in told.what


def test_a_listing_that_fails_is_unchecked(ports: TableContext) -> None:
    """Nobody knows what is there, and the rest is still looked at."""

    class Refusing(type(ports.storage)):  # type: ignore[misc]
        """Storage that lists nothing."""

        def list(self, prefix: str, *, after: str | None = None) -> Any:
            """Refuse what the log does not need."""
            if prefix in ("data", CHECKPOINTS):
                raise StorageError(f"{prefix}: permission denied after {after}")
            return super().list(prefix, after=after)

    storage = Refusing()
    storage._objects = ports.storage._objects  # type: ignore[attr-defined]
    told = examine(replace(ports, storage=storage)).findings
    assert [f.severity for f in told] == [Severity.UNCHECKED] * 2


def test_ids_that_run_out_are_critical(ports: TableContext) -> None:
    """Before the limit, while a major compaction still starts afresh."""
    state = Table(ports).state()
    chunk = state.timeline.visible_chunks()[0]
    spaces = IdSpaces({**state.ids, (chunk, Generation.FIRST): IdSpace(32_000)})
    full = replace(state, ids=spaces)
    seen = Observed(
        table=ports.uri,
        state=full,
        now=ports.clock.now(),
        policy=Policy(),
        planned=Planned(chosen=(), skipped=()),
        locks=(),
        checkpoint=4,
    )
    (told,) = diagnose(seen, Bounds())
    assert (told.code, told.severity) == ("limit-near", Severity.CRITICAL)
    assert "--kind major" in told.do


def test_looking_writes_nothing(ports: TableContext) -> None:
    """Neither the log nor the coordinator is changed."""
    before = Table(ports).state()
    examine(ports, watch_s=1)
    assert Table(ports).state() == before
    assert ports.coordinator.locks("t") == ()


def test_a_service_of_a_bucket_that_the_table_does_not_have_is_named(ports: TableContext) -> None:
    """The log store had more buckets when it was opened; those that it has are no finding."""
    ClaimedBuckets(ports.coordinator, "t", service="host:7", deploy_mode=DeployMode.EMBEDDED).take(
        [0, 3], "grpc://127.0.0.1:1"
    )
    (finding,) = found(ports, "unknown-log-bucket")
    assert finding.where.endswith("log store bucket 3")
    assert "host:7 serves it" in finding.what
    assert "log_store.buckets=4" in finding.do


def test_a_command_of_a_finding_is_one_for_a_shell() -> None:
    """An address with a space or a quote is quoted, in each command of the sentence."""
    do = "segtable publish TABLE --full; or segtable clean TABLE, and TABLES stay"
    found = Finding(code="c", severity=Severity.INFO, where="", what="", why="", do=do)
    assert found.of_table("s3://lake/trips").do.count("publish s3://lake/trips --full") == 1
    place = "/data/it's here"
    assert found.of_table(place).do == (
        f"segtable publish {quote(place)} --full; or segtable clean {quote(place)}, and TABLES stay"
    )
