"""End to end on a real Airflow, ZooKeeper and Spark: planned, emitted, compacted; loaded again.

    pytest tests/airflow/test_stack.py        runs this alone

One Airflow serves all tests. Two of them kill what they can, in the middle of a run.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_segtable.assets.asset_uri import asset_uri
from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanInflight
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.guides import blocks
from tests.support.airflow_api import AssetEvent, Run
from tests.support.airflow_stack import AirflowStack

from . import fleet_ends, fleet_stack, index_dags, log_dags
from .conftest import CONNECTION, Flights, make_flights
from .daily_load import DAG_FILE, DAG_ID, DailyLoad
from .held_file import HeldFile
from .page_client import confirmed
from .preloaded import preload
from .stack_dags import (
    DAGS,
    FOLLOW,
    FOLLOWED,
    FORGET,
    KEYED,
    KEYED_PLANNER,
    MINOR,
    NIGHTLY,
    PLANNER,
    REPORT,
    SALES,
    SHOWN,
    WAITER,
    WATCHED,
)
from .waiting import PATIENCE_S, QUICK, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Flights:
    return make_flights(tmp_path_factory.mktemp("tables"), zookeeper.address)


@pytest.fixture(scope="module")
def stack(flights: Flights, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    dags = tmp_path_factory.mktemp("dags")
    (dags / "flights.py").write_text(DAGS)
    (dags / DAG_FILE.name).write_text(DAG_FILE.read_text().replace("minutes=1", "seconds=1"))
    (guide,) = (text for text in blocks("airflow.md", "python") if "short_circuit" in text)
    (dags / "watched.py").write_text(WATCHED)
    (dags / "lookup.py").write_text(index_dags.INDEX_DAGS)
    (dags / "logged.py").write_text(log_dags.LOG_DAGS)
    (dags / "report.py").write_text(guide.replace("/data/tables/trips", str(flights.root / SALES)))
    (follow,) = (text for text in blocks("airflow.md", "python") if "commits_asset" in text)
    followed = make_flights(flights.root / FOLLOWED, flights.zookeeper, 0)
    place = str(followed.root / followed.name)
    # The processor notes what watches an asset when it reads a DAG that is not paused.
    follow = follow.replace("=[COMMITS]", "=[COMMITS], is_paused_upon_creation=False")
    (dags / "follow.py").write_text(follow.replace("/data/tables/trips", place))
    fleet_stack.make_fleet(flights, dags)
    fleet_ends.make_dags(dags)
    extra = {"zookeeper": flights.zookeeper, "spark_master": "local[1]"}
    connection = {"conn_type": "segtable", "host": str(flights.root), "extra": extra}
    env = {CONNECTION: json.dumps(connection), **QUICK}
    home = preload(tmp_path_factory.mktemp("home"))
    with AirflowStack(home, dags, env, parallelism=8) as started:
        watched = (NIGHTLY, FORGET, REPORT, FOLLOW, *index_dags.IDS, *log_dags.IDS)
        watched = (*watched, fleet_stack.PLANNER, fleet_stack.UPKEEP)
        watched = (*watched, fleet_ends.PLANNER, fleet_ends.REMOTE)
        for dag_id in (PLANNER, MINOR, WAITER, SHOWN, DAG_ID, KEYED_PLANNER, *KEYED, *watched):
            started.unpause(dag_id)
        yield started


def succeeded(stack: AirflowStack, dag_id: str, run_id: str | None = None) -> Run:
    """Run a DAG to its end, or wait for that of a run."""
    run = stack.wait_run(dag_id, run_id or stack.trigger(dag_id), timeout_s=PATIENCE_S)
    failed = [task for task in stack.tasks(dag_id, run.run_id) if task.state == "failed"]
    logs = [line for task in failed for line in stack.task_log(dag_id, run.run_id, task.task_id)]
    for task in failed:
        logs += [x for log in stack.trigger_logs(dag_id, run.run_id, task.task_id) for x in log]
    heard = stack.log_of("scheduler").read_text().splitlines() if failed else []
    logs += [line for line in heard if dag_id in line or "error" in line][-20:]
    assert run.state == "success", "\n".join([*map(str, failed), *logs])
    return run


def plan(stack: AirflowStack, planner: str = PLANNER) -> Run:
    """Run a planner's DAG to its end."""
    run = stack.wait_run(planner, stack.trigger(planner), timeout_s=PATIENCE_S)
    assert run.state == "success", stack.task_log(planner, run.run_id, "plan")
    return run


def why(stack: AirflowStack, run: Run) -> str:
    return "\n".join(stack.task_log(run.dag_id, run.run_id, "compact"))


def test_planned_emitted_compacted_and_waited_for(flights: Flights, stack: AirflowStack) -> None:
    """A planner run emits a minor run, spark-submit compacts, and the deferred sensor goes on.

    The planner also publishes the table, whose writers do not, and another sensor waits for that.
    """
    rows = flights.rows()
    flights.table.alter(set={"publish.delta": "on", "publish.on_commit": "off"})
    shown = stack.trigger(SHOWN)
    waiting = stack.trigger(WAITER, {"interval": "2013-01-01/2014-01-01"})
    planned = plan(stack)
    (minor,) = stack.runs(MINOR)
    minor = stack.wait_run(MINOR, minor.run_id, timeout_s=PATIENCE_S)
    assert minor.state == "success", why(stack, minor)
    assert "completed" in why(stack, minor)
    address = eventually(  # Airflow stores it a moment after it has stored the success
        lambda: stack.links(MINOR, minor.run_id, "compact")["Planner run"],
        "a link to the planner's run",
    )
    assert address.endswith(f"/dags/{PLANNER}/runs/{planned.run_id}")
    assert stack.links(MINOR, minor.run_id, "compact")["Table"] is None
    assert flights.segments() == 1
    assert flights.rows() == rows
    succeeded(stack, WAITER, waiting)
    succeeded(stack, SHOWN, shown)
    published = DeltaTable(flights.table.published()["delta"].address).to_pyarrow_table()
    assert sorted(published["row"].to_pylist()) == rows


def test_the_api_server_shows_the_tables_of_the_connection(
    flights: Flights, stack: AirflowStack
) -> None:
    """The page is mounted beside Airflow's own; a token that is none is refused there, too."""
    status, fleet = stack.page("api/fleet")
    names = {line["table"]: line for line in fleet["data"]["lines"]}
    assert (status, names[flights.name]["rows"]) == (200, len(flights.rows()))
    status, shown = stack.page(f"api/table?table={flights.name}")
    assert (status, shown["version"]) == (200, flights.table.state().n)
    status, refused = stack.page("api/fleet", Authorization="Bearer none")
    assert (status, refused["error"]) == (403, "Refused")


def test_a_table_with_a_primary_key_is_compacted(flights: Flights, stack: AirflowStack) -> None:
    """The planner emits runs for its log files, tasks merge them, and writers go on meanwhile.

    That Spark merges them as well, ``tests/spark`` and ``tests/cluster`` claim.
    """
    schema = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("n", pa.int64())])
    table = Table.create(
        str(flights.root / "orders"),
        schema=schema,
        time_column="day",
        granularity="all",
        primary_key="id",
        buckets=2,
        properties={"compaction.min_segments": "4"},
    )

    def upsert(n: int) -> None:
        ids = range(n, n + 40)
        table.upsert(pa.table([[n] * 40, ids, [n] * 40], schema=schema))

    for n in range(6):
        upsert(n)
    planned = stack.wait_run(KEYED_PLANNER, stack.trigger(KEYED_PLANNER))
    assert planned.state == "success", stack.task_log(KEYED_PLANNER, planned.run_id, "plan")
    upsert(6)
    runs = [run for dag_id in KEYED for run in stack.runs(dag_id)]
    assert runs
    for run in (stack.wait_run(run.dag_id, run.run_id) for run in runs):
        assert run.state == "success", why(stack, run)
    state = table.state()
    assert list(violations(state)) == []
    assert {each.status.value for each in state.plans.values()} == {"completed"}
    assert len(table.snapshot().segments()) <= 4  # two buckets: what was compacted, and one upsert
    found = table.scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(i, min(i, 6)) for i in range(46)]


def driver_of(stack: AirflowStack) -> psutil.Process | None:
    """Return the Python process of the running driver."""
    for process in stack.marked.living():
        try:
            program, *arguments = process.cmdline() or [""]
        except psutil.Error:  # it ended while we looked
            continue
        if "python" in program and any(a.endswith("spark_apps/compact.py") for a in arguments):
            return process
    return None


def attempts(log: EventLog, kind: type) -> list[str]:
    return [e.action.plan_id for e in log.events(1) if isinstance(e.action, kind)]


def test_a_killed_worker_and_its_orphan_do_no_harm_and_the_planner_finishes(
    flights: Flights, stack: AirflowStack
) -> None:
    """The driver freezes in mid-plan, task and supervisor are killed, another run takes over.

    The orphan wakes up after its successor has committed, and must not change anything.
    """
    known = minor_runs(stack)
    flights.table.alter(set={"publish.delta": "off"})  # a publisher would open the held file, too
    flights.append(16)
    rows = flights.rows()
    ports = flights.table.ports
    log = EventLog(ports.storage)
    table_id = log.load().table.table_id
    begun, before = len(attempts(log, PlanInflight)), len(attempts(log, PlanCompleted))
    newest = flights.table.snapshot().segments()[-1]
    with HeldFile(flights.root / flights.name / newest.path) as held:  # no plan ends without it
        plan(stack)
        (first,) = minor_runs(stack) - known
        orphan = eventually(lambda: driver_of(stack), "a driver")
        eventually(lambda: held.wanted or None, "a reader")
        orphan.suspend()
    assert len(attempts(log, PlanInflight)) == begun + 1
    submitter, task, supervisor = orphan.parents()[:3]
    assert submitter.name() == "java"
    for process in (supervisor, task):
        assert process.cmdline()[0].startswith("airflow worker")
        process.kill()
    eventually(lambda: not ports.coordinator.locks(table_id) or None, "the end of its session")
    assert flights.rows() == rows
    assert stack.wait_run(MINOR, first, timeout_s=PATIENCE_S).state == "failed"
    plan(stack)
    (run_id,) = minor_runs(stack) - known - {first}
    second = stack.wait_run(MINOR, run_id, timeout_s=PATIENCE_S)
    assert second.state == "success", why(stack, second)
    assert orphan.is_running()
    orphan.resume()
    orphan.wait(PATIENCE_S)
    assert flights.segments() == 1
    assert flights.rows() == rows
    assert list(violations(log.load())) == []
    done = attempts(log, PlanCompleted)
    assert len(done) == len(set(done)) == before + 1
    ports.coordinator.close()


def minor_runs(stack: AirflowStack) -> set[str]:
    return {run.run_id for run in stack.runs(MINOR)}


def worker_of(stack: AirflowStack, run_id: str) -> psutil.Process:
    """Wait for the process of the task of a run."""

    def running() -> psutil.Process | None:
        found = [task for task in stack.tasks(DAG_ID, run_id) if task.state == "running"]
        return psutil.Process(found[0].pid) if found else None

    return eventually(running, f"the task of {run_id}")


def make_known(stack: AirflowStack, uri: str) -> None:
    """Store an asset of the DAG, as the first task that emits an event of it does.

    Airflow lets two tasks that do so at the same moment both insert it, or its link to the task's
    alias, and fails one of them (``UNIQUE constraint failed``), although its work is done.
    """
    now = datetime.now(UTC).isoformat(" ")
    with closing(sqlite3.connect(stack.home / "airflow.db", timeout=60)) as connection, connection:
        connection.execute(
            'INSERT INTO asset (name, uri, "group", extra, created_at, updated_at) '
            "VALUES (?, ?, 'asset', '{}', ?, ?)",
            (uri, uri, now[:26], now[:26]),
        )
        connection.execute(
            "INSERT INTO asset_alias_asset (alias_id, asset_id) SELECT asset_alias.id, asset.id "
            "FROM asset_alias, asset WHERE asset.uri = ? AND asset_alias.name LIKE ?",
            (uri, f"%{DAG_ID}%"),
        )


def tries_of_success(stack: AirflowStack, run_id: str) -> int:
    """Wait for the end of a run, and return the number of its task's tries."""
    run = stack.wait_run(DAG_ID, run_id, timeout_s=600)
    assert run.state == "success", stack.task_log(DAG_ID, run_id, "load")
    (task,) = stack.tasks(DAG_ID, run_id)
    return task.try_number


LONG = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("month", "days"), [pytest.param(2, 3, marks=LONG), pytest.param(1, 30, marks=LONG)]
)
def test_a_backfill_run_twice_beside_a_writer_and_killed_on_the_way_is_exact(
    flights: Flights, stack: AirflowStack, month: int, days: int
) -> None:
    """Each day has the rows of its second load; a task is killed before its commit, another after.

    The first waits to open its file; the other cannot end, because its supervisor is suspended.
    """
    first = datetime(2024, month, 1, tzinfo=UTC)
    load = DailyLoad(flights.root, flights.zookeeper, first, days)
    table = load.create()
    make_known(stack, asset_uri(table.ports.uri))
    runs = load.run_ids()
    with load.rival():
        load.land(1)
        with HeldFile(load.file(1)) as held:
            backfill = load.backfill(stack)
            eventually(lambda: held.wanted or None, "a reader")
            worker_of(stack, runs[1]).kill()
        assert [tries_of_success(stack, run) for run in runs] == [1, 2, *[1] * (days - 2)]
        stack.wait_backfill(backfill, timeout_s=PATIENCE_S)
        second = table.state().n
        load.land(2)
        with HeldFile(load.file(2)) as held:
            again = load.backfill(stack, again=True)
            eventually(lambda: held.wanted or None, "a reader")
            worker = worker_of(stack, runs[2])
            supervisor = worker.parent()
            supervisor.suspend()
        eventually(lambda: len(load.loads(table)[load.day(2)]) == 2 or None, "its event")
        worker.kill()
        supervisor.resume()
        assert [tries_of_success(stack, run) for run in runs] == [2, 3, 3, *[2] * (days - 3)]
        stack.wait_backfill(again, timeout_s=PATIENCE_S)  # a DAG has one backfill at a time
    assert {day: len(events) for day, events in load.loads(table).items()} == {
        load.day(at): 2 for at in range(days)
    }
    assert list(violations(table.state())) == []
    load.check(table, second)
    table.ports.coordinator.close()


def report(stack: AirflowStack, number: int) -> tuple[AssetEvent, Mapping[str, str | None]]:
    """Wait for this run of the guide's DAG; return its event, and the states of its tasks."""
    look = stack.runs
    run = eventually(lambda: (look(REPORT)[number:] or [None])[0], f"report {number}")
    run = stack.wait_run(REPORT, run.run_id, timeout_s=PATIENCE_S)
    assert run.state == "success", stack.tasks(REPORT, run.run_id)
    (event,) = stack.asset_events(REPORT, run.run_id)
    return event, {task.task_id: task.state for task in stack.tasks(REPORT, run.run_id)}


def test_a_dag_on_a_tables_asset_runs_after_what_changed_the_table(
    flights: Flights, stack: AirflowStack
) -> None:
    """It runs after a compaction, not after one that found nothing, and after a delete."""
    place = flights.root / SALES
    sales = make_flights(place.parent, flights.zookeeper)
    compacted = succeeded(stack, NIGHTLY)
    event, states = report(stack, 0)
    assert event.uri == segtable_asset(str(place)).uri
    assert event.source_run_id == compacted.run_id
    named = {name: event.extra[name] for name in ("kind", "event", "rows", "segments")}
    version = sales.table.state().n
    assert named == {"kind": "compact", "event": version, "rows": 800, "segments": 1}
    assert states == {"changes": "success", "rows_changed": "success", "report": "skipped"}
    succeeded(stack, NIGHTLY)
    assert sales.table.state().n == version
    deleted = succeeded(stack, FORGET)
    event, states = report(stack, 1)
    assert event.source_run_id == deleted.run_id
    assert (event.extra["kind"], event.extra["deleted"]) == ("delete", 5)
    assert states["report"] == "success"
    assert len(stack.runs(REPORT)) == 2


def test_a_dag_runs_when_a_program_commits(flights: Flights, stack: AirflowStack) -> None:
    """Rows that no task of Airflow wrote are told, with the versions that have them."""
    followed = Flights(flights.root / FOLLOWED, flights.zookeeper)

    def told() -> list[dict[str, Any]] | None:
        followed.append(1, rows=5)  # again, since what is there before the watch begins is not told
        runs = [run for run in stack.runs(FOLLOW) if run.state == "success"]
        events = [event for run in runs for event in stack.asset_events(FOLLOW, run.run_id)]
        return [event.extra["payload"] for event in events] or None

    found = eventually(told, "a run after a commit")
    newest = followed.table.state().n
    for each in found:
        assert each["after"] < each["version"] <= newest
        assert each["commits"] == each["version"] - each["after"] == each["rows"] / 5


def test_a_wait_for_an_index_survives_its_triggerer_and_zookeeper(
    flights: Flights, stack: AirflowStack, zookeeper: EmbeddedZooKeeper
) -> None:
    """It fires once, woken by a build that paused and came back; its log says what it waits for."""
    root = (flights.root / index_dags.INDEXED).parent
    table = make_flights(root, flights.zookeeper, 2, granularity="hour").table
    asked = table.create_index("files", "files")
    run_id = stack.trigger(index_dags.LOOKUP)

    def waiting(triggerers: int) -> bool | None:
        logs = stack.trigger_logs(index_dags.LOOKUP, run_id, "wait")[triggerers - 1 :]
        return any("is being built: 2 of 2 time chunks" in text for log in logs for text in log)

    eventually(lambda: waiting(1) or None, "a triggerer that waits")
    stack.kill("triggerer")
    stack.revive("triggerer")
    eventually(lambda: waiting(2) or None, "another triggerer that waits")
    zookeeper.kill()
    zookeeper.start()
    assert [task.state for task in stack.tasks(index_dags.LOOKUP, run_id)] == ["deferred"]
    build = succeeded(stack, index_dags.BUILD)
    said = [
        text
        for text in stack.task_log(index_dags.BUILD, build.run_id, "build")
        if "index plans" in text
    ]
    assert [text.partition(";")[0] for text in said] == [
        "index plans: 1 yielded",
        "index plans: 1 completed",
    ]
    (task,) = stack.tasks(index_dags.BUILD, build.run_id)
    assert task.try_number == 1
    succeeded(stack, index_dags.LOOKUP, run_id)
    said = stack.task_log(index_dags.LOOKUP, run_id, "wait")
    assert f"waiting until index files has caught up with event {asked}" in said
    since = f"available since event {table.index('files').available_n}"
    end = (
        f"{index_dags.INDEXED}: index files (files) is {since}, with all files up to event {asked}"
    )
    assert said.count(end) == 1
    logs = stack.trigger_logs(index_dags.LOOKUP, run_id, "wait")
    assert sum("fired event" in text for log in logs for text in log) == 1


def test_the_factorys_dags_build_an_index_of_the_policy(
    flights: Flights, stack: AirflowStack
) -> None:
    """The planner requests it, and emits one run of the index DAG, which builds it."""
    table = make_flights((flights.root / index_dags.PLANNED).parent, flights.zookeeper, 2).table
    table.alter(set={"index.by_row": "column_stats(row)"})
    succeeded(stack, index_dags.INDEX_PLANNER)
    (emitted,) = stack.runs(index_dags.INDEX_BUILDS)
    succeeded(stack, index_dags.INDEX_BUILDS, emitted.run_id)
    assert table.index("by_row").current


@pytest.mark.long
def test_an_index_that_a_cluster_builds_is_waited_for_in_the_triggerer(
    flights: Flights, stack: AirflowStack
) -> None:
    """The task holds no slot while the driver works; a pause defers it again, and is no try."""
    root = (flights.root / index_dags.DEFERRED).parent
    table = make_flights(root, flights.zookeeper, 2, granularity="hour").table
    table.create_index("files", "files")
    build = succeeded(stack, index_dags.DEFERRED_BUILD)
    assert table.index("files").current
    (known,) = table.state().plans.values()
    assert (known.completed, known.attempts, known.yields) == (True, 2, 1)
    said = stack.task_log(index_dags.DEFERRED_BUILD, build.run_id, "build")
    ended = [text.partition(";")[0] for text in said if "index plans" in text]
    assert ended == ["index plans: 1 yielded", "index plans: 1 completed"]
    (task,) = stack.tasks(index_dags.DEFERRED_BUILD, build.run_id)
    assert task.try_number == 1
    logs = stack.trigger_logs(index_dags.DEFERRED_BUILD, build.run_id, "build")
    assert any("fired event" in text for log in logs for text in log)


def test_a_wait_for_a_log_store_is_woken_by_its_checkpoint(
    flights: Flights, stack: AirflowStack
) -> None:
    """The task has a writer's store commit; long before its next look, the sensor goes on."""
    table = log_dags.logged_table(flights.root, flights.zookeeper)
    with table.log_writer(automatic=False) as log:
        log.append(log_dags.rows(3))
        waiting = stack.trigger(log_dags.CAUGHT_UP)

        def behind() -> bool | None:
            logs = stack.trigger_logs(log_dags.CAUGHT_UP, waiting, "wait")
            return any("3 records behind" in text for log in logs for text in log) or None

        eventually(behind, "a triggerer that waits")
        made = succeeded(stack, log_dags.CHECKPOINT)
        told = stack.task_log(log_dags.CHECKPOINT, made.run_id, "checkpoint")
        assert any(f"3 records committed, version {table.state().n}" in line for line in told), told
        succeeded(stack, log_dags.CAUGHT_UP, waiting)
    assert table.scan().count() == 3
    table.ports.coordinator.close()


def test_a_commit_to_a_table_of_a_fleet_is_planned_and_compacted(
    flights: Flights, stack: AirflowStack
) -> None:
    """By anyone; a paused DAG is said, then waited for; a broken table is said, and delays none."""
    clicks = Flights((flights.root / fleet_stack.CLICKS).parent, flights.zookeeper)
    for run in eventually(lambda: stack.runs(fleet_stack.PLANNER) or None, "its first run"):
        succeeded(stack, fleet_stack.PLANNER, run.run_id)
    clicks.append(1)
    (run,) = eventually(lambda: stack.runs(fleet_stack.MINOR) or None, "a run of the fleet")
    assert run.run_id.startswith("minor__lake.clicks.flights__")
    assert run.conf["table"] == fleet_stack.CLICKS
    assert run.state == "queued"  # its DAG is paused
    planned = run.conf["planned_by"].partition("/")[2]
    assert planned.startswith("asset_triggered__")
    succeeded(stack, fleet_stack.PLANNER, planned)
    told = "\n".join(stack.task_log(fleet_stack.PLANNER, planned, "plan"))
    assert f"{fleet_stack.BROKEN}: not planned: CorruptTable" in told
    assert f"DAG {fleet_stack.MINOR} is paused, so its run {run.run_id} does not begin" in told
    stack.unpause(fleet_stack.MINOR)
    succeeded(stack, fleet_stack.MINOR, run.run_id)
    assert clicks.segments() == 1
    upkeep = stack.wait_run(fleet_stack.UPKEEP, stack.trigger(fleet_stack.UPKEEP))
    told = "\n".join(stack.task_log(fleet_stack.UPKEEP, upkeep.run_id, "keep_up"))
    assert upkeep.state == "failed"  # of the broken table alone
    assert "of 3 tables 1 with a step that failed, 0 damaged" in told
    assert f"{fleet_stack.ORDERS}: verified: " in told
    assert [each.conf["table"] for each in stack.runs(fleet_stack.MINOR)] == [fleet_stack.CLICKS]


def test_the_page_tags_compacts_and_cleans_in_the_users_name(
    flights: Flights, stack: AirflowStack
) -> None:
    """By one event, and by runs of the fleet's DAGs; the planner gives no plan a second run."""
    table, minor = fleet_stack.ORDERS, fleet_stack.MINOR
    orders = Flights((flights.root / table).parent, flights.zookeeper)
    stack.unpause(minor)
    state = orders.table.ports.log.load()
    tagged = confirmed(stack.url, table, "tag", name="before", version=state.n)
    event = orders.table.ports.log.event(tagged["event"])
    assert event is not None
    assert event.author.startswith("Anonymous:")
    ids = [str(each.id) for each in state.timeline.visible_segments()]
    asked = confirmed(stack.url, table, "compact", kind="minor", segments=ids)
    succeeded(stack, minor, asked["run_id"])
    assert orders.segments() == 1
    assert not orders.table.ports.log.load().pending_plans()
    plan(stack, fleet_stack.PLANNER)
    of_table = [run.run_id for run in stack.runs(minor) if run.conf["table"] == table]
    assert of_table == [asked["run_id"]]
    confirmed(stack.url, table, "untag", name="before")
    cleaned = confirmed(stack.url, table, "clean", hours=0, versions=1, orphan_hours=0)
    assert f"{len(ids)} data files deleted" in cleaned["effects"]
    succeeded(stack, fleet_stack.UPKEEP, cleaned["run_id"])
    assert not [*orders.table.ports.log.load().timeline.hidden_segments()]


def test_runs_that_are_ended_from_outside_end_their_plans_or_take_them_up_again(
    flights: Flights, stack: AirflowStack
) -> None:
    """What a person marks is cancelled; a cleared task, and a worker that dies, go on.

    Another table's plan is carried out meanwhile, and nothing is planned again.
    """
    tables = fleet_ends.make_tables(flights)
    rows = {name: table.rows() for name, table in tables.items()}
    ended = {name: each for name, (each, _) in fleet_ends.CANCELS.items()} | fleet_ends.REPEATS
    succeeded(stack, fleet_ends.PLANNER)
    runs = {run.conf["table"].split("/")[1]: run.run_id for run in stack.runs(fleet_ends.MINOR)}
    assert runs.keys() == tables.keys()
    stack.mark_run(fleet_ends.MINOR, runs[fleet_ends.QUEUED], "failed")
    with ExitStack() as files:
        held = {name: files.enter_context(fleet_ends.held(tables[name])) for name in ended}
        stack.unpause(fleet_ends.MINOR)
        for name, end in ended.items():
            eventually(lambda file=held[name]: file.wanted or None, f"a reader of {name}")
            end(stack, runs[name])
        succeeded(stack, fleet_ends.MINOR, runs[fleet_ends.BESIDE])
        for name in fleet_ends.CANCELS:
            note = eventually(lambda table=tables[name]: fleet_ends.note(table), f"end of {name}")
            assert note.startswith("cancelled: the task segtable_minor__ends/")
    for name, (_, state) in fleet_ends.CANCELS.items():
        run = stack.wait_run(fleet_ends.MINOR, runs[name], timeout_s=PATIENCE_S)
        assert (name, run.state) == (name, state)
    for name in fleet_ends.REPEATS:
        succeeded(stack, fleet_ends.MINOR, runs[name])
        (task,) = stack.tasks(fleet_ends.MINOR, runs[name])
        assert (name, task.try_number) == (name, 2)
    succeeded(stack, fleet_ends.PLANNER)
    assert str(fleet_ends.note(tables[fleet_ends.QUEUED])).endswith("as failed before it began")
    assert len(stack.runs(fleet_ends.MINOR)) == len(tables)
    assert {name: table.rows() for name, table in tables.items()} == rows
    left = (*fleet_ends.CANCELS, fleet_ends.QUEUED)
    segments = {name: table.segments() for name, table in tables.items()}
    assert segments == {name: 3 if name in left else 1 for name in tables}


def test_a_deferred_task_that_is_marked_as_failed_cancels_its_plan(
    flights: Flights, stack: AirflowStack
) -> None:
    """Its driver is on a cluster, so the triggerer does it."""
    table = make_flights(
        (flights.root / fleet_ends.AWAY).parent, flights.zookeeper, min_segments="3"
    )
    (launch,) = plan_table(table.table.ports).launches
    conf = {"table": fleet_ends.AWAY, "plans": [launch.plan_id]}
    run_id = stack.trigger(fleet_ends.REMOTE, conf)

    def waiting() -> bool | None:
        logs = stack.trigger_logs(fleet_ends.REMOTE, run_id, "compact")
        return any("1 of 1 plans are pending" in text for log in logs for text in log) or None

    eventually(waiting, "a trigger that waits")
    stack.mark_task(fleet_ends.REMOTE, run_id, "compact", "failed")
    note = eventually(lambda: fleet_ends.note(table), "the end of its plan")
    assert note == f"cancelled: the task {fleet_ends.REMOTE}/{run_id}/compact was ended"


def test_a_run_that_waits_for_too_long_calls_back(stack: AirflowStack) -> None:
    """Airflow calls the fleet's alert once the deadline of a queued run has passed."""
    stack.wait_dag(fleet_ends.LATE)
    run_id = stack.trigger(fleet_ends.LATE, {"table": "ends/beside/flights"})
    page = stack.dags / fleet_ends.PAGES / run_id
    eventually(lambda: page.exists() or None, "a call")
    assert page.read_text() == "ends/beside/flights"
    run = stack.run(fleet_ends.LATE, run_id)
    assert run is not None
    assert run.state == "queued"
