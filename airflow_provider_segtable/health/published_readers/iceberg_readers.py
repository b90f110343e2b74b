"""Readers of Apache Iceberg: pyiceberg, Polars and DuckDB. An address names one metadata file."""

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

        table = StaticTable.from_metadata(place.address, fileio_options(place.options))
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
        frame = pl.scan_iceberg(place.address, storage_options=options)
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
        scan = f"FROM iceberg_scan({quoted(place.address)})"
        yield from rows_of(scan, self.extensions, place)


ICEBERG_READERS: tuple[PublishedReader, ...] = (
    PyIcebergReader(),
    PolarsIcebergReader(),
    DuckDbIcebergReader(),
)
