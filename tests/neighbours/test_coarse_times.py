"""Times in seconds and milliseconds are published as Delta Lake, and refused as Iceberg.

Iceberg's own library skips row groups by bounds in milliseconds, which it takes for microseconds
(apache/iceberg#18173).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.library.table import Table
from tests.neighbours.session import Session
from tests.neighbours.spark_reader import SparkReader
from tests.neighbours.trino_reader import TrinoReader
from tests.property.published_world import new_table

START = datetime(2026, 1, 30, tzinfo=UTC)
HOURS = 48
MIDDLE = "2026-01-31 00:00:00"
FOUND = {"=": 1, "<=": 25, ">=": 24}


def table_of(root: Path, unit: str) -> Table:
    """Return a table with a row an hour, whose times have a unit."""
    schema = pa.schema(
        [
            pa.field("at", pa.timestamp(unit, "UTC"), nullable=False),
            ("local", pa.timestamp(unit)),
        ]
    )
    on = {"publish.delta": "on", "publish.lag_seconds": "0"}
    table = new_table(root, schema, granularity="month", properties=on)
    times = [START + timedelta(hours=n) for n in range(HOURS)]
    made = [{"at": at, "local": at.replace(tzinfo=None)} for at in times]
    table.append(pa.Table.from_pylist(made, schema))
    return table


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_iceberg_is_refused(tmp_path: Path, unit: str) -> None:
    """The reason names the column."""
    (outcome,) = table_of(tmp_path / "t", unit).publish(formats=["iceberg"])
    assert "column 'at' is timestamp" in str(outcome)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_spark_filters_delta(tmp_path: Path, spark: SparkReader, unit: str) -> None:
    """Spark's own reader of Parquet knows the unit of a file."""
    table_of(tmp_path / "t", unit)
    for how, right in FOUND.items():
        for column, kind in (("at", "TIMESTAMP"), ("local", "TIMESTAMP_NTZ")):
            asked = f"SELECT count(*) n FROM t WHERE {column} {how} {kind} '{MIDDLE}'"  # noqa: S608
            assert spark.delta(tmp_path / "t", sql=asked)["n"].to_pylist() == [right]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_trino_filters_delta(tmp_path: Path, trino: TrinoReader, unit: str) -> None:
    """Trino's reader does, too."""
    table_of(tmp_path / "t", unit)
    name = trino.delta(tmp_path / "t")
    for how, right in FOUND.items():
        for column, zone in (("at", " UTC"), ("local", "")):
            test = f"{column} {how} TIMESTAMP '{MIDDLE}{zone}'"
            found = trino.sql(f"SELECT count(*) n FROM {name} WHERE {test}")  # noqa: S608
            assert found["n"].to_pylist() == [right]


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize(
    ("engine", "reader"), [("duckdb", "delta_scan"), ("clickhouse", "deltaLakeLocal")]
)
def test_embedded_engines_filter_delta(
    tmp_path: Path, embedded: Session, engine: str, reader: str, unit: str
) -> None:
    """So do theirs."""
    table_of(tmp_path / "t", unit)
    for how, right in FOUND.items():
        for column in ("at", "local"):
            asked = f"SELECT count(*) n FROM {reader}('{tmp_path}/t')"  # noqa: S608
            asked += f" WHERE \"{column}\" {how} '{MIDDLE}'"
            found = embedded.ask(engine=engine, sql=asked)
            assert found["n"].to_pylist() == [right]
