"""The DAGs we ship and the factory that makes them."""

import os
import re
import subprocess
import sys
import warnings
from copy import copy
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log import plan_kinds
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.services.fleet_tables import load_fleet
from tests.support.processes import importable
from tests.unit.services.toys.polish_plan import PolishPlan

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "dags"
SECONDS_TO_PARSE = 5.0


def dagbag(folder: Path = DAGS) -> "DagBag":  # noqa: F821
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Airflow's about itself
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(str(folder))


@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_the_dags_of_the_containers_load_without_errors() -> None:
    """They are those of three tables, and two of their own."""
    found = dagbag(ROOT / "docker" / "dags")
    assert found.import_errors == {}
    assert {"ingest_events", "look_up_events", "segtable_planner__clicks"} < set(found.dags)


@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_the_shipped_dags_load_without_errors() -> None:
    """Every file loads, and gives the DAGs that the docs name."""
    found = dagbag()
    assert found.import_errors == {}
    assert set(found.dags) == {
        "segtable_checkpoint_then_compact",
        "segtable_forget",
        "segtable_ingest_then_wait",
        "segtable_load_daily",
        "segtable_index__flights",
        "segtable_index__lake",
        "segtable_index_then_look_up",
        "segtable_major__flights",
        "segtable_major__lake",
        "segtable_minor__flights",
        "segtable_minor__lake",
        "segtable_planner__flights",
        "segtable_planner__lake",
        "segtable_publish_then_read",
        "segtable_semi_major__flights",
        "segtable_semi_major__lake",
        "segtable_upkeep__lake",
    }


def test_the_shipped_fleet_file_has_no_fault() -> None:
    """All tables below the root are in its one group."""
    (file,) = DAGS.glob("*.toml")
    fleet = load_fleet(str(file))
    assert fleet.group_of("events/orders") == fleet.groups[0]


@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_the_shipped_dags_survive_serialization() -> None:
    """What the scheduler reads from the database is what the file says."""
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dagbag().dags.values():
        data = DagSerialization.to_dict(dag)
        assert DagSerialization.from_dict(data).task_dict.keys() == dag.task_dict.keys()


@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_the_dag_file_of_the_readme_loads(tmp_path: Path) -> None:
    """It gives the DAG that loads, the planner and one for each kind, as it stands there."""
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"DAG file loads a table.*?```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "trips.py").write_text(block)
    found = dagbag(tmp_path)
    assert found.import_errors == {}
    assert len(found.dags) == 6


def test_parsing_a_dag_file_is_cheap() -> None:
    """Neither Spark nor ZooKeeper's client is imported, and nothing is contacted."""
    program = (
        "import runpy, sys, time; import airflow.sdk;"
        "import airflow.providers.standard.operators.trigger_dagrun;"
        "start = time.process_time();"
        f"runpy.run_path({str(DAGS / 'segtable_compaction.py')!r});"
        "took = time.process_time() - start;"
        "loaded = [m for m in ('pyspark', 'kazoo', 'pandas') if m in sys.modules];"
        "print(took, loaded)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": importable()},
    )
    took, loaded = done.stdout.splitlines()[-1].split(" ", 1)
    assert loaded == "[]"
    assert float(took) < SECONDS_TO_PARSE


def test_the_factory_makes_a_planner_and_a_dag_a_kind() -> None:
    """The planner runs alone; the others share limits, pool and Spark settings, or have their own.

    Minor runs are ahead of the larger ones, of which there is one at a time.
    """
    made = compaction_dags(
        table="s3://lake/air flights",
        schedule=None,
        max_active_runs=3,
        pool="spark",
        spark={"spark_conn_id": "my_spark", "wait_s": 5.0},
        kinds={"major": {"pool": "nightly", "max_active_runs": 2, "spark_conf": {"a": "b"}}},
    )
    assert made.planner.dag_id == "segtable_planner__air_flights"
    assert made.planner.max_active_runs == 1
    dags = dict(made.of_kind)
    assert [*dags] == ["minor", "semi-major", "major", "index"]
    assert all(isinstance(dag, DAG) for dag in dags.values())
    assert dags["semi-major"].dag_id == "segtable_semi_major__air_flights"
    assert [dag.max_active_runs for dag in dags.values()] == [3, 1, 2, 1]
    tasks = [task for dag in dags.values() for task in dag.tasks]
    assert [task.task_id for task in tasks] == ["compact", "compact", "compact", "index"]
    assert [task.pool for task in tasks] == ["spark", "spark", "nightly", "spark"]
    assert [task.priority_weight for task in tasks] == [4, 3, 2, 1]
    assert {(task.spark_conn_id, task.wait_s) for task in tasks} == {("my_spark", 5.0)}
    assert [task.spark_conf for task in tasks] == [None, None, {"a": "b"}, None]
    plan = made.planner.get_task("plan")
    assert plan.trigger_dag_ids == {kind: dag.dag_id for kind, dag in dags.items()}


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({"segments": ["a", "b"]}, ("[]", "major", '["a", "b"]')),
        ({"plans": ["major-1"]}, ('["major-1"]', "", "[]")),
        (None, ("[]", "", "[]")),
    ],
)
def test_a_run_names_plans_or_chosen_segments(
    conf: dict[str, object] | None, wanted: tuple[str, str, str]
) -> None:
    """A user triggers a kind's DAG with segments; the planner's runs name plans."""
    task = compaction_dags(table="flights", schedule=None).of_kind["major"].get_task("compact")
    task.render_template_fields({"dag_run": SimpleNamespace(conf=conf)})
    assert (task.plans, task.kind, task.segments) == wanted


@pytest.mark.parametrize("table", ["flights", "s3://lake/{{ params.name }}/"])
def test_a_run_names_the_table_or_that_of_an_index(table: str) -> None:
    """No conf leads a DAG to a table that is not its own."""
    task = compaction_dags(table=table, schedule=None).of_kind["minor"].get_task("compact")
    own = table.replace("{{ params.name }}", "trips").rstrip("/")
    index = f"{own}/_segtable/indexes/by_row-1"
    for given, wanted in ((index, index), ("other/_segtable/indexes/x", own), ("other", own)):
        again = copy(task)
        conf = SimpleNamespace(conf={"table": given, "plans": ["minor-1"]})
        again.render_template_fields({"dag_run": conf, "params": {"name": "trips"}})
        assert again.table.rstrip("/") == wanted


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [({"index": "by_row"}, ("[]", "by_row")), ({"plans": ["index-1"]}, ('["index-1"]', ""))],
)
def test_a_run_names_index_plans_or_an_index(
    conf: dict[str, object], wanted: tuple[str, str]
) -> None:
    """A user triggers the index DAG with a name; the planner's runs name plans."""
    task = compaction_dags(table="flights", schedule=None).of_kind["index"].get_task("index")
    task.render_template_fields({"dag_run": SimpleNamespace(conf=conf)})
    assert (task.plans, task.index) == wanted


def test_a_kind_that_is_new_has_a_dag_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factory goes over the registry: smaller kinds keep their place and their weight."""
    monkeypatch.setattr(plan_kinds, "KINDS", (*plan_kinds.KINDS, PolishPlan))
    made = compaction_dags(table="flights", schedule=None, name="with_toy")
    assert [*made.of_kind] == ["minor", "semi-major", "polish", "major", "index"]
    polish = made.of_kind["polish"]
    assert (polish.dag_id, polish.max_active_runs) == ("segtable_polish__with_toy", 1)
    weights = [task.priority_weight for dag in made.of_kind.values() for task in dag.tasks]
    assert weights == [5, 4, 3, 2, 1]


def test_a_kind_that_there_is_not_is_refused() -> None:
    """Settings of a misspelt kind would silently be nobody's."""
    with pytest.raises(
        InvalidInput, match="'semi_major', which is unknown: choose among minor, semi-major"
    ):
        compaction_dags(table="flights", schedule=None, kinds={"semi_major": {}})


def test_two_tables_of_one_name_are_kept_apart_by_name() -> None:
    """``name`` decides the ids where the last part of the table would clash."""
    made = compaction_dags(table="/a/flights", name="a_flights", schedule=None)
    assert made.of_kind["minor"].dag_id == "segtable_minor__a_flights"


def test_the_form_of_a_dag_asks_for_what_its_runs_take() -> None:
    """Each DAG of a kind has one labelled and checked value, and all have documentation."""
    from airflow.sdk.exceptions import ParamValidationError

    made = compaction_dags(table="formed")
    assert "**formed**" in str(made.planner.doc_md)
    for kind, dag in made.of_kind.items():
        assert "**formed**" in str(dag.doc_md)
        name = "index" if kind == "index" else "segments"
        assert list(dag.params) == [name]
        param = dag.params.get_param(name)
        assert (param.resolve() or None, bool(param.description)) == (None, True)
        assert param.schema["title"] == name.capitalize()
        assert param.schema["type"][0] == "null"  # the form calls all others required
        with pytest.raises(ParamValidationError):
            param.resolve(value=[""])
