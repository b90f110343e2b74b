"""Settling as a task."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.operators.settle import SegtableSettleOperator

from .conftest import CONNECTION, JANUARY, SCHEMA, Flights


def settler(**overrides: Any) -> SegtableSettleOperator:
    return SegtableSettleOperator(task_id="settle", **{"table": "latest", **overrides})


@pytest.fixture
def latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table whose second log file has newer records of half of the keys."""
    table = Table.create(
        str(tmp_path / "latest"),
        schema=SCHEMA,
        time_column="time_hour",
        granularity="year",
        primary_key="row",
        buckets=1,
    )
    for count in (10, 5):
        table.upsert(pa.table([[JANUARY] * count, range(count)], schema=SCHEMA))
    connection = {"conn_type": "segtable", "host": str(tmp_path)}  # without ZooKeeper
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    return table


def test_what_is_shown_is_recorded_and_a_retry_finds_nothing_to_do(latest: Table) -> None:
    """A look comes first; rows are the same before and after."""
    rows = latest.scan().count()
    due = settler(dry_run=True).execute({})
    done = settler().execute({})
    again = settler().execute({})
    assert [each["groups"] for each in (due, done, again)] == [1, 1, 0]
    assert (done["rows"], done["hidden"], again["settled_before"]) == (15, 5, 1)
    assert latest.scan().count() == rows == 10


def test_a_table_without_a_key_fails_at_once(flights: Flights) -> None:
    """A retry would not help."""
    with pytest.raises(AirflowFailException, match="primary key"):
        settler(table=flights.name).execute({})
