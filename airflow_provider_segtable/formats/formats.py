"""The registry of formats."""

from collections.abc import Mapping

from airflow_provider_segtable.formats.format import Format

FORMATS: Mapping[str, Format] = {}
"""Each format, by its name."""
