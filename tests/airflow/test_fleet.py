"""A fleet's DAGs: one planner and one DAG a kind, for all tables of a file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
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


def test_a_run_is_for_one_table_and_names_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its id and its note; planned again, it is the same run with the same plans."""
    root = lake("memory://fleet-1")
    runs = planner(root).execute({})
    assert sorted(run["conf"]["table"] for run in runs) == [*TABLES]
    for run in runs:
        table = run["conf"]["table"]
        assert run["trigger_run_id"].startswith(f"minor__{table.replace('/', '.')}__")
        assert run["note"].startswith(f"{table}: 1 minor plan: ")
    assert planner(root).execute({}) == runs
    logged = capsys.readouterr().out
    assert "chosen  events/orders" in logged
    assert "gone: the fleet file names it, and it is not there" in logged


def test_the_file_may_name_the_root(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one in the connection, the tasks of the runs get URIs, which they can open."""
    root = lake("memory://fleet-6")
    extra = {"zookeeper": "memory://fleet-6"}
    monkeypatch.setenv(CONNECTION, json.dumps({"conn_type": "segtable", "extra": extra}))
    text = FILE.replace("[fleet]", f'[fleet]\nroot = "{root}"')
    (root / "fleet.toml").write_text(text)
    runs = planner(root).execute({})
    assert {run["conf"]["table"] for run in runs} == {f"{root}/{name}" for name in TABLES}
    work = {name: runs[0]["conf"][name] for name in ("table", "plans")}
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
    assert run["conf"]["table"] == "events/orders"
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


def test_upkeep_of_the_table_that_a_run_names(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are not looked at, and nothing is left for the next run."""
    root = lake("memory://fleet-6")
    (root / "fleet.toml").write_text(FILE)
    wished = '{"table": "events/clicks", "steps": ["publish"], "formats": ["delta"]}'
    task = SegtableFleetUpkeepOperator(
        task_id="keep_up", fleet=str(root / "fleet.toml"), wished=wished
    )
    assert task.execute({}) == {"tables": 1, "left": 0, "failed": 0, "damaged": 0}
    assert (root / "events" / "clicks" / "_delta_log").is_dir()
    assert "events/orders" not in capsys.readouterr().out
    for wrong, named in (("{", "not a JSON object"), ('{"table": "a"}', "'a' is not in the fleet")):
        task.wished = wrong
        with pytest.raises(AirflowFailException, match=named):
            task.execute({})


def test_every_task_of_a_fleet_is_repeated_if_its_worker_dies() -> None:
    """Otherwise the plans of its run wait for minutes, until the planner launches them again."""
    made = fleet_dags("fleet.toml", schedule=None)
    assert made.upkeep is not None
    tasks = [
        task for dag in (made.planner, made.upkeep, *made.of_kind.values()) for task in dag.tasks
    ]
    assert {"plan", "emit", "compact", "keep_up"} <= {task.task_id for task in tasks}
    assert not [task.task_id for task in tasks if task.retries < 2]


def test_the_dags_of_a_fleet_are_as_many_as_of_a_table() -> None:
    """However many tables there are."""
    one = compaction_dags(table="t", schedule=None)
    many = fleet_dags("fleet.toml", schedule=None)
    assert many.of_kind.keys() == one.of_kind.keys()
    assert many.planner.dag_id == "segtable_planner__fleet"
    assert many.of_kind["semi-major"].dag_id == "segtable_semi_major__fleet"
    assert many.upkeep is not None
    assert many.upkeep.dag_id == "segtable_upkeep__fleet"
    task: Any = many.of_kind["minor"].get_task("compact")
    conf = {"table": "events/orders", "plans": ["minor-1"]}
    task.render_template_fields({"dag_run": SimpleNamespace(conf=conf)})
    assert (task.table, task.plans) == ("events/orders", '["minor-1"]')


@pytest.mark.parametrize(
    ("schedule", "wake", "woken"),
    [
        ("*/5 * * * *", True, True),
        ("@hourly", True, True),
        (timedelta(minutes=5), True, True),
        ("*/5 * * * *", False, False),
        ("@continuous", True, False),
        (None, True, False),
    ],
)
def test_a_planner_with_a_time_is_woken_as_well(schedule: Any, *, wake: bool, woken: bool) -> None:
    """By an asset of its own, whose trigger knows the file and the connection."""
    made = fleet_dags("fleet.toml", schedule=schedule, wake=wake, segtable_conn_id="lake").planner
    assert made.max_active_runs == 1
    condition: Any = getattr(made.timetable, "asset_condition", None)
    assets = condition.objects if condition else []
    assert len(assets) == woken
    for asset in assets:
        (watched,) = asset.watchers
        assert watched.trigger.serialize()[1]["fleet"] == "fleet.toml"
        assert watched.trigger.serialize()[1]["segtable_conn_id"] == "lake"


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
@pytest.mark.parametrize("number", [0, 1], ids=["plain", "alerts"])
def test_the_guides_dag_file_loads(number: int, tmp_path: Path) -> None:
    """It makes six DAGs, without the fleet file."""
    block = blocks("fleet.md", "python")[number]
    assert len(known_dags(tmp_path / "dags", block)) == 6


@pytest.mark.airflow
def test_the_guides_sensors_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet file is beside the DAG file."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text('[groups.all]\ntables = ["**"]\n')
    made: dict[str, Any] = {}
    exec(blocks("fleet.md", "python")[2], made)  # noqa: S102 - the guide as it stands
    assert "SegtableObjectiveSensor" in made


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_the_guides_fleets_by_root_share_a_queue(tmp_path: Path) -> None:
    """Each file has six DAGs of its own; what carries out plans has the pool and the queue."""
    block = blocks("fleet.md", "python")[-1]
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
def test_the_planner_triggers_a_run_for_each_table(lake: Lake, zookeeper: Any) -> None:
    """Once, however often it runs; each run compacts its table, and tells Airflow of its commit."""
    root = lake(zookeeper.address)
    dags = known_dags(root / "dags", DAG_FILE)
    assert len(dags) == 6
    planner, minor = dags["segtable_planner__lake"], dags["segtable_minor__lake"]
    for _ in range(2):
        planned = planner.test()
        states = {ti.task_id: str(ti.state) for ti in planned.get_task_instances()}
        assert states == {"plan": "success", "emit": "skipped"}
    confs = emitted("segtable_minor__lake")
    assert sorted(conf["table"] for conf in confs) == [*TABLES]
    before = events_of_assets()
    for conf in confs:
        assert str(minor.test(run_conf=conf).state) == "success"
    for name in TABLES:
        table = Table.open(str(root / name))
        assert len(table.snapshot().segments()) == 1
    assert events_of_assets() - before == len(TABLES)


@pytest.mark.airflow
@pytest.mark.zookeeper
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("airflow_db")
def test_upkeep_goes_on_from_the_run_before(
    lake: Lake, zookeeper: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Although it failed: a damaged table is verified again, and no other one."""
    root = lake(zookeeper.address)
    next((root / TABLES[0] / "data").rglob("*.parquet")).write_bytes(b"PAR1" * 40)
    upkeep = known_dags(root / "dags", DAG_FILE)["segtable_upkeep__lake"]
    verified = []
    for day in (1, 2):
        run = upkeep.test(logical_date=JANUARY.replace(year=2027, day=day))
        logged = capsys.readouterr().out
        assert str(run.state) == "failed", logged
        assert f"{TABLES[0]}: critical " in logged
        verified.append([name for name in TABLES if f"{name}: verified: " in logged])
    assert verified == [[*TABLES], [TABLES[0]]]


def emitted(dag_id: str) -> list[dict[str, Any]]:
    """Return the confs of the runs that a planner triggered; each has a note."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        runs = session.query(DagRun).filter(DagRun.dag_id == dag_id).all()
        assert all("1 minor plan" in run.note for run in runs)
        return [dict(run.conf or {}) for run in runs]


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
