"""The registry of formats."""

from collections.abc import Mapping

from airflow_provider_segtable.formats.delta.delta_format import DeltaFormat
from airflow_provider_segtable.formats.format import Format

_ALL: tuple[Format, ...] = (DeltaFormat(),)

FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
"""Each format, by its name."""
