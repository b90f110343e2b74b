"""A column type is added by one record; all that names types finds it there."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.column_types import TYPES, ColumnType
from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats
from airflow_provider_segtable.core.schema import Column, Metric, Schema, orderly
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import widens
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import (
    from_arrow,
    parse_schema,
    parse_type,
    to_arrow,
)
from airflow_provider_segtable.formats.delta import log_files as delta
from airflow_provider_segtable.formats.iceberg import metadata as iceberg
from airflow_provider_segtable.spark.spark_columns import spark_schema

TOY = ColumnType(
    name="string_view",
    texts=("string_view",),
    words={"note": "string_view"},
    wider=("large_string",),
    delta="string",
    iceberg="string",
    spark="string",
    summed="double",
    sketches=("hll",),
    ordered=True,
    bounded=True,
    hashed=True,
)
SCHEMA = Schema((Column(name="at", type="timestamp[us]"), Column(name="toy", type="string_view")))


@pytest.fixture
def _listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """List the toy beside the other types."""
    monkeypatch.setitem(TYPES, TOY.name, TOY)
    yield
    parse_type.cache_clear()


def test_without_a_record_a_type_is_refused() -> None:
    """No table stores a type that has none."""
    with pytest.raises(SchemaMismatch, match="string_view"):
        parse_type("string_view")


@pytest.mark.usefixtures("_listed")
def test_schemas_have_a_new_type() -> None:
    """It becomes Arrow's type and is one again, at any depth; users write it by another name."""
    made = parse_schema("at datetime, toy note")
    assert made.field("toy").type == pa.string_view()
    assert from_arrow(made) == SCHEMA
    assert to_arrow(SCHEMA) == made
    assert parse_type("list<item: string_view>").value_type == pa.string_view()
    with pytest.raises(SchemaMismatch, match=r"large_utf8, long, note, real"):
        parse_schema("toy unheard_of")


@pytest.mark.usefixtures("_listed")
def test_published_formats_and_spark_name_a_new_type() -> None:
    """Delta Lake, Apache Iceberg and Spark have the names of the record."""
    assert '"name":"toy","type":"string"' in delta.schema_json(SCHEMA).replace(" ", "")
    assert [each["type"] for each in iceberg.schema_json(SCHEMA)["fields"]][1] == "string"
    assert spark_schema(to_arrow(SCHEMA))["toy"].dataType.simpleString() == "string"


@pytest.mark.usefixtures("_listed")
def test_indexes_metrics_and_changes_of_columns_take_a_new_type() -> None:
    """Statistics, filters, sums, sketches and wider types are those of the record."""
    table = TableDefinition(
        table_id="1", name="t", schema=SCHEMA, time_column="at", granularity=Granularity.DAY
    )
    ColumnStats(columns=(2,)).check(table)
    BloomFilter(columns=(2,)).check(table)
    assert orderly("string_view")
    toy = SCHEMA.columns[1]
    stored = {each: Metric.parse(f"m={each}(toy)").stored(toy).type for each in ("sum", "hll")}
    assert stored == {"sum": "double", "hll": "binary"}
    with pytest.raises(SchemaMismatch, match="there is no kll"):
        Metric.parse("m=kll(toy)").stored(toy)
    assert widens("string_view", "large_string")
    assert not widens("large_string", "string_view")
