"""A published table is registered in a catalog, and brought on with each version."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.utils.config import Config

from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.formats.iceberg.catalog import register
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergFormat
from airflow_provider_segtable.table.table import Table
from tests.unit.formats.iceberg.making import Lake, lake_at, rows
from tests.unit.formats.iceberg.rest_catalog import served
from tests.unit.services.repairing import ports_at

NAME = "lake.trips"
PROPERTIES = {"publish.iceberg_catalog": "test", "publish.iceberg_table": NAME}


@pytest.fixture(params=["sql", "rest"])
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """A catalog in an SQLite database, by itself or behind HTTP, named in the environment."""
    database = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/test.db", warehouse=f"{tmp_path}/w")
    with ExitStack() as stack:
        uri = database.properties["uri"]
        if request.param == "rest":
            uri = stack.enter_context(served(database))
        for name, value in (("TYPE", request.param), ("URI", uri)):
            monkeypatch.setenv(f"PYICEBERG_CATALOG__TEST__{name}", value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # else read at the import
        yield load_catalog("test")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table with a published version."""
    made = lake_at(tmp_path / "t")
    made.table.append(rows(range(10)))
    made.publish()
    return made


def registered(published: Published | None) -> str:
    """Register a version by the properties; return the reason why it was not."""
    assert published is not None
    return IcebergFormat().register(published, PROPERTIES)


def check(lake: Lake, catalog: Catalog) -> None:
    """Compare the catalog's table with the log's version."""
    wanted = lake.table.scan().to_arrow().sort_by("row")
    found = catalog.load_table(NAME).scan().to_arrow()
    found = found.select(wanted.column_names).cast(wanted.schema).sort_by("row")
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())


def test_a_catalog_follows_each_version(lake: Lake, catalog: Catalog) -> None:
    """Deletes and columns included, also if versions between were not registered."""
    assert registered(lake.known) == registered(lake.known) == ""
    check(lake, catalog)
    lake.table.delete("row = 3")
    assert registered(lake.publish()) == ""
    check(lake, catalog)
    lake.table.alter(
        columns=[AddColumn(name="more", type="int64"), RenameColumn(name="name", new="title")]
    )
    lake.table.delete("row = 4")
    lake.publish()
    lake.compact("major")
    assert registered(lake.publish()) == ""
    check(lake, catalog)
    lake.table.delete("row = 5")
    assert registered(lake.publish()) == ""
    check(lake, catalog)


def test_a_catalog_never_goes_back(lake: Lake, catalog: Catalog) -> None:
    """A publisher that is late with its registration leaves the newer one."""
    early = lake.known
    registered(early)
    lake.table.delete("row = 3")
    registered(lake.publish())
    assert registered(early) == ""
    check(lake, catalog)


@pytest.mark.parametrize("catalog", ["sql"], indirect=True)  # others have errors of their own
def test_a_moved_table_is_registered_anew(lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    """Its paths are others."""
    registered(lake.known)
    (tmp_path / "t").rename(tmp_path / "u")
    moved = Lake(Table(ports_at(tmp_path / "u")))
    moved.known = moved.target.load()
    assert registered(moved.publish()) == ""
    check(moved, catalog)


def test_what_goes_wrong_is_a_reason(
    lake: Lake, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tool's table, no namespace, an unknown catalog, no pyiceberg: nothing is raised."""
    database = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/test.db", warehouse=f"{tmp_path}/w")
    catalog.create_namespace("lake")
    database.create_table(NAME, Schema(NestedField(1, "x", LongType())))
    assert "segtable did not publish" in registered(lake.known)
    assert lake.known is not None
    assert "namespace.table" in register(lake.known, "test", "trips")
    assert "did not take event 1 of table 'a.b'" in register(lake.known, "none", "a.b")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    assert "pip install 'airflow-provider-segtable[iceberg]'" in registered(lake.known)
