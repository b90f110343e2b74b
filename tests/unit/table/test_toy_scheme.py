"""A store is added by one class in ``core.schemes``; every border finds it there."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import SplitResult
from uuid import uuid4

import pytest

from airflow_provider_segtable.assets.asset_uri import asset_uri
from airflow_provider_segtable.core.errors import InvalidName, NotATable
from airflow_provider_segtable.core.schemes import SCHEMES, Memory, examples, usual
from airflow_provider_segtable.health.published_readers import (
    PublishedPlace,
    duckdb_secret,
    fileio_options,
)
from airflow_provider_segtable.spark.driver.file_locations import spark_root
from airflow_provider_segtable.storage import check_uri
from airflow_provider_segtable.storage.table_paths import console_page
from airflow_provider_segtable.table.table import Table
from tests.unit.cli.conftest import trips


class Toy(Memory):
    """A store in this process that Spark, a console, and foreign readers would know, too."""

    names: ClassVar[Mapping[str, str]] = {"toy": "toy", "toys": "toy"}
    examples: ClassVar[tuple[str, ...]] = ("toy://box/path",)

    def spark_root(self, place: SplitResult, options: Mapping[str, str]) -> str:
        """Return Hadoop's name."""
        return f"toyfs://{options['shelf']}/{place.netloc}"

    def console_page(self, place: SplitResult) -> str:
        """Return a page."""
        return f"https://toys.example{place.path}"

    def fileio_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return Iceberg's name."""
        return {"toy.shelf": options["shelf"]}

    def duckdb_secret(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return DuckDB's name."""
        return {"TYPE": "toy", "SHELF": options["shelf"]}


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """List the toy beside the shipped stores."""
    for name in Toy.names:
        monkeypatch.setitem(SCHEMES, name, Toy())


def test_a_table_is_written_and_read_in_a_new_store() -> None:
    """Log and data files are in the new store; its scheme is an own place beside the others."""
    rows = trips(48)
    name = uuid4()
    uri = f"toy://{name}/trips"
    made = Table.create(
        uri, schema=rows.schema, time_column="at", zookeeper=f"memory://{name}-locks"
    )
    made.append(rows)
    opened = Table.open(uri)
    assert opened.scan().to_arrow().sort_by("at").equals(rows.sort_by("at"))
    assert opened.ports.storage.uri == uri
    made.ports.coordinator.close()
    with pytest.raises(NotATable):
        Table.open(f"memory://{name}/trips")


def test_borders_know_a_new_store() -> None:
    """Assets, Spark, the console and foreign readers name the store as its class says."""
    options = {"shelf": "it's"}
    place = PublishedPlace(address="toys://box/t", number=0, options=options)
    assert asset_uri(check_uri("toys://box//trips/")) == "segtable://toy/box/trips"
    assert spark_root("toy://box/a[1]", options) == "toyfs://it's/box/a[1]"
    assert console_page("toy://box/trips", options) == "https://toys.example/trips"
    assert fileio_options(place) == {"toy.shelf": "it's"}
    assert duckdb_secret(place) == "CREATE SECRET (TYPE toy, SHELF 'it''s')"


def test_messages_list_a_new_store() -> None:
    """A wrong URI is answered with the forms of all stores."""
    with pytest.raises(InvalidName, match="toy://box/path"):
        check_uri("ftp://host/x")
    assert "toy://box/path" in examples()
    assert "toy" not in usual()
    with pytest.raises(InvalidName, match="use a path, file://, s3://, gs:// or az://"):
        spark_root("memory://box", {})


def test_locations_for_spark_have_the_names_of_hadoop() -> None:
    """Aliases and Azure's two forms become one that Hadoop opens; an account is needed."""
    account = {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}
    assert spark_root("s3://lake/a%20b/", {}) == "s3a://lake/a b"
    assert spark_root("gs://lake/t", {}) == "gs://lake/t"
    assert spark_root("az://box/t", account) == "abfss://box@acc.dfs.core.windows.net/t"
    assert spark_root("abfs://box@acc.dfs.core.windows.net/t", {}).startswith("abfs://box@acc.")
    with pytest.raises(InvalidName, match="account"):
        spark_root("az://box/t", {})


def test_consoles_list_the_folder_of_a_table() -> None:
    """An own endpoint has another console; a store without one has no page."""
    page = "https://console.aws.amazon.com/s3/buckets/lake?prefix=a%2Ft%2F"
    assert console_page("s3a://lake/a/t/", {}) == page
    assert console_page("gs://lake/t", {}).endswith("storage/browser/lake/t")
    assert not console_page("s3://lake/t", {"AWS_ENDPOINT_URL": "http://here"})
    assert not console_page("/lake/t", {}) + console_page("memory://lake/t", {})
