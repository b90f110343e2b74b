"""Coordinators in memory."""

from uuid import uuid4

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService


@pytest.fixture
def service() -> MemoryService:
    """A new service for the sessions of one test."""
    return MemoryService()


@pytest.fixture
def memory_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a new service in memory to tables that are opened without an address."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
