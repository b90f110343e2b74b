"""An empty place for tables of Delta Lake."""

from pathlib import Path

import pytest

from tests.unit.formats.delta.making import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty root."""
    return Lake(tmp_path)
