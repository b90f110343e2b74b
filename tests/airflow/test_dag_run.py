"""The planner DAG, run in this process against Airflow's database: what it emits, and what not."""

from pathlib import Path

import pytest
from airflow.sdk import DAG

from .conftest import CONNECTION, make_flights

pytest_plugins = ["airflow_provider_segtable.testing.zookeeper"]
pytestmark = [pytest.mark.airflow, pytest.mark.zookeeper]
DAG_FILE = """
from airflow_provider_segtable.dag_factory import compaction_dags

compaction_dags(table="flights", schedule=None, plans_per_run=1)
"""


@pytest.fixture
def planner(
    tmp_path: Path,
    airflow_db: None,  # noqa: ARG001  # its tables must be there
    zookeeper: object,
    monkeypatch: pytest.MonkeyPatch,
) -> DAG:
    """Give the planner DAG of a table with two plans, known to the database."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    flights = make_flights(tmp_path, zookeeper.address, 6, min_segments="2", target_size="4500")
    monkeypatch.setenv(CONNECTION, flights.connection)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "flights.py").write_text(DAG_FILE)
    with create_session() as session:
        session.merge(DagBundleModel(name="testing"))
    bag = DagBag(str(tmp_path / "dags"), bundle_name="testing")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "testing", None)
    return bag.dags["segtable_planner__flights"]


def minor_runs() -> dict[str, list[str]]:
    """Return the plans of each run of the minor DAG."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        runs = session.query(DagRun).filter(DagRun.dag_id == "segtable_minor__flights")
        return {run.run_id: run.conf["plans"] for run in runs}


@pytest.mark.filterwarnings("ignore")
def test_a_planner_run_emits_each_plan_once_however_often_it_runs(planner: DAG) -> None:
    """Two plans make two runs of the minor DAG; planning again makes none, and skips both."""
    first = planner.test()
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in first.get_task_instances()}
    assert states == {("plan", -1): "success", ("emit", 0): "success", ("emit", 1): "success"}
    emitted = minor_runs()
    assert len(emitted) == 2
    second = planner.test()
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in second.get_task_instances()}
    assert states == {("plan", -1): "success", ("emit", 0): "skipped", ("emit", 1): "skipped"}
    assert minor_runs() == emitted
