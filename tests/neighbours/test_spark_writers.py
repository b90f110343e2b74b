"""Spark changes no published Delta table, and deletes no file of an Iceberg table."""

from pathlib import Path

import pytest

from tests.neighbours.spark_reader import Refused, SparkReader
from tests.neighbours.test_spark_life_cycle import FORMATS, SCHEMA, batch
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


@pytest.fixture(scope="module")
def root(spark: SparkReader) -> Path:
    """A table with deletes, in the folder of the catalog."""
    place = spark.folder / "written"
    table = new_table(place, SCHEMA, granularity="day", properties=FORMATS)
    table.append(batch(table, 0))
    table.delete("row % 6 = 1")
    return place


def held(root: Path) -> dict[str, bytes]:
    """Return all files of the table, but for the checksums that Hadoop puts beside its own."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("statement", CHANGES)
def test_delta_refuses_to_write(root: Path, spark: SparkReader, statement: str) -> None:
    """It does not know the writer feature, names it, and leaves every file as it is."""
    before = held(root)
    with pytest.raises(Refused, match="segtablePublished"):
        spark.ask(sql=statement.format(root=root))
    assert held(root) == before


@pytest.mark.parametrize("statement", CLEANING)
def test_iceberg_deletes_no_file(root: Path, spark: SparkReader, statement: str) -> None:
    """It says that garbage collection is switched off."""
    before = held(root)
    with pytest.raises(Refused, match="GC is disabled"):
        spark.ask(sql=statement.format(name=root.name))
    assert held(root) == before
