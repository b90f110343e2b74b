"""Values from outside that want to be more than values: refused before anything is started."""

import json
import runpy
import uuid
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator
from airflow.sdk.exceptions import ParamValidationError

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.hooks.submission import (
    LocalSparkSubmit,
    checked_deploy_mode,
    checked_master,
    checked_settings,
    properties_file,
)
from airflow_provider_segtable.operators.change import (
    SegtableDeleteOperator,
    SegtableMergeOperator,
    SegtableUpdateOperator,
)
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.operators.plans_operator import parsed
from airflow_provider_segtable.triggers.watch import Watch

from .conftest import CONNECTION

DAGS = Path(__file__).parents[2] / "dags"


class Never(LocalSparkSubmit):
    """A launcher that must not be asked."""

    def launch(self, *_: Any) -> None:
        """Fail the test."""
        raise AssertionError("something was started")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a connection to a root without tables."""
    extra = {"zookeeper": f"memory://{uuid.uuid4().hex}"}
    connection = {"conn_type": "segtable", "host": "/nowhere", "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(connection))


@pytest.mark.parametrize(
    "fields",
    [
        {"plans": ["--all-pending"]},
        {"plans": '["minor-1 --conf spark.x=1"]'},
        {"plans": '["minor-1\\u0000"]'},
        {"plans": '{"minor-1": 1}'},
        {"plans": ["minor-1\n"]},
        {"kind": "minor\0", "segments": ["x"]},
        {"kind": "minor", "segments": ["x\n--all"]},
        {"kind": ["minor"], "segments": ["x"]},
        {"wait_s": float("nan")},
        {"engine": "flink"},
        {"table": "flights\0"},
        {"table": "../../etc"},
        {"table": "s3://me:hush@lake/t"},
        {"table": "s3://lake/t?sig=hush"},
        {"table": "ftp://lake/t"},
    ],
    ids=str,
)
def test_a_compaction_refuses_what_a_run_says(fields: dict[str, Any]) -> None:
    """The task fails at once, without a retry, and does not repeat credentials."""
    task = SegtableCompactOperator(task_id="t", **{"table": "t", "launcher": Never(), **fields})
    with pytest.raises(AirflowFailException) as refused:
        task.execute({})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "task",
    [
        SegtableDeleteOperator(task_id="t", table="t", where="n = 1\0"),
        SegtableDeleteOperator(task_id="t", table="t", where="n = 1", commit_id="a\nb"),
        SegtableDeleteOperator(task_id="t", table="t", matches="x.csv", format="csv\n--where=true"),
        SegtableDeleteOperator(task_id="t", table="t", matches="x.csv", options={"a=b": "c"}),
        SegtableDeleteOperator(task_id="t", table="t", where="n = 1", wait_s=-1),
        SegtableUpdateOperator(task_id="t", table="t", where="n = 1", set={"n=1,m": "2"}),
        SegtableUpdateOperator(task_id="t", table="t", where="n = 1", set={"n": 2}),
        SegtableMergeOperator(task_id="t", table="t", source="a\0.csv", on="n"),
        SegtableMergeOperator(task_id="t", table="t", source="a.csv", on="n\n"),
        SegtableMergeOperator(task_id="t", table="../t", source="a.csv", on="n"),
    ],
    ids=lambda task: task.operator_name,
)
def test_a_change_refuses_what_a_template_made(task: Any) -> None:
    """Conditions, names, paths and columns are checked before the log is asked."""
    task.launcher = Never()
    with pytest.raises(AirflowFailException):
        task.execute({})


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"executor.memory": "1g"}, "not a Spark setting"),
        ({"spark.x=1 --conf spark.y": "1"}, "not a Spark setting"),
        ({"--class": "x"}, "not a Spark setting"),
        ({"spark.x": None}, "give a text"),
        ({"spark.x": {"a": 1}}, "give a text"),
        ({"spark.x": "1\nspark.y 2"}, "control character"),
        ({"spark.x.password": "hush-hush\n"}, "spark.x.password"),
    ],
)
def test_settings_of_spark_are_checked(conf: dict[str, Any], told: str) -> None:
    """Names are Spark's, values are texts; a credential is not repeated."""
    with pytest.raises(InvalidInput, match=told) as refused:
        checked_settings(conf)
    assert "hush" not in str(refused.value)
    good = {"spark.x": True, "spark.y": 2, "spark.kubernetes.driver.label.a.io/b": "c d"}
    assert checked_settings(good)["spark.x"] == "true"


@pytest.mark.parametrize("good", ["local", "local[*, 4]", "yarn", "spark://a:7077,b:7077"])
def test_masters_of_spark_are_known_by_their_form(good: str) -> None:
    """A master is no option and no other text."""
    assert checked_master(good) == good
    for bad in ("--class", f"{good} x", f"{good}\n", "spark://me:hush@h:7077", "", None):
        with pytest.raises(InvalidInput, match="Spark master"):
            checked_master(bad)
    with pytest.raises(InvalidInput, match="client, cluster"):
        checked_deploy_mode("--conf")


def test_a_value_in_the_file_of_settings_is_one_value() -> None:
    """Java reads backslashes, and a first '=' or ':', as its own; they are escaped."""
    with properties_file({"spark.a": "=b\\c", "spark.d": '{"e": "f"}'}, None) as file:
        assert file is not None
        assert file.read_text() == '\nspark.a \\=b\\\\c\nspark.d {"e": "f"}\n'


@pytest.mark.parametrize("report", [{}, {"plan_id": "-x"}, "x", {"plan_id": "a", "ended": "??"}])
def test_a_report_in_another_form_is_refused(report: Any) -> None:
    """What an application left may have been written by anyone who can write to the store."""
    with pytest.raises(InvalidInput):
        parsed([report])


@pytest.mark.parametrize("table", ["../t", "a/../../t", "s3://k:hush@b/t"])
def test_a_trigger_refuses_the_same_tables(table: str) -> None:
    """A trigger is made from stored values: it opens tables as the task does."""

    class Question:
        def __init__(self) -> None:
            self.table = table

    with pytest.raises(InvalidInput) as refused:
        Watch(Place(conn_id="c", root="/nowhere"), Question()).look()  # type: ignore[arg-type]
    assert "hush" not in str(refused.value)


def test_a_fleet_is_not_named_after_credentials() -> None:
    """The ids of DAGs are made of the table's URI."""
    with pytest.raises(InvalidInput, match="holds credentials") as refused:
        compaction_dags(table="s3://me:hush@lake")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "file", ["segtable_forget.py", "segtable_ingest_then_wait.py", "segtable_load_daily.py"]
)
def test_the_shipped_dags_start_no_shell_and_check_their_tables(file: str) -> None:
    """No word of a run's parameters becomes one of a command, and no name leaves the root."""
    made = runpy.run_path(str(DAGS / file)).values()
    dag = next(each.dag for each in made if isinstance(each, BaseOperator))
    assert not [task for task in dag.tasks if "bash" in type(task).__module__]
    for bad in ("--x", "../x", "a/../../x", "a b", "a;b", "$(x)"):
        with pytest.raises(ParamValidationError):
            dag.params.get_param("table").resolve(bad)


def test_an_ingest_takes_no_option_from_a_file() -> None:
    """Whatever a run's parameters name comes as the value of an option."""
    task = SegtableIngestOperator(task_id="t", table="t", files="--x=1", options={"a": "--y"})
    assert task.asked("--z") == ("--source=--x=1", "--option=a=--y", "--commit-id=--z")
