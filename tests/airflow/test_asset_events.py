"""Tables as assets: their URIs, and the events of tasks that committed, in Airflow's database."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import BaseOperator
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import AssetEventsResult, GetAssetEventByAsset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.operators.change import (
    SegtableDeleteOperator,
    SegtableMergeOperator,
    SegtableUpdateOperator,
)
from airflow_provider_segtable.operators.clean import SegtableCleanOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.operators.overwrite import SegtableOverwriteOperator
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.rendered import own_events
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by

from .conftest import JANUARY, SCHEMA, Flights, known_dags


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("s3://lake/trips", "segtable://s3/lake/trips"),
        ("s3a://lake//trips/", "segtable://s3/lake/trips"),
        ("gs://lake/a b", "segtable://gs/lake/a%20b"),
        ("az://lake/trips", "segtable://az/lake/trips"),
        ("abfs://c@acc.dfs.core.windows.net/t", "segtable://abfss/c@acc.dfs.core.windows.net/t"),
        ("/data/tables/trips", "segtable://file/data/tables/trips"),
        ("file:///data/tables/trips/", "segtable://file/data/tables/trips"),
        ("file://localhost/data/a%20b", "segtable://file/data/a%20b"),
        ("/data/a b#1", "segtable://file/data/a%20b%231"),
        ("/data/a%20b", "segtable://file/data/a%2520b"),
        ("memory://lake/trips", "segtable://memory/lake/trips"),
    ],
)
def test_a_table_has_one_asset_however_it_is_spelled(location: str, uri: str) -> None:
    """Name and URI are equal, and the same that Airflow makes of the URI written out."""
    made = segtable_asset(location)
    assert (made.name, made.uri) == (uri, uri)
    assert Asset(uri=f"{uri}/").uri == uri


@pytest.mark.parametrize("uri", ["trips", "", "s3:/lake/trips", "s3://a:b@lake/t", "ftp://x/y"])
def test_a_name_below_a_root_or_no_location_is_refused(uri: str) -> None:
    """Nothing but a whole location names a table in a DAG file."""
    with pytest.raises(InvalidName):
        segtable_asset(uri)


@pytest.mark.parametrize("uri", ["segtable://s3", "segtable://s3/", "segtable:///trips"])
def test_an_asset_without_a_table_is_refused_by_airflow(uri: str) -> None:
    """The registered handler says what to write instead."""
    with pytest.raises(ValueError, match="segtable_asset"):
        Asset(uri=uri)


def emitted_by(
    task: BaseOperator, run_id: str = "run", try_number: int = 1
) -> list[tuple[str, dict[str, Any]]]:
    """Execute a task; return URI and ``extra`` of what it would send to Airflow."""
    names = {"dag_id": "d", "run_id": run_id, "task_id": task.task_id, "map_index": -1}
    outlets = OutletEventAccessors()
    ti = SimpleNamespace(**names, try_number=try_number)
    task.execute({"ti": ti, "outlet_events": outlets})
    (alias,) = task.outlets
    return [(e.dest_asset_key.uri, e.extra) for e in outlets[alias].asset_alias_events]


@pytest.fixture
def day(tmp_path: Path) -> str:
    """Give a file of four rows."""
    file = tmp_path / "day.parquet"
    pq.write_table(pa.table([[JANUARY] * 4, range(2000, 2004)], schema=SCHEMA), file)
    return str(file)


TABLE: dict[str, Any] = {"task_id": "work", "table": "flights"}


def test_each_change_of_rows_is_one_event_of_the_tables_asset(flights: Flights, day: str) -> None:
    """``extra`` has the log's event, the kind of work, and counts of rows, segments and bytes."""
    uri = f"segtable://file{flights.root}/flights"
    begun = flights.table.state().n
    tasks = {
        "append": SegtableIngestOperator(**TABLE, files=day),
        "delete": SegtableDeleteOperator(**TABLE, where="row < 2"),
        "update": SegtableUpdateOperator(**TABLE, where="row = 5", set={"row": "row + 9000"}),
        "merge": SegtableMergeOperator(**TABLE, source=day, on="row"),
        "overwrite": SegtableOverwriteOperator(**TABLE, files=day, interval="chunks"),
    }
    wanted = {
        "append": {"rows": 4, "segments": 1},
        "delete": {"rows": 0, "segments": 0, "matched": 2, "deleted": 2, "inserted": 0},
        "update": {"rows": 1, "segments": 1, "matched": 1, "deleted": 1, "inserted": 1},
        "merge": {"rows": 4, "segments": 1, "matched": 4, "deleted": 4, "inserted": 4},
        "overwrite": {"rows": 4, "segments": 1, "matched": 802, "deleted": 802},
    }
    for at, (kind, task) in enumerate(tasks.items(), begun + 1):
        ((found, extra),) = emitted_by(task, kind)
        assert (extra.pop("bytes") > 0) == (wanted[kind]["segments"] > 0)
        named = {"table": str(flights.root / "flights"), "kind": kind, "plans": []}
        assert (found, extra) == (uri, {**named, "event": at, "events": [at], **wanted[kind]})


class Noted(MemoryStorage):
    """A storage far away that notes what is read."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock, remote=True)
        self.read_paths: list[str] = []

    def read(self, path: str) -> bytes:
        """Read an object."""
        self.read_paths.append(path)
        return super().read(path)


def test_an_event_is_sent_by_one_request_for_each_commit() -> None:
    """The task's own look at the log has all else: the columns, and how many events there are."""
    clock = FakeClock()
    storage = Noted(clock)
    ports = replace(context_in_memory(clock=clock), storage=storage)
    create_table(ports, replace(defined_by(SCHEMA), time_column="time_hour"))
    Table(ports).append(pa.table([[JANUARY], [1]], schema=SCHEMA))
    storage.read_paths.clear()
    task, outlets = SegtableCleanOperator(**TABLE), OutletEventAccessors()
    task.emit({"outlet_events": outlets}, ports, "append", made=own_events(ports, 0))
    (event,) = outlets[task.alias].asset_alias_events
    assert event.extra["event"] == 1
    assert set(storage.read_paths) == {event_path(1)}


def test_upserts_have_a_kind_of_their_own(flights: Flights, day: str) -> None:
    """An ingest into a table with a primary key is no append."""
    Table.create(
        str(flights.root / "keyed"),
        schema=SCHEMA,
        time_column="time_hour",
        granularity="all",
        primary_key="row",
    )
    keyed = {**TABLE, "table": "keyed"}
    ((_, extra),) = emitted_by(SegtableIngestOperator(**keyed, files=day))
    assert (extra["kind"], extra["event"], extra["rows"]) == ("upsert", 1, 4)
    gone = SegtableDeleteOperator(**keyed, where="row = 2001")
    ((_, extra),) = emitted_by(gone, "later")
    assert (extra["kind"], extra["deleted"]) == ("delete", 1)


def test_planning_compacting_and_cleaning_are_emitted_with_their_plans(flights: Flights) -> None:
    """Of a compaction the outputs, of a cleaning what it removed; doing it again emits nothing."""
    begun = flights.table.state().n
    planner = SegtablePlanOperator(**TABLE, trigger_dag_ids={"minor": "dag"})
    ((_, planned),) = emitted_by(planner)
    (known,) = flights.table.state().pending_plans()
    assert (planned["kind"], planned["event"], planned["segments"]) == ("plan", begun + 1, 0)
    assert planned["plans"] == [known.plan.id]
    compactor = SegtableCompactOperator(**TABLE)
    ((_, compacted),) = emitted_by(compactor)
    assert (compacted["kind"], compacted["event"]) == ("compact", flights.table.state().n)
    assert (compacted["rows"], compacted["segments"]) == (800, 1)
    assert compacted["plans"] == [known.plan.id]
    cleaner = SegtableCleanOperator(**TABLE, retention={"hours": 0, "versions": 1})
    ((_, cleaned),) = emitted_by(cleaner)
    assert (cleaned["kind"], cleaned["segments"], cleaned["files"]) == ("clean", 16, 16)
    assert cleaned["bytes"] > 0
    assert isinstance(flights.table.ports.log.event(cleaned["events"][0]).action, Cleaned)
    assert [emitted_by(task) for task in (planner, compactor, cleaner)] == [[], [], []]


def test_what_commits_nothing_emits_nothing(flights: Flights, day: str) -> None:
    """Neither rows that are not there, nor dry runs, nor a plan that another task completed."""
    (launch,) = plan_table(flights.table.ports).launches
    compact(flights.table.ports, [launch.plan_id], in_process())
    version = flights.table.state().n
    tasks = [
        SegtableDeleteOperator(**TABLE, where="row = 99999"),
        SegtableDeleteOperator(**TABLE, where="row = 3", dry_run=True),
        SegtableOverwriteOperator(**TABLE, files=day, interval="chunks", dry_run=True),
        SegtableCleanOperator(**TABLE, retention={"hours": 0, "versions": 1}, dry_run=True),
        SegtableCompactOperator(**TABLE, plans=[launch.plan_id]),
    ]
    assert [emitted_by(task) for task in tasks] == [[]] * 5
    assert flights.table.state().n == version


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Answer tasks that ask for asset events, as Airflow does; give the list of these events."""
    recorded: list[dict[str, Any]] = []

    def send(asked: GetAssetEventByAsset) -> AssetEventsResult:
        asset = {"name": asked.name, "uri": asked.uri, "group": "segtable"}
        same = {"asset": asset, "timestamp": datetime.now(UTC), "created_dagruns": []}
        events = [{**same, "id": at, "extra": extra} for at, extra in enumerate(recorded)]
        return AssetEventsResult(asset_events=events)

    comms = SimpleNamespace(send=send)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    return recorded


@pytest.mark.parametrize("named", [True, False], ids=["named", "pending"])
def test_a_retry_emits_the_plans_of_the_try_that_died(
    flights: Flights, supervisor: list[dict[str, Any]], *, named: bool
) -> None:
    """A plan is done already for the retry, which counts it as its own until it is recorded."""
    (launch,) = plan_table(flights.table.ports).launches
    task = SegtableCompactOperator(**TABLE, plans=[launch.plan_id] if named else None)
    ((_, lost),) = emitted_by(task)
    assert emitted_by(task) == []
    ((_, extra),) = emitted_by(task, try_number=2)
    assert extra == lost
    assert extra["plans"] == [launch.plan_id]
    supervisor.append(extra)
    assert emitted_by(task, try_number=3) == []


@pytest.mark.usefixtures("supervisor")
def test_a_retry_leaves_the_plans_of_others_alone(flights: Flights) -> None:
    """Nobody named them, and their author is another task."""
    (launch,) = plan_table(flights.table.ports).launches
    assert len(emitted_by(SegtableCompactOperator(**TABLE, plans=[launch.plan_id]), "other")) == 1
    assert emitted_by(SegtableCompactOperator(**TABLE), try_number=2) == []


def test_outlets_of_the_users_own_are_kept() -> None:
    """The alias of the task comes after them, and names the task."""
    mine = Asset("mine")
    with DAG("d", schedule=None):
        task = SegtableCleanOperator(**TABLE, outlets=[mine])
    assert task.outlets == [mine, task.alias]
    assert task.alias.name == "segtable/d/work"


DAG_FILE = """
from airflow.sdk import DAG

from airflow_provider_segtable.operators.ingest import SegtableIngestOperator

with DAG("append", schedule=None):
    SegtableIngestOperator(
        task_id="work", table="flights", files="FILE", commit_id="{{ dag_run.conf['id'] }}"
    )

with DAG("mapped", schedule=None, params={"table": "flights"}):
    SegtableIngestOperator.partial(task_id="work", table="{{ params.table }}").expand(
        files=["FILE", "FILE"]
    )
"""


class Emitted:
    """The DAGs of the file, and the asset events that their runs leave in Airflow's database."""

    def __init__(self, uri: str, dags: dict[str, DAG]) -> None:
        self.uri = uri
        self.dags = dags

    def events(self) -> list[dict[str, Any]]:
        """Return ``extra`` of all events of the table's asset, oldest first."""
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session

        with create_session() as session:
            found = session.query(AssetEvent).order_by(AssetEvent.id).all()
            return [event.extra for event in found if event.asset.uri == self.uri]

    def run(self, dag_id: str, **conf: Any) -> list[dict[str, Any]]:
        """Run a DAG; return what it emitted."""
        before = len(self.events())
        ran = self.dags[dag_id].test(run_conf=conf)
        assert str(ran.state) == "success"
        return self.events()[before:]


@pytest.fixture
def emitted(tmp_path: Path, airflow_db: None, flights: Flights, day: str) -> Emitted:  # noqa: ARG001
    """Give DAGs over the table, known to the database."""
    dags = known_dags(tmp_path / "dags", DAG_FILE.replace("FILE", day))
    return Emitted(segtable_asset(str(flights.root / "flights")).uri, dict(dags))


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
def test_a_commit_is_emitted_once_whoever_finds_it(flights: Flights, emitted: Emitted) -> None:
    """A try that died emitted nothing, so its retry does; after that nobody emits it again."""
    done = flights.table.append(
        pa.table([[JANUARY], [7000]], schema=SCHEMA), commit_id="of-a-try-that-died"
    )
    (extra,) = emitted.run("append", id="of-a-try-that-died")
    assert (extra["event"], extra["rows"]) == (done.n, 1)
    (extra,) = emitted.run("append", id="new")
    assert (extra["event"], extra["rows"]) == (done.n + 1, 4)
    assert emitted.run("append", id="of-a-try-that-died") == []
    assert emitted.run("append", id="new") == []


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
def test_mapped_tasks_and_templates_emit_for_the_table_that_they_render(emitted: Emitted) -> None:
    """Neither is known when the file is parsed; each mapped task is one event."""
    first, second = emitted.run("mapped")
    assert first["events"] != second["events"]
