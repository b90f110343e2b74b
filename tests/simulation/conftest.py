"""What several simulations change of the code that they play."""

import pytest

from airflow_provider_segtable.table import committer


@pytest.fixture
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint every four events, so that short logs expire."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 4)
