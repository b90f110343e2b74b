"""Readers of Delta Lake: deltalake, Polars and DuckDB."""

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


class DeltaLakeReader:
    """The package ``deltalake`` (delta-rs), by its SQL engine, which applies deletion vectors."""

    name: ClassVar[str] = "deltalake"
    package: ClassVar[str] = "deltalake"

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(
            place.location, version=place.number, storage_options=dict(place.options) or None
        )
        found = QueryBuilder().register("published", table).execute("SELECT * FROM published")
        yield from pa.RecordBatchReader.from_stream(found)


class PolarsDeltaReader:
    """Polars' ``scan_delta``, which finds files by deltalake, and reads them itself."""

    name: ClassVar[str] = "polars"
    package: ClassVar[str] = "polars"

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package) or not_installed(DeltaLakeReader.package)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        import polars as pl

        frame = pl.scan_delta(
            place.location, version=place.number, storage_options=dict(place.options) or None
        )
        for found in frame.collect_batches(maintain_order=False):
            yield from found.to_arrow().to_batches()


class DuckDbDeltaReader:
    """DuckDB with its extension ``delta``."""

    name: ClassVar[str] = "duckdb"
    package: ClassVar[str] = "duckdb"
    extensions: ClassVar[tuple[str, ...]] = ("delta",)

    def lacking(self) -> str:
        """Return what is not installed."""
        return not_installed(self.package) or lacking_extensions(self.extensions)

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        attach = f"ATTACH {quoted(place.location)} AS seen (TYPE delta, VERSION {place.number})"
        yield from rows_of("FROM seen", self.extensions, place, first=(attach,))


DELTA_READERS: tuple[PublishedReader, ...] = (
    DeltaLakeReader(),
    PolarsDeltaReader(),
    DuckDbDeltaReader(),
)
