"""What several simulations change of the code that they play."""

import pytest

from airflow_provider_segtable.storage import together
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.log import read_ahead


@pytest.fixture
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint every four events, so that short logs expire."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 4)


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each request be a round trip: commits put before they look, and look less often.

    Actors take turns, so no request is sent beside another one.
    """
    monkeypatch.setattr(MemoryStorage, "remote", True)
    monkeypatch.setattr(read_ahead, "MOST", 1)
    monkeypatch.setattr(together, "AT_ONCE", 1)
