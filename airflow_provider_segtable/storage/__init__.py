"""Metadata storage: adapters of ``ports.storage`` for memory, local files and object stores."""

from airflow_provider_segtable.storage.local import LocalStorage
from airflow_provider_segtable.storage.memory import MemoryStorage
from airflow_provider_segtable.storage.opening import open_storage
from airflow_provider_segtable.storage.probe import probe

__all__ = ["LocalStorage", "MemoryStorage", "open_storage", "probe"]
