"""Metadata storage: adapters of ``ports.storage`` for memory, local files and object stores."""

from airflow_provider_segtable.storage.local import LocalStorage
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.storage.opening import check_uri, open_storage, probe

__all__ = ["LocalStorage", "MemoryStorage", "check_uri", "open_storage", "probe"]
