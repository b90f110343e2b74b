"""The provider on each supported version of Airflow: import, serialization, and DAGs that run.

``make test-airflows`` runs these in an environment for each version, with the tests of sensors,
triggers, planners and fleets beside them. Coordination is in this process, and there is no Spark.
"""

import json
import os
import pkgutil
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import Asset
from airflow.providers_manager import ProvidersManager
from airflow.sdk.execution_time.context import OutletEventAccessors

import airflow_provider_segtable
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.table.table import Table
from tests.airflow.conftest import CONNECTION, known_dags

pytestmark = [pytest.mark.airflow, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).parents[2]
JANUARY = datetime(2013, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("time_hour", pa.timestamp("us", tz="UTC")), ("tailnum", pa.string())])
FLEET = """
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference
from airflow_provider_segtable.dag_factory import fleet_dags
from airflow_provider_segtable.sensors.objective import SegtableObjectiveSensor
from airflow.providers.standard.operators.empty import EmptyOperator

HERE = Path(__file__).parents[1]

def page(context):
    (HERE / "page").write_text(str([each["table"] for each in context["missed"]]))

fleet_dags(
    HERE / "fleet.toml", name="alerts", schedule="*/5 * * * *", on_objective_missed=page,
    missed_for=timedelta(0),
)
fleet_dags(  # only its planner is run: DAG.test fails at the end of a run with a deadline
    HERE / "fleet.toml", name="timed", schedule=None,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=timedelta(hours=1),
        callback=AsyncCallback("asyncio.sleep"),
    ),
)
with DAG("waits", schedule=None):
    sensor = SegtableObjectiveSensor(
        task_id="met", table="flights", fleet=str(HERE / "fleet.toml"), deferrable=True
    )
"""
FILE = """
[fleet]
name = "lake"
[properties]
compaction.min_segments = 4
publish.delta = true
[groups.all]
tables = ["*"]
objective = {files_read = 3, publish_lag = "5m"}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with a table, files to load and a fleet file; the environment names it."""
    place, zookeeper = tmp_path_factory.mktemp("lake"), f"memory://{uuid.uuid4().hex}"
    given = {"conn_type": "segtable", "host": str(place), "extra": {"zookeeper": zookeeper}}
    table = Table.create(
        str(place / "flights"),
        schema=SCHEMA,
        time_column="time_hour",
        granularity="year",
        properties={"compaction.min_segments": "4"},
        zookeeper=zookeeper,
    )
    for n in range(5):
        table.append(rows(n))
    (place / "landing" / "2026-01-05").mkdir(parents=True)
    pq.write_table(rows(9), place / "landing" / "new.parquet")
    (place / "landing" / "2026-01-05" / "day.csv").write_text(
        "time_hour,tailnum\n2026-01-05T01:00:00Z,N5\n"
    )
    (place / "ids.csv").write_text("tailnum\nN0\n")
    (place / "fleet.toml").write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECTION, json.dumps(given))
        patch.setenv("SEGTABLE_FORGET_HOURS", "0")
        patch.setenv("SEGTABLE_FLEET", str(ROOT / "dags" / "segtable_fleet.toml"))
        yield place


def rows(n: int) -> pa.Table:
    """Return one row."""
    times = [JANUARY + timedelta(minutes=n)]
    return pa.table([times, [f"N{n}"]], schema=SCHEMA)


@pytest.fixture(scope="module")
def dags(root: Path, airflow_db: None) -> Mapping[str, Any]:  # noqa: ARG001  # has the tables
    """Return the shipped DAGs, and those of a fleet, known to the database."""
    found = dict(known_dags(root / "dags", FLEET))
    for path in sorted((ROOT / "dags").glob("*.py")):
        found |= known_dags(root / path.stem, path.read_text())
    return found


def opened(root: Path) -> Table:
    """Open the table."""
    place = json.loads(os.environ[CONNECTION])
    return Table.open(str(root / "flights"), zookeeper=place["extra"]["zookeeper"])


def ran(dag: Any, conf: Mapping[str, Any] | None = None, **given: Any) -> None:
    """Run a DAG in this process, to its good end; ``given`` are arguments of ``DAG.test``."""
    run = dag.test(run_conf=dict(conf or {}), **given)
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert set(states.values()) <= {"success", "skipped"}, states
    assert str(run.state) == "success", states


def test_every_module_is_imported() -> None:
    """None names what a version of Airflow does not have."""
    left = ("airflow_provider_segtable.spark", "airflow_provider_segtable.cli")
    found = [
        each.name
        for each in pkgutil.walk_packages(
            airflow_provider_segtable.__path__, "airflow_provider_segtable."
        )
        if not each.name.startswith(left) and not each.name.endswith("__main__")
    ]
    assert len(found) > 300
    for name in found:
        import_module(name)


def test_airflow_knows_the_provider() -> None:
    """Its connection, its assets, and its plugin."""
    manager = ProvidersManager()
    assert "airflow-provider-segtable" in manager.providers
    assert "segtable" in manager.hooks
    assert Asset("segtable://s3a/lake//trips").uri == "segtable://s3/lake/trips"


def test_each_dag_survives_serialization(dags: Mapping[str, Any]) -> None:
    """What the scheduler reads from the database is what the file says."""
    import airflow.serialization.serialized_objects as objects

    form: Any = getattr(objects, "DagSerialization", None) or objects.SerializedDAG
    assert len(dags) == 6 + 6 + 1 + 6 + 11
    for dag in dags.values():
        data = json.loads(json.dumps(form.to_dict(dag)))
        again = form.from_dict(data)
        assert again.task_dict.keys() == dag.task_dict.keys()


def test_a_fleet_is_planned_compacted_and_kept_up(root: Path, dags: Mapping[str, Any]) -> None:
    """The missed objective is said, the plan is carried out, and Delta is published."""
    ran(dags["segtable_planner__alerts"])
    assert (root / "page").read_text() == "['flights']"
    ran(dags["segtable_minor__alerts"], emitted("segtable_minor__alerts"))
    assert len(opened(root).snapshot().segments()) == 1
    ran(dags["segtable_upkeep__alerts"])
    assert (root / "flights" / "_delta_log").is_dir()
    ran(dags["waits"])


def emitted(dag_id: str) -> dict[str, Any]:
    """Return the conf of the one run that a planner triggered."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        (run,) = session.query(DagRun).filter(DagRun.dag_id == dag_id).all()
        return dict(run.conf or {})


def test_each_run_that_a_planner_triggers_has_its_deadline(
    root: Path, dags: Mapping[str, Any]
) -> None:
    """Airflow keeps it with the run, and forgets it when the run has ended in time."""
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    for n in range(30, 35):
        opened(root).append(rows(n))
    ran(dags["segtable_planner__timed"])
    with create_session() as session:
        (run,) = session.query(DagRun).filter(DagRun.dag_id == "segtable_minor__timed").all()
        (deadline,) = run.deadlines
        assert deadline.deadline_time == run.queued_at + timedelta(hours=1)
        run.dag = DBDagBag().get_latest_version_of_dag(run.dag_id, session=session)
        run.state = "running"
        for ti in run.task_instances:
            ti.state = "success"
        session.flush()
        run.update_state(session=session)
        session.expire_all()
        assert (str(run.state), run.deadlines) == ("success", [])


ALL_OF_FLIGHTS = {"table": "flights", "plans": []}


@pytest.mark.parametrize(
    ("dag_id", "conf", "given"),
    [
        ("segtable_planner__flights", {}, {}),
        ("segtable_minor__flights", {"plans": []}, {}),
        ("segtable_semi_major__flights", {"plans": []}, {}),
        ("segtable_major__flights", {"plans": []}, {}),
        ("segtable_index__flights", {}, {}),
        ("segtable_planner__lake", {}, {}),
        ("segtable_minor__lake", ALL_OF_FLIGHTS, {}),
        ("segtable_semi_major__lake", ALL_OF_FLIGHTS, {}),
        ("segtable_major__lake", ALL_OF_FLIGHTS, {}),
        ("segtable_index__lake", ALL_OF_FLIGHTS, {}),
        ("segtable_upkeep__lake", {}, {}),
        ("segtable_index_then_look_up", {"value": "N3"}, {}),
        ("segtable_publish_then_read", {}, {}),
        ("segtable_checkpoint_then_compact", {}, {}),
        ("segtable_ingest_then_wait", {"files": "{root}/landing/*.parquet"}, {}),
        (
            "segtable_load_daily",
            {"table": "flights", "landing": "{root}/landing"},
            {"logical_date": datetime(2026, 1, 6, tzinfo=UTC)},  # by hand: the day before
        ),
        (  # its wait ends in the triggerer, without the task; DAG.test has no triggerer
            "segtable_forget",
            {"ids": "{root}/ids.csv"},
            {"mark_success_pattern": "keep"},
        ),
    ],
)
def test_a_shipped_dag_runs(
    dag_id: str,
    conf: dict[str, Any],
    given: dict[str, Any],
    root: Path,
    dags: Mapping[str, Any],
) -> None:
    """To its end, with its real tasks."""
    conf = {key: v.format(root=root) if isinstance(v, str) else v for key, v in conf.items()}
    ran(dags[dag_id], conf, **given)


def lineage_of(task: Any) -> Any:
    """Carry out a task, and return what Airflow's OpenLineage listener extracts of it."""
    manager = pytest.importorskip("airflow.providers.openlineage.extractors.manager")
    from airflow.utils.state import TaskInstanceState

    names = {"dag_id": "d", "run_id": "r", "task_id": task.task_id, "map_index": -1}
    ti = SimpleNamespace(**names, try_number=1)
    task.execute({"ti": ti, "outlet_events": OutletEventAccessors()})
    run = SimpleNamespace(run_id="r")
    return manager.ExtractorManager().extract_metadata(
        run, task, task_instance_state=TaskInstanceState.SUCCESS, task_instance=ti
    )


def facts(dataset: Any) -> dict[str, Any]:
    """Return a dataset's name and facets in short."""
    told: dict[str, Any] = {"name": dataset.name, "namespace": dataset.namespace}
    given = dataset.facets or {}
    if "schema" in given:
        told["columns"] = [(each.name, each.type) for each in given["schema"].fields]
        told["version"] = given["version"].datasetVersion
    sums = (getattr(dataset, "outputFacets", None) or {}).get("outputStatistics")
    return told if sums is None else {**told, "rows": sums.rowCount, "files": sums.fileCount}


def test_lineage_names_what_was_read_and_the_version_written(root: Path) -> None:
    """Files and a table, a table and itself, a table and what is published of it."""
    name, columns = str(root / "flights"), [(each.name, str(each.type)) for each in SCHEMA]
    load = SegtableIngestOperator(
        task_id="load", table="flights", files=f"{root}/landing/*.parquet", engine="local"
    )
    told = lineage_of(load)
    assert list(map(facts, told.inputs)) == [{"namespace": "file", "name": f"{root}/landing"}]
    table = {"namespace": "file", "name": name, "columns": columns}
    version = str(opened(root).state().n)
    assert list(map(facts, told.outputs)) == [{**table, "version": version, "rows": 1, "files": 1}]
    for task in (
        SegtableDeleteOperator(task_id="drop", table="flights", where="tailnum = 'N9'"),
        SegtableCompactOperator(
            task_id="c", table="flights", engine="local", policy={"min_segments": 2}
        ),
    ):
        told = lineage_of(task)
        assert list(map(facts, told.inputs)) == [{"namespace": "file", "name": name}]
        (output,) = map(facts, told.outputs)
        assert output["name"] == name
        assert int(output["version"]) > int(version)
    opened(root).alter(set={"publish.on_commit": "off"})
    opened(root).append(rows(20))
    told = lineage_of(SegtablePublishOperator(task_id="p", table="flights", formats="delta"))
    assert list(map(facts, told.inputs)) == [{"namespace": "file", "name": name}]
    (output,) = told.outputs
    assert output.facets["storage"].storageLayer == "delta"
    assert facts(output)["columns"] == columns
