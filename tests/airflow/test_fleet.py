"""A fleet's DAGs: one planner and one DAG a kind, for all tables of a file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_segtable.dag_factory import compaction_dags, fleet_dags
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.fleet_plan import SegtableFleetPlanOperator
from airflow_provider_segtable.operators.fleet_upkeep import SegtableFleetUpkeepOperator
from airflow_provider_segtable.operators.fleet_work import SegtableWorkOperator
from airflow_provider_segtable.operators.objective_alerts import variable_of
from airflow_provider_segtable.table.table import Table
from tests.guides import blocks

from .conftest import CONNECTION, JANUARY, SCHEMA, known_dags

FILE = """\
[fleet]
name = "lake"
[properties]
compaction.min_segments = 2
[groups.events]
tables = ["events/*"]
[tables.gone]
"""
DAG_FILE = """
from pathlib import Path
from airflow_provider_segtable.dag_factory import fleet_dags

fleet_dags(Path(__file__).parents[1] / "fleet.toml", name="lake", schedule=None)
"""
TABLES = ("events/clicks", "events/orders")
Lake = Callable[[str], Path]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return what makes two tables of small files, a fleet file and the connection to them."""

    def made(zookeeper: str) -> Path:
        place = {"conn_type": "segtable", "host": str(tmp_path), "extra": {"zookeeper": zookeeper}}
        monkeypatch.setenv(CONNECTION, json.dumps(place))
        for name, files in zip(TABLES, (3, 5), strict=True):
            table = Table.create(
                str(tmp_path / name), schema=SCHEMA, time_column="time_hour", zookeeper=zookeeper
            )
            for n in range(files):
                table.append(pa.table([[JANUARY], [n]], schema=SCHEMA))
            table.ports.coordinator.close()
        (tmp_path / "fleet.toml").write_text(FILE)
        return tmp_path

    return made


def planner(root: Path, **more: Any) -> SegtableFleetPlanOperator:
    """Return the planner's task."""
    ids = {"minor": "minor_dag", "semi-major": "semi_dag", "major": "major_dag"}
    arguments = {"fleet": str(root / "fleet.toml"), "trigger_dag_ids": ids, **more}
    return SegtableFleetPlanOperator(task_id="plan", **arguments)


def test_plans_of_several_tables_share_a_run(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its id, its note and its work name them; planned again, it is the same run."""
    root = lake("memory://fleet-1")
    (run,) = planner(root).execute({})
    work = {each["table"]: each["plans"] for each in run["conf"]["work"]}
    assert sorted(work) == [*TABLES]
    assert run["trigger_run_id"].startswith("minor__lake__2tables_2plans__")
    assert run["note"].startswith("events/")
    assert "2 minor plans: 8 segments" in run["note"]
    assert planner(root).execute({}) == [run]
    logged = capsys.readouterr().out
    assert "chosen  events/orders" in logged
    assert "gone: the fleet file names it, and it is not there" in logged


def test_a_run_of_one_table_is_named_by_it(lake: Lake) -> None:
    """As the runs of the table's own DAGs are."""
    root = lake("memory://fleet-2")
    runs = planner(root, plans_per_run=1).execute({})
    assert len(runs) == 2
    for run in runs:
        (work,) = run["conf"]["work"]
        assert work["plans"][0] in run["trigger_run_id"]


def test_the_file_may_name_the_root(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one in the connection, the tasks of the runs get URIs, which they can open."""
    root = lake("memory://fleet-6")
    extra = {"zookeeper": "memory://fleet-6"}
    monkeypatch.setenv(CONNECTION, json.dumps({"conn_type": "segtable", "extra": extra}))
    text = FILE.replace("[fleet]", f'[fleet]\nroot = "{root}"')
    (root / "fleet.toml").write_text(text)
    (run,) = planner(root).execute({})
    assert {each["table"] for each in run["conf"]["work"]} == {f"{root}/{name}" for name in TABLES}
    work = run["conf"]["work"][0]
    task = SegtableCompactOperator(task_id="compact", engine="local", **work)
    assert task.execute({})["completed"] == 1


def test_what_the_file_leaves_is_logged_with_its_code(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a table that misses its objective is a warning."""
    root = lake("memory://fleet-3")
    more = "[budget]\nplans = 1\n[objective]\nfiles_read = 1\n"
    (root / "fleet.toml").write_text(more + FILE)
    (run,) = planner(root).execute({})
    assert [each["table"] for each in run["conf"]["work"]] == ["events/orders"]
    logged = capsys.readouterr().out
    assert "fleet-plans events/clicks minor-" in logged
    assert "events/orders: misses its objective: files_read is 5, of 1" in logged


def test_a_broken_file_fails_at_once_with_its_lines(lake: Lake) -> None:
    """A retry would meet the same."""
    root = lake("memory://fleet-4")
    (root / "fleet.toml").write_text("[budget]\nplans = 0\n")
    with pytest.raises(AirflowFailException, match=r"fleet\.toml:2: plans: 0 is not a whole"):
        planner(root).execute({})
    with pytest.raises(AirflowFailException, match="there is no fleet file"):
        planner(root, fleet=str(root / "nothing.toml")).execute({})


def test_upkeep_does_all_that_it_can_and_fails_at_the_end(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage of one table is found, another one is cleaned, published and verified all the same."""
    root = lake("memory://fleet-5")
    (root / "fleet.toml").write_text(
        FILE.replace("[properties]", "[properties]\npublish.delta = true")
    )
    task = SegtableFleetUpkeepOperator(task_id="keep_up", fleet=str(root / "fleet.toml"))
    assert task.execute({}) == {"tables": 2, "left": 0, "failed": 0, "damaged": 0}
    assert (root / "events" / "clicks" / "_delta_log").is_dir()
    victim = next((root / "events" / "clicks" / "data").rglob("*.parquet"))
    victim.write_bytes(b"PAR1" * 40)
    with pytest.raises(AirflowException, match="of 2 tables 0 with a step that failed, 1 damaged"):
        task.execute({})
    logged = capsys.readouterr().out
    assert "events/orders: verified: " in logged
    assert "events/clicks: critical " in logged


def test_the_dags_of_a_fleet_are_as_many_as_of_a_table() -> None:
    """However many tables there are."""
    one = compaction_dags(table="t", schedule=None)
    many = fleet_dags("fleet.toml", schedule=None)
    assert many.of_kind.keys() == one.of_kind.keys()
    assert many.planner.dag_id == "segtable_planner__fleet"
    assert many.of_kind["semi-major"].dag_id == "segtable_semi_major__fleet"
    assert many.upkeep is not None
    assert many.upkeep.dag_id == "segtable_upkeep__fleet"
    task: Any = many.of_kind["minor"].get_task("work")
    conf = {"work": [{"table": "a", "plans": []}]}
    task.render_template_fields({"dag_run": SimpleNamespace(conf=conf)})
    assert task.execute({}) == [{"table": "a", "plans": []}]


@pytest.mark.parametrize(
    "work", ['"x"', "[3]", '[{"plans": []}]', '[{"table": "t", "plans": 3}]', "nonsense"]
)
def test_work_of_another_form_is_refused(work: str) -> None:
    """With the form."""
    with pytest.raises(AirflowFailException, match="the run's conf has no work"):
        SegtableWorkOperator(task_id="work", work=work).execute({})


def test_parsing_reads_nothing(tmp_path: Path) -> None:
    """No fleet file, no connection, neither Spark nor ZooKeeper's client."""
    (tmp_path / "dag.py").write_text(DAG_FILE)
    program = (
        f"import runpy, sys; runpy.run_path({str(tmp_path / 'dag.py')!r}); "
        "print([m for m in ('pyspark', 'kazoo', 'obstore') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_the_guides_dag_file_loads(tmp_path: Path) -> None:
    """It makes six DAGs, without the fleet file."""
    block, _ = blocks("fleet.md", "python")
    assert len(known_dags(tmp_path / "dags", block)) == 6


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_the_guides_fleets_by_root_share_a_queue(tmp_path: Path) -> None:
    """Each file has six DAGs of its own; what carries out plans has the pool and the queue."""
    _, block = blocks("fleet.md", "python")
    fleets = tmp_path / "dags" / "fleets"
    fleets.mkdir(parents=True)
    for name in ("asia", "europe"):
        (fleets / f"{name}.toml").write_text("")
    made = known_dags(tmp_path / "dags", block)
    assert len(made) == 12
    working = [each for dag in made.values() for each in dag.tasks if each.pool == "maintenance"]
    assert {each.queue for each in working} == {"maintenance"}
    assert len(working) == 8


@pytest.mark.airflow
@pytest.mark.zookeeper
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_a_run_carries_out_plans_of_several_tables(lake: Lake, zookeeper: Any) -> None:
    """A mapped task for each, named by its table; each tells Airflow of its commits."""
    root = lake(zookeeper.address)
    dags = known_dags(root / "dags", DAG_FILE)
    assert len(dags) == 6
    assert str(dags["segtable_planner__lake"].test().state) == "success"
    conf = emitted("segtable_minor__lake")
    run = dags["segtable_minor__lake"].test(run_conf=conf)
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in run.get_task_instances()}
    expected = {("work", -1): "success", ("compact", 0): "success", ("compact", 1): "success"}
    assert states == expected
    for name in TABLES:
        table = Table.open(str(root / name))
        assert len(table.snapshot().segments()) == 1
    names = {ti.rendered_map_index for ti in run.get_task_instances() if ti.map_index >= 0}
    assert names == {*TABLES}
    assert events_of_assets() == len(TABLES)
    again = dags["segtable_planner__lake"].test()
    assert {str(ti.state) for ti in again.get_task_instances()} == {"success", "skipped"}


def emitted(dag_id: str) -> dict[str, Any]:
    """Return the conf of the one run that a planner triggered."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        (run,) = session.query(DagRun).filter(DagRun.dag_id == dag_id).all()
        return dict(run.conf or {})


def events_of_assets() -> int:
    """Return the number of asset events in Airflow's database."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        return session.query(AssetEvent).count()


ALERTS = """
from datetime import timedelta
from pathlib import Path
from airflow_provider_segtable.dag_factory import fleet_dags

HERE = Path(__file__).parents[1]

def broken(context):
    raise OSError("the pager is away")

def page(context):
    with (HERE / "pages").open("a") as pages:
        for each in context["missed"]:
            told = (each["table"], each["missed"], each["expected"])
            print(context["ti"].task_id, *told, file=pages)

fleet_dags(
    HERE / "fleet.toml", name="paged", schedule=None, on_objective_missed=CALLED,
    missed_for=timedelta(0),
)
"""


@pytest.mark.long
@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_a_missed_objective_is_said_once_while_it_lasts(lake: Lake) -> None:
    """An alert that fails fails no planner, and the next run says it again."""
    root = lake("memory://fleet-7")
    aim = '[objective]\nfiles_read = 4\n[windows]\nminor = ["00:00-00:01"]\n'
    (root / "fleet.toml").write_text(aim + FILE)
    pages = root / "pages"
    for folder, called in (("dags-1", "[broken, page]"), ("dags-2", "page")):
        dags = known_dags(root / folder, ALERTS.replace("CALLED", called))
        assert str(dags["segtable_planner__paged"].test().state) == "success"
    told = pages.read_text().splitlines()
    assert len(told) == 2, "one beside the broken one, and one by the next run"
    assert told[0].startswith("plan events/orders [{'objective': 'files_read', 'found': 5.0,")
    assert "when it is met is unknown" in told[0] or "expected to be met" in told[0]
    assert list(kept_episodes()) == ["events/orders"]
    (root / "fleet.toml").write_text(FILE)
    assert str(dags["segtable_planner__paged"].test().state) == "success"
    assert kept_episodes() == {}
    assert len(pages.read_text().splitlines()) == 2


def kept_episodes() -> dict[str, Any]:
    """Return what a fleet keeps of missed objectives in Airflow's database."""
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(Variable).filter(Variable.key == variable_of("lake")).one_or_none()
        return {} if found is None else dict(json.loads(found.get_val() or "{}"))
