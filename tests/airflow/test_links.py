"""Links of tasks: to the table in its store's console, and to the planner's run."""

import json
from types import SimpleNamespace

import pytest

from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.rendered import SegtablePlannerLink, SegtableTableLink

from .conftest import CONNECTION, Flights

ENDPOINT = {"storage_options": {"aws_endpoint_url": "http://127.0.0.1:9000"}}


@pytest.mark.parametrize(
    ("root", "extra", "wanted"),
    [
        ("s3://lake/a b", {}, "https://console.aws.amazon.com/s3/buckets/lake?prefix=a%20b%2Ft%2F"),
        ("gs://lake/a b", {}, "https://console.cloud.google.com/storage/browser/lake/a%20b/t"),
        ("s3://lake", ENDPOINT, ""),
        ("/data/tables", {}, ""),
        ("", {}, ""),
    ],
)
def test_a_table_is_shown_by_the_console_of_its_store(
    root: str, extra: dict[str, object], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other stores have no page that is known, and the task no link."""
    connection = {"conn_type": "segtable", "host": root, "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    task = SegtableCompactOperator(task_id="t", table="t")
    assert SegtableTableLink().get_link(task, ti_key=None) == wanted


def test_a_task_links_to_the_planner_that_emitted_its_run(flights: Flights) -> None:
    """The run's conf names it; whatever it holds becomes a part of one path."""
    run_id = "manual__2026-01-01T00:00:00+00:00"
    ti = SimpleNamespace(dag_id="planner", run_id=run_id, task_id="plan")
    dags = {"minor": "minor_dag"}
    plan = SegtablePlanOperator(task_id="plan", table=flights.name, trigger_dag_ids=dags)
    (run,) = plan.execute({"ti": ti})
    link, found = SegtablePlannerLink(), run["conf"]["planned_by"]
    task = SegtableCompactOperator(task_id="t", table="t", planned_by=found)
    assert link.get_link(task, ti_key=None).endswith(f"/dags/planner/runs/{run_id}")
    hostile = SegtableCompactOperator(task_id="t", table="t", planned_by="d/../x?a=<b>")
    assert link.get_link(hostile, ti_key=None).endswith("/dags/d/runs/..%2Fx%3Fa%3D%3Cb%3E")
    for nothing in ("", "/", "d", "//x"):
        by_hand = SegtableCompactOperator(task_id="t", table="t", planned_by=nothing)
        assert link.get_link(by_hand, ti_key=None) == ""
