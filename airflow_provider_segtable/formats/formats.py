"""The registry of formats."""

from collections.abc import Mapping

from airflow_provider_segtable.formats.delta.delta_target import DeltaFormat
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergFormat

_ALL: tuple[Format, ...] = (DeltaFormat(), IcebergFormat())

FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
"""Each format, by its name."""
