"""Spark changes no published Delta table; its writes into an Iceberg table are published over."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from airflow_provider_segtable.library.table import Table
from tests.neighbours.life import FORMATS, SCHEMA, batch
from tests.neighbours.session import Refused
from tests.neighbours.spark_reader import SparkReader
from tests.neighbours.written import held
from tests.property.published_readers import metadata, newest_iceberg
from tests.property.published_values import Row, rows
from tests.property.published_world import new_table

CHANGES = (
    "DELETE FROM delta.`{root}` WHERE row > 50",
    "UPDATE delta.`{root}` SET fare = 1",
    "INSERT INTO delta.`{root}` SELECT * FROM delta.`{root}`",
    "OPTIMIZE delta.`{root}`",
    "VACUUM delta.`{root}`",
    "RESTORE TABLE delta.`{root}` TO VERSION AS OF 1",
    "ALTER TABLE delta.`{root}` ADD COLUMN other INT",
)
CLEANING = (
    "CALL lake.system.expire_snapshots('{name}._iceberg', TIMESTAMP '2030-01-01 00:00:00')",
    "CALL lake.system.remove_orphan_files(table => '{name}._iceberg')",
)


LEFT = ("part-", "deletion_vector_")
"""The first letters of files that Delta Lake writes before it looks whether it may commit."""
WRITES = {
    "insert": "INSERT INTO lake.{name}._iceberg SELECT * FROM lake.{name}._iceberg",
    "delete": "DELETE FROM lake.{name}._iceberg WHERE row > 50",
    "rewrite": "CALL lake.system.rewrite_data_files(table => '{name}._iceberg', "
    "options => map('rewrite-all', 'true'))",
}


def published(place: Path) -> Table:
    """Return a published table with deletes."""
    made = new_table(place, SCHEMA, granularity="day", properties=FORMATS)
    made.append(batch(made, 0))
    made.delete("row % 6 = 1")
    return made


@pytest.fixture(scope="module")
def root(spark: SparkReader) -> Path:
    """Return the folder of a table in the folder of the catalog."""
    place = spark.folder / "written"
    published(place)
    return place


def shown(root: Path) -> Counter[Row]:
    """Return the rows of the newest Iceberg version, as Polars finds them."""
    return rows(pl.scan_iceberg(metadata(root, newest_iceberg(root))).collect().to_arrow())


@pytest.mark.parametrize("statement", CHANGES)
def test_delta_refuses_to_write(root: Path, spark: SparkReader, statement: str) -> None:
    """It names the feature that it does not know. Files that no log names may be left in the root.

    Delta Lake writes data files before it looks whether it may commit, and deletes them by VACUUM,
    which is refused.
    """
    before = held(root)
    with pytest.raises(Refused, match="segtablePublished"):
        spark.ask(sql=statement.format(root=root))
    after = held(root)
    assert {path: after[path] for path in before} == before
    left = [Path(path) for path in after.keys() - before.keys()]
    assert all(path.parent == root and path.name.startswith(LEFT) for path in left)


@pytest.mark.parametrize("statement", CLEANING)
def test_iceberg_deletes_no_file(root: Path, spark: SparkReader, statement: str) -> None:
    """It says that garbage collection is switched off."""
    before = held(root)
    with pytest.raises(Refused, match="GC is disabled"):
        spark.ask(sql=statement.format(name=root.name))
    assert held(root) == before


@pytest.mark.parametrize("write", WRITES)
def test_iceberg_writes_are_published_over(spark: SparkReader, write: str) -> None:
    """Iceberg has no fence: the write is the next version, until segtable publishes again."""
    root = spark.folder / write
    table = published(root)
    before, number = held(root), newest_iceberg(root)
    spark.ask(sql=WRITES[write].format(name=root.name))
    after = held(root)
    hint = str(root / "_iceberg/metadata/version-hint.text")
    assert {path for path in before if after.get(path) != before[path]} == {hint}
    assert all("/_iceberg/" in path for path in after.keys() - before.keys())
    assert newest_iceberg(root) == number + 1
    right = rows(table.scan().to_arrow())
    assert (rows(spark.iceberg(root)) == right) is (write == "rewrite")
    table.append(batch(table, 60))
    assert shown(root) == rows(spark.iceberg(root)) == rows(table.scan().to_arrow())
