"""Settings: every property that a table may have, with its value and where the value comes from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.planning.properties.index_settings import PREFIX, IndexSettings
from airflow_provider_segtable.planning.properties.log_store_settings import PREFIX as LOG_STORE
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.planning.properties.policy import Policy
from airflow_provider_segtable.planning.properties.publish_settings import PREFIX as PUBLISH
from airflow_provider_segtable.planning.properties.publish_settings import PublishSettings
from airflow_provider_segtable.planning.properties.retention import Retention

DEFAULT, CREATION = "default", "creation"

FAMILIES: Mapping[str, Any] = MappingProxyType(
    {
        "compaction": Policy(),
        "retention": Retention(),
        PREFIX: IndexSettings(),
        LOG_STORE: LogStoreSettings(),
        PUBLISH: PublishSettings(),
    }
)
"""The properties' families, with their defaults; any other property ``index.NAME`` is an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One property; ``source`` is ``default``, ``creation`` or ``event n``."""

    key: str
    value: str
    source: str


def settings(table: TableCreated) -> tuple[Setting, ...]:
    """Return the properties of a table, those that were set first, and then all defaults."""
    given = (
        Setting(key=key, value=value, source=_source(table, key))
        for key, value in table.properties.items()
    )
    missing = (each for each in _defaults() if each.key not in table.properties)
    return (*given, *missing)


def _source(table: TableCreated, key: str) -> str:
    n = table.property_events.get(key)
    return CREATION if n is None else f"event {n}"


def _defaults() -> Iterable[Setting]:
    for family, default in FAMILIES.items():
        for field in fields(default):
            value = getattr(default, field.name)
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            yield Setting(key=f"{family}.{field.name}", value=shown, source=DEFAULT)
