"""DuckDB and ClickHouse read published tables; DuckDB reads each version of them, too."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.neighbours.life import FORMATS, REFUSED_BY_DELTA, SCHEMA, STAGES, Life
from tests.neighbours.session import Session
from tests.property.published_readers import metadata
from tests.property.published_values import Row, rows
from tests.property.published_world import new_table

NEWEST = {
    "duckdb delta": "delta_scan('{root}')",
    "duckdb iceberg": "iceberg_scan('{root}/_iceberg')",
    "clickhouse delta": "deltaLakeLocal('{root}')",
    "clickhouse iceberg": "icebergLocal('{root}/_iceberg')",
}
FILTERS = {
    "at": ">= '2026-01-31 05:00:00'",
    "row": "= 17",
    "price": ">= 100",
    "name": "= 'n2'",
}


def instants(table: pa.Table) -> Counter[Row]:
    """Return rows whose times without a zone are in UTC, as ClickHouse takes them."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            values = table.column(at).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(at, field.name, values)
    return rows(table)


@pytest.mark.parametrize("case", NEWEST)
@pytest.mark.parametrize("stages", [1, 4, 6, 12, 14])
def test_the_newest_version_is_read(
    tmp_path: Path, embedded: Session, case: str, stages: int
) -> None:
    """With deletes, after compactions, and by other time chunks; filters find the same rows."""
    table = new_table(tmp_path / "t", SCHEMA, granularity="day", properties=FORMATS)
    for act in [*STAGES.values()][:stages]:
        act(table)
    engine, asked = case.partition(" ")[0], NEWEST[case].format(root=tmp_path / "t")
    found = embedded.ask(engine=engine, sql=f"SELECT * FROM {asked}")  # noqa: S608
    assert instants(found) == instants(table.scan().to_arrow())
    for column, test in FILTERS.items():
        where = f'SELECT * FROM {asked} WHERE "{column}" {test}'  # noqa: S608
        right = table.scan(where=f"{column} {test}").to_arrow()
        assert instants(embedded.ask(engine=engine, sql=where)) == instants(right), column


@pytest.mark.parametrize("stage", STAGES)
def test_duckdb_has_the_rows_of_each_stage_of_iceberg(
    life: Life, embedded: Session, stage: str
) -> None:
    """Each version is read by its metadata."""
    file = metadata(life.root, life.number("iceberg", stage))
    found = embedded.ask(engine="duckdb", sql=f"SELECT * FROM iceberg_scan('{file}')")  # noqa: S608
    assert rows(found) == life.rows(stage)


@pytest.mark.parametrize("stage", [name for name in STAGES if name not in REFUSED_BY_DELTA])
def test_duckdb_has_the_rows_of_each_stage_of_delta(
    life: Life, embedded: Session, stage: str
) -> None:
    """Each version is read by its number."""
    number = life.number("delta", stage)
    asked = f"SELECT * FROM delta_scan('{life.root}', version => {number})"  # noqa: S608
    assert rows(embedded.ask(engine="duckdb", sql=asked)) == life.rows(stage)
