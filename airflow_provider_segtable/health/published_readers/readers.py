"""The registry of published readers."""

from collections.abc import Mapping

from airflow_provider_segtable.health.published_readers.delta_readers import DELTA_READERS
from airflow_provider_segtable.health.published_readers.iceberg_readers import ICEBERG_READERS
from airflow_provider_segtable.health.published_readers.reader import PublishedReader

READERS: Mapping[str, tuple[PublishedReader, ...]] = {
    "delta": DELTA_READERS,
    "iceberg": ICEBERG_READERS,
}
"""The readers of each format, by its name."""
