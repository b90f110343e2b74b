"""Windows: Spark reads from a window of versions what Arrow reads."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.services.compact_table import compact_table
from airflow_provider_segtable.spark.reads.dataframe_scan import read
from tests.spark.conftest import MakeTable
from tests.unit.table.conftest import SCHEMA, rows

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def test_spark_reads_windows_as_arrow_does(spark: SparkSession, make_table: MakeTable) -> None:
    """Rows added and changes, over a delete, an update and compactions, with conditions."""
    table = make_table(SCHEMA)
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    compact_table(table.ports, kind="semi-major")
    table.append(rows(range(30, 34)))
    table.delete("row = 4")
    table.update({"name": "x"}, "row = 25")
    asked = [
        {"since_version": 2},
        {"since_version": 1, "where": "row < 23", "columns": ["name"]},
        {"since_version": 1, "changes": True},
        {"since_version": 1, "changes": True, "where": "length(name) = 2", "columns": ["row"]},
        {"since_version": 1, "changes": True, "columns": ["_segtable_change"], "where": "row = 25"},
        {"since_version": 1, "interval": (0, 12)},
    ]
    for given in asked:
        request = read_request(**given)  # type: ignore[arg-type]
        frame = read(spark, table.ports, table.state(), request)
        local = {**given, "where": given.get("where", "").replace("length(name) = 2", "") or None}
        found = table.scan(**local)  # type: ignore[arg-type]
        assert frame.columns == found.schema.names
        wanted = found.to_arrow().to_pylist()
        if local["where"] != given.get("where"):
            every = table.scan(since_version=1, changes=True).to_arrow().to_pylist()
            wanted = [{"row": r["row"]} for r in every if len(r["name"] or "") == 2]
        got = frame.toArrow().to_pylist()
        assert sorted(map(str, got)) == sorted(map(str, wanted))
        assert wanted


def test_windows_that_cannot_be_read_are_refused(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Columns that are not there, conditions that are no SQL; an empty window is empty."""
    table = make_table(SCHEMA)
    table.append(rows(range(10)))
    state = table.state()
    with pytest.raises(SchemaMismatch, match="no column 'nobody'"):
        read(spark, table.ports, state, read_request(since_version=0, columns="nobody"))
    with pytest.raises(InvalidInput, match="nobody"):
        read(spark, table.ports, state, read_request(since_version=0, where="nobody = 1"))
    empty = read(spark, table.ports, state, read_request(since_version=1, changes=True))
    assert empty.columns[-1] == "_segtable_completion_time"
    assert empty.count() == 0
    assert pa.table(table.scan(since_version=1, changes=True)).num_rows == 0
