"""Apache Iceberg, version 2 of its format, as a format in which versions are published."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.formats.iceberg import names
from airflow_provider_segtable.formats.iceberg.catalog import register
from airflow_provider_segtable.formats.iceberg.iceberg_schema import refusals
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergTarget
from airflow_provider_segtable.planning.properties.publish_settings import PublishSettings
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage


class IcebergFormat:
    """``formats.format.Format`` for Apache Iceberg."""

    name: ClassVar[str] = "iceberg"
    title: ClassVar[str] = "Apache Iceberg"
    folders: ClassVar[tuple[str, ...]] = (names.FOLDER,)

    def target(self, storage: Storage, randomness: Randomness | None = None) -> IcebergTarget:
        """Return the target in a table's root."""
        return IcebergTarget(storage, randomness)

    def refusal(self, table: TableCreated, schemas: Collection[int]) -> str:
        """Return why a version cannot be published, with the way out; empty if it can."""
        return next(refusals(table, schemas), "")

    def register(self, published: Published, properties: Mapping[str, str]) -> str:
        """Bring the catalog that the properties name to a version; return why it could not be."""
        settings = PublishSettings.read(properties)
        if not settings.iceberg_catalog or published.own.metadata is None:
            return ""
        return register(published, settings.iceberg_catalog, settings.iceberg_table)

    def is_own(self, path: str) -> bool:
        """Return whether a file's name is one that a target gives."""
        return names.is_own(path)
