"""Files of an object store as inputs of tasks, without Spark."""

import json
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from obstore.store import S3Store

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.operators.change import (
    SegtableDeleteOperator,
    SegtableMergeOperator,
    SegtableUpdateOperator,
)
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.operators.overwrite import SegtableOverwriteOperator
from tests.support.s3 import BUCKET, LoopbackS3

from .conftest import CONNECTION, JANUARY, SCHEMA, Flights


class NoSpark:
    """A launcher that is not to be used."""

    attached = True

    def launch(self, submission: Submission, say: object) -> None:  # noqa: ARG002
        """Fail."""
        raise AssertionError(submission.arguments)

    def kill(self) -> None:
        """Do nothing."""


@pytest.fixture
def lake(flights: Flights, s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a folder in S3 with rows and ids; the connection has the store's options."""
    connection = json.loads(flights.connection)
    connection["extra"]["storage_options"] = s3.storage_options
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    store = S3Store(BUCKET, prefix="landing", **s3.storage_options)  # type: ignore[arg-type]
    for part in range(2):
        buffer = BytesIO()
        pq.write_table(pa.table([[JANUARY], [9000 + part]], schema=SCHEMA), buffer)
        store.put(f"2013-01-01/{part}.parquet", buffer.getvalue())
    store.put("ids/a.csv", b"row\n3\n")
    store.put("ids/b.csv", b"row\n4\n")
    store.put("late.jsonl", b'{"row": 5, "time_hour": "2013-01-01T09:00:00Z"}\n')
    return s3.uri("landing")


def run(operator: type, name: str, **fields: Any) -> dict[str, Any]:
    """Execute an operator as a task of this name."""
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id=name, map_index=-1)
    given = {"table": "flights", "launcher": NoSpark(), **fields}
    told: dict[str, Any] = operator(task_id=name, **given).execute({"ti": ti})
    return told


def test_objects_are_appended_and_overwrite(flights: Flights, lake: str) -> None:
    """All objects of a pattern are one event; a retry finds it."""
    before, files = flights.rows(), f"{lake}/2013-01-01/*.parquet"
    for again in (False, True):
        told = run(SegtableIngestOperator, "load", files=files)
        assert (told["rows"], told["appended_before"]) == (2, again)
    assert flights.rows() == [*before, 9000, 9001]
    given = {"files": [f"{lake}/2013-01-01/1.parquet"], "interval": "2013-01-01/2014-01-01"}
    assert run(SegtableOverwriteOperator, "again", **given)["rows"] == 1
    assert flights.rows() == [9001]


def test_objects_select_rows_and_are_merged(flights: Flights, lake: str) -> None:
    """Deletes, updates and merges are done in the task, once."""
    for again in (False, True):
        gone = run(SegtableDeleteOperator, "forget", matches=f"{lake}/ids/*.csv")
        assert (gone["matched"], gone["changed_before"]) == (2, again)
    assert run(SegtableUpdateOperator, "set", set={"row": "row + 0"}, where="row = 6")["event"]
    source = {"source": f"{lake}/late.jsonl", "on": "row"}
    told = run(SegtableMergeOperator, "merge", **source)
    assert (told["kind"], told["matched"], told["inserted"]) == ("merge", 1, 1)
    counted = run(SegtableDeleteOperator, "count", where="row < 10", dry_run=True)
    assert (counted["event"], counted["matched"], counted["dry_run"]) == (None, 8, True)
    assert flights.rows() == [row for row in range(800) if row not in (3, 4)]


@pytest.mark.usefixtures("flights")
def test_an_object_may_come_later(lake: str) -> None:
    """What is not there yet is retried, and starts no Spark."""
    for file in (f"{lake}/2013-01-02/*.parquet", f"{lake}/nope.csv"):
        with pytest.raises(NotFound, match="no file"):
            run(SegtableIngestOperator, "load", files=file)
        with pytest.raises(NotFound, match="no file"):
            run(SegtableDeleteOperator, "forget", matches=file)


def test_a_store_out_of_reach_is_left_to_spark(
    flights: Flights, lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster may reach what this worker cannot; the log has the reason."""
    connection = json.loads(flights.connection)
    options = {"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "b"}
    connection["extra"]["storage_options"] = options
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    with pytest.raises((AssertionError, AirflowException), match="--source=s3://"):
        run(SegtableIngestOperator, "load", files=f"{lake}/late.jsonl")
    assert "cannot be reached" in capsys.readouterr().out
