"""DAGs, run in this process against Airflow's database: what they emit, do, and leave alone."""

import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

from airflow_provider_segtable.table.table import Table

from .conftest import CONNECTION, known_dags, make_flights

pytestmark = [pytest.mark.airflow, pytest.mark.zookeeper]
DAG_FILE = """
from airflow_provider_segtable.dag_factory import compaction_dags

compaction_dags(table="flights", schedule=None, plans_per_run=1)
"""
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "airflow.md"
DAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def planner(
    tmp_path: Path,
    airflow_db: None,  # noqa: ARG001  # its tables must be there
    zookeeper: object,
    monkeypatch: pytest.MonkeyPatch,
) -> DAG:
    """Give the planner DAG of a table with two plans, known to the database."""
    flights = make_flights(tmp_path, zookeeper.address, 6, min_segments="2", target_size="4500")
    monkeypatch.setenv(CONNECTION, flights.connection)
    return known_dags(tmp_path / "dags", DAG_FILE)["segtable_planner__flights"]


def minor_runs(table: str = "flights") -> dict[str, list[str]]:
    """Return the plans of each run of the minor DAG; every run has a note."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        runs = session.query(DagRun).filter(DagRun.dag_id == f"segtable_minor__{table}").all()
        assert all("minor plan" in run.note for run in runs)
        return {run.run_id: run.conf["plans"] for run in runs}


@pytest.mark.filterwarnings("ignore")
def test_a_planner_run_emits_each_plan_once_however_often_it_runs(planner: DAG) -> None:
    """Two plans make two runs of the minor DAG, by the task that plans; planning again none."""
    found = []
    for _ in range(2):
        states = {ti.task_id: str(ti.state) for ti in planner.test().get_task_instances()}
        assert states == {"plan": "success", "emit": "skipped"}
        found.append(minor_runs())
    assert len(found[0]) == 2
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_the_guides_dags_load_a_table_and_keep_it_compact(
    tmp_path: Path, zookeeper: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the guide works as it stands: files are appended once, planned and compacted.

    Nothing starts Spark for so little.
    """
    found = re.search(r"Put this file .*?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    dags = known_dags(tmp_path / "dags", found[1].replace("/data/landing", str(tmp_path)))
    assert len(dags) == 6  # the two of the guide, and one for each kind of plan
    table = Table.create(
        str(tmp_path / "trips"),
        schema=pa.schema([("pickup", pa.timestamp("us", tz="UTC")), ("n", pa.int64())]),
        time_column="pickup",
        granularity="month",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper.address,
    )
    uri = f"segtable://{quote(str(tmp_path), safe='')}/?zookeeper={quote(zookeeper.address)}"
    monkeypatch.setenv(CONNECTION, uri)
    rows = pa.table([[DAY] * 10, range(10)], schema=table.snapshot().schema)
    for day in (5, 6):
        files = tmp_path / f"2026-01-0{day}"
        files.mkdir()
        for part in (0, 5):
            pq.write_table(rows.slice(part, 5), files / f"{part}.parquet")
        ran = dags["load_trips"].test(logical_date=DAY.replace(day=day))
        assert str(ran.state) == "success"
    assert (table.snapshot().count(), len(table.snapshot().segments())) == (20, 2)
    assert str(dags["segtable_planner__trips"].test().state) == "success"
    ((_, plans),) = minor_runs("trips").items()
    compacted = dags["segtable_minor__trips"].test(run_conf={"plans": plans})
    assert str(compacted.state) == "success"
    assert (table.snapshot().count(), len(table.snapshot().segments())) == (20, 1)
    table.ports.coordinator.close()
