"""Trino changes no published Delta table, and of an Iceberg table its own metadata alone."""

from pathlib import Path

import polars as pl
import pytest

from airflow_provider_segtable.library.table import Table
from tests.neighbours.life import FORMATS, SCHEMA, batch
from tests.neighbours.session import Refused
from tests.neighbours.trino_reader import TrinoReader
from tests.neighbours.written import held
from tests.property.published_readers import metadata, newest_iceberg
from tests.property.published_values import rows
from tests.property.published_world import new_table

CHANGES = (
    "INSERT INTO {name} (at, row) VALUES (TIMESTAMP '2026-01-31 00:00:00 UTC', 1)",
    "DELETE FROM {name} WHERE row > 50",
    "UPDATE {name} SET fare = 1",
    "MERGE INTO {name} USING (VALUES 1) v (x) ON row = x WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {name}",
    "ALTER TABLE {name} EXECUTE optimize",
    "ALTER TABLE {name} ADD COLUMN other integer",
    "COMMENT ON TABLE {name} IS 'theirs'",
)
FENCE = "segtablePublished|Writes are not enabled on the file filesystem"
"""Trino changes no rows of any Delta table on local files; other changes meet the fence."""
ALTERED = (CHANGES[0], CHANGES[1], "ALTER TABLE {name} EXECUTE optimize")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a published table with deletes."""
    made = new_table(tmp_path / "t", SCHEMA, granularity="day", properties=FORMATS)
    made.append(batch(made, 0))
    made.delete("row % 6 = 1")
    return made


def total(trino: TrinoReader, name: str) -> int:
    """Return the number of rows that Trino finds."""
    count: int = trino.sql(f"SELECT count(*) n FROM {name}")["n"][0].as_py()  # noqa: S608
    return count


def shown(root: Path) -> object:
    """Return the rows of the newest Iceberg version, as Polars finds them."""
    return rows(pl.scan_iceberg(metadata(root, newest_iceberg(root))).collect().to_arrow())


def test_delta_refuses_to_write(tmp_path: Path, table: Table, trino: TrinoReader) -> None:
    """It leaves every file as it is. On local files it inserts into no Delta table at all."""
    del table
    name = trino.delta(tmp_path / "t")
    before = held(tmp_path / "t")
    for statement in CHANGES:
        with pytest.raises(Refused, match=FENCE):
            trino.sql(statement.format(name=name))
    with pytest.raises(Refused, match=FENCE):
        trino.sql(f"CALL delta.system.vacuum('lake', '{name.rpartition('.')[2]}', '0s')")
    assert held(tmp_path / "t") == before


def test_iceberg_writes_are_seen_by_trino_alone(
    tmp_path: Path, table: Table, trino: TrinoReader
) -> None:
    """They go into files and metadata of Trino's own; the table goes on as if they were not."""
    root = tmp_path / "t"
    name = trino.iceberg(root)
    before, here = held(root), shown(root)
    for statement in ALTERED:
        trino.sql(statement.format(name=name))
    after = held(root)
    assert {path: after[path] for path in before} == before
    assert all("/_iceberg/" in path for path in after.keys() - before.keys())
    assert shown(root) == here == rows(table.scan().to_arrow())
    theirs = total(trino, name)
    table.append(batch(table, 60))
    assert shown(root) == rows(table.scan().to_arrow())
    assert total(trino, name) == theirs, "the registered name shows no later version"


def test_iceberg_expires_no_snapshot(tmp_path: Path, table: Table, trino: TrinoReader) -> None:
    """It says that garbage collection is switched off."""
    del table
    name = trino.iceberg(tmp_path / "t")
    before = held(tmp_path / "t")
    with pytest.raises(Refused, match="GC is disabled"):
        trino.sql(f"ALTER TABLE {name} EXECUTE expire_snapshots(retention_threshold => '0s')")
    assert held(tmp_path / "t") == before


def test_removing_orphans_by_an_old_registration_harms_later_versions_alone(
    tmp_path: Path, table: Table, trino: TrinoReader
) -> None:
    """Trino heeds no ``gc.enabled``. It deletes below ``_iceberg`` only; publish in full again."""
    root = tmp_path / "t"
    name = trino.iceberg(root)
    table.append(batch(table, 60))
    table.delete("row % 6 = 2")
    before = held(root)
    trino.sql(f"ALTER TABLE {name} EXECUTE remove_orphan_files(retention_threshold => '0s')")
    gone = before.keys() - held(root).keys()
    assert gone
    assert all("/_iceberg/" in path for path in gone)
    table.publish(full=True)
    assert shown(root) == rows(table.scan().to_arrow())
