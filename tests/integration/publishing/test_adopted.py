"""Adopted files, published: readers of other formats find their rows, or publishing is refused."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.library.table import Table
from tests.property.published_readers import metadata, newest_iceberg

DAY = datetime(2026, 1, 5, tzinfo=UTC)
PUBLISHED = {"publish.delta": "on", "publish.iceberg": "on", "publish.lag_seconds": "0"}


@pytest.fixture(autouse=True)
def zookeeper_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a service in memory to tables that are opened without an address."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")


def rows(day: int) -> pa.Table:
    """Return the ten rows of a day."""
    numbers = range(day * 10, day * 10 + 10)
    return pa.table(
        {
            "at": [DAY + timedelta(days=day, minutes=n) for n in numbers],
            "row": list(numbers),
            "name": [None if n % 3 == 0 else f"n{n % 7}" for n in numbers],
        }
    )


def put(root: Path, name: str, table: pa.Table) -> None:
    root.mkdir(exist_ok=True)
    pq.write_table(table, root / name)


def delta_rows(root: Path) -> list[int]:
    found = pa.table(deltalake.DeltaTable(root).scan().read_all())
    return sorted(found.column("row").to_pylist())


def iceberg_rows(root: Path) -> list[int]:
    newest = StaticTable.from_metadata(metadata(root, newest_iceberg(root)))
    return sorted(newest.scan().to_arrow().column("row").to_pylist())


def test_deltalake_and_pyiceberg_read_adopted_files(tmp_path: Path) -> None:
    """Columns are found by their names; missing ones are null; deletes and compactions hold."""
    root = tmp_path / "t"
    put(root, "a.parquet", rows(0))
    put(root, "b.parquet", rows(1).drop(["name"]))
    put(root, "c.parquet", rows(2).select(["name", "row", "at"]))
    Table.adopt(str(root), properties=PUBLISHED)
    table = Table.open(str(root))
    assert delta_rows(root) == iceberg_rows(root) == [*range(30)]
    table.delete("row in (3, 15)")
    left = [n for n in range(30) if n not in (3, 15)]
    assert delta_rows(root) == iceberg_rows(root) == left
    table.alter(
        columns=[RenameColumn(name="name", new="label"), AddColumn(name="more", type="int64")]
    )
    table.publish(formats=["iceberg"])
    assert iceberg_rows(root) == left
    table.compact("major")
    assert delta_rows(root) == iceberg_rows(root) == left


@pytest.mark.parametrize("odd", ["ignored", "dictionary", "nested"])
def test_what_pyiceberg_cannot_read_is_refused(tmp_path: Path, odd: str) -> None:
    """A compaction makes such files readable; until then Delta Lake's readers have them."""
    root, some = tmp_path / "t", rows(1)
    put(root, "a.parquet", rows(0))
    if odd == "ignored":
        some = some.append_column("extra", some.column("row"))
    elif odd == "dictionary":
        some = some.set_column(2, "name", some.column("name").dictionary_encode())
    else:
        some = some.append_column("tags", pa.array([[n] for n in range(10)]))
    put(root, "b.parquet", some)
    on = {"publish.delta": "on", "publish.lag_seconds": "0"}
    Table.adopt(str(root), properties=on, ignore_columns=["extra"])
    table = Table.open(str(root))
    (refused,) = table.publish(formats=["iceberg"])
    assert re.search(r"parquet.*write (it|them) anew", str(refused))
    assert delta_rows(root) == [*range(20)]
    table.compact("major")
    table.publish(formats=["iceberg"])
    assert delta_rows(root) == iceberg_rows(root) == [*range(20)]
