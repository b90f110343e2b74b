"""Readers of Apache Iceberg: pyiceberg, Polars and DuckDB.

Without a catalog a version is opened by its metadata, which has the name that it has in Hadoop's
catalogs: ``metadata/vN.metadata.json`` below the address.
"""

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from airflow_provider_segtable.health.published_readers.duckdb_connection import (
    lacking_extensions,
    quoted,
    rows_of,
)
from airflow_provider_segtable.health.published_readers.reader import (
    PublishedPlace,
    PublishedReader,
    not_installed,
)
from airflow_provider_segtable.health.published_readers.store_options import fileio_options


class PyIcebergReader:
    """The package ``pyiceberg``."""

    name: ClassVar[str] = "pyiceberg"
    package: ClassVar[str] = "pyiceberg"

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        from pyiceberg.table import StaticTable

        table = StaticTable.from_metadata(_metadata(place), fileio_options(place.options))
        yield from table.scan().to_arrow_batch_reader()


class PolarsIcebergReader:
    """Polars' ``scan_iceberg``, which finds files by pyiceberg, and reads them itself."""

    name: ClassVar[str] = "polars"
    package: ClassVar[str] = "polars"

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package) or not_installed(PyIcebergReader.package)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        import polars as pl

        options = fileio_options(place.options) or None
        frame = pl.scan_iceberg(_metadata(place), storage_options=options)
        for found in frame.collect_batches(maintain_order=False):
            yield from found.to_arrow().to_batches()


class DuckDbIcebergReader:
    """DuckDB with its extensions ``iceberg`` and ``avro``."""

    name: ClassVar[str] = "duckdb"
    package: ClassVar[str] = "duckdb"
    extensions: ClassVar[tuple[str, ...]] = ("avro", "iceberg")

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package) or lacking_extensions(self.extensions)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        scan = f"FROM iceberg_scan({quoted(_metadata(place))})"
        yield from rows_of(scan, self.extensions, place)


def _metadata(place: PublishedPlace) -> str:
    """Return the location of a version's metadata."""
    return f"{place.location}/metadata/v{place.number}.metadata.json"


ICEBERG_READERS: tuple[PublishedReader, ...] = (
    PyIcebergReader(),
    PolarsIcebergReader(),
    DuckDbIcebergReader(),
)
