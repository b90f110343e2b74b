"""Tables that an older segtable published as Delta Lake stay readable, and go on."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from airflow_provider_segtable.core.publishing import shown_files
from airflow_provider_segtable.formats.delta.delta_target import DeltaTarget
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.table import Table
from tests.golden.make_delta import PLACE

NEWEST, CHECKPOINT = 10, 9


@pytest.mark.parametrize("cut", [False, True])
def test_the_published_version_is_loaded(tmp_path: Path, *, cut: bool) -> None:
    """It shows its event with the keys of today, from a checkpoint and from the first version."""
    shutil.copytree(PLACE, tmp_path, dirs_exist_ok=True)
    if cut:
        for n in range(CHECKPOINT):
            (tmp_path / f"_delta_log/{n:020d}.json").unlink()
    else:
        (tmp_path / f"_delta_log/{CHECKPOINT:020d}.checkpoint.parquet").unlink()
        (tmp_path / "_delta_log/_last_checkpoint").unlink()
    state = Table.open(str(PLACE)).state()
    found = DeltaTarget(LocalStorage(tmp_path)).load()
    assert isinstance(found, Published)
    assert (found.number, found.event, found.time) == (NEWEST, state.n, state.time)
    assert found.table_id == state.table.table_id
    assert {path: each.key for path, each in found.files.items()} == {
        path: each.key for path, each in shown_files(state).items()
    }


def test_readers_find_its_rows() -> None:
    """Polars finds in each version what its event had."""
    expected = {3: 8, CHECKPOINT: 7, NEWEST: 6}
    for number, rows in expected.items():
        assert pl.scan_delta(str(PLACE), version=number).collect().height == rows
    newest = Table.open(str(PLACE)).snapshot().to_arrow().column("carrier").to_pylist()
    assert pl.scan_delta(str(PLACE)).collect()["carrier"].sort().to_list() == sorted(newest)
