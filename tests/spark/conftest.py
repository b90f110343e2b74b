"""One Spark session and one ZooKeeper for all Spark tests; a table of its own for each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.table.table import Table

MakeTable = Callable[..., Table]

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    # Spark compiles Java for each query, which takes longer than such small queries do without it.
    # Applications that tests start as processes run with generated code, as users' do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each sort and aggregate of a task allocates a page, 16 MiB by default, for few rows.
    "spark.buffer.pageSize": "1m",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    made = session("tests", "local[2]", {"spark.local.dir": str(folder), **QUICK})
    yield made
    made.stop()


@pytest.fixture
def make_table(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[MakeTable]:
    """Return a maker of tables below the test's folder, closed in the end."""
    made: list[Table] = []

    def make(
        schema: pa.Schema,
        time_column: str = "at",
        granularity: Granularity = Granularity.MONTH,
        name: str = "table",
        **properties: str,
    ) -> Table:
        table = Table.create(
            str(tmp_path / name),
            schema=schema,
            time_column=time_column,
            granularity=granularity,
            properties={key.replace("__", "."): value for key, value in properties.items()},
            zookeeper=zookeeper.address,
        )
        made.append(table)
        return table

    yield make
    for table in made:
        table.ports.coordinator.close()


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], set[str]]:
    """Return what lists the data files of the test's table."""

    def listed() -> set[str]:
        root = tmp_path / "table" / "data"
        return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}

    return listed
