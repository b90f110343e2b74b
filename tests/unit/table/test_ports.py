"""A table's root means the same in every process that works on it."""

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC"))])


def test_a_local_root_is_made_absolute_when_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task, whose working directory is another, finds a table that was named relatively."""
    monkeypatch.chdir(tmp_path)
    made = Table.create("lake/trips", schema=SCHEMA, time_column="at")
    wanted = str(tmp_path / "lake" / "trips")
    assert made.ports.uri == wanted
    assert made.ports.at("lake/other").uri == str(tmp_path / "lake" / "other")
    opened = Table.open("lake/trips")
    monkeypatch.chdir("/")
    assert opened.ports.uri == wanted
    assert opened.state().table.name == "trips"


@pytest.mark.parametrize("uri", ["memory://lake/t", "file:///lake/t"])
def test_a_root_with_a_scheme_stays_as_it_is(uri: str) -> None:
    """Only paths depend on a working directory."""
    assert open_context(uri).uri == uri
