"""Functions that need the driver's process refuse Spark Connect in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import NonCallableMock

import pytest
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.driver.spark_connect import check_not_client
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.spark.writes.spark_engine import delete, overwrite
from airflow_provider_segtable.spark.writes.stream import ingest_stream
from airflow_provider_segtable.table.table import Table
from tests.cluster.conftest import SCHEMA

CLIENT: Any = object()  # no classic session
FRAME: Any = NonCallableMock(spec=DataFrame, sparkSession=CLIENT)

CALLS: dict[str, Callable[[Table], object]] = {
    "register": lambda _: register(CLIENT),
    "scan": lambda table: scan(CLIENT, table.snapshot()),
    "ingest": lambda table: ingest(table.ports, FRAME),
    "overwrite": lambda table: overwrite(table.ports, FRAME),
    "a change of rows": lambda table: delete(CLIENT, table.ports, "row = 1"),
    "a compaction in tasks": lambda _: spark_execute(CLIENT),
    "ingest_stream": lambda table: ingest_stream(table.ports, FRAME, "checkpoint"),
}


@pytest.mark.parametrize("work", CALLS)
def test_a_client_is_refused_with_the_ways_out(work: str, tmp_path: Path) -> None:
    """The work is named, and what a client can use instead; nothing is written."""
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, time_column="at")
    before = table.state().n
    with pytest.raises(InvalidInput, match="Spark Connect") as refused:
        CALLS[work](table)
    assert all(
        word in str(refused.value)
        for word in (f": {work} works", 'format("segtable")', "segtable spark-app")
    )
    assert table.state().n == before


@pytest.mark.parametrize(
    ("settings", "remote", "said"),
    [
        ({"spark.master": "sc://h:15002/;token=hush"}, "", "spark.master sc://h:15002/ makes"),
        ({"spark.remote": "local"}, "", "spark.remote local makes"),
        ({"spark.api.mode": "connect"}, "", "spark.api.mode connect makes"),
        ({}, "sc://h:15002/;token=hush", "SPARK_REMOTE=sc://h:15002/ makes"),
    ],
)
def test_no_session_starts_where_settings_name_a_server(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], remote: str, said: str
) -> None:
    """Commands and applications are drivers; the server's parameters may be credentials."""
    monkeypatch.setenv("SPARK_REMOTE", remote)
    with pytest.raises(InvalidInput, match="name a master") as refused:
        session("none", conf=settings)
    assert str(refused.value).startswith(said)
    assert "hush" not in str(refused.value)


def test_a_driver_s_settings_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classic mode and masters of clusters pass."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    check_not_client({"spark.master": "spark://head:7077", "spark.api.mode": "classic"})
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(InvalidInput, match="a session of Spark Connect"):
        check_not_client({"spark.master": "local"})
