"""Formats whose status a table shows: the enabled ones, and those with a folder of their own."""

import subprocess
import sys

import pytest

from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.formats.formats import Formats, in_use
from airflow_provider_segtable.storage.memory_storage import MemoryStorage

PROGRAM = """
import sys
from airflow_provider_segtable.formats.formats import FORMATS, in_use
from airflow_provider_segtable.storage.memory_storage import MemoryStorage

assert not [*in_use(FORMATS, MemoryStorage(), ())]
imported = [name for name in sys.modules if ".formats." in name]
assert not [name for name in imported if "delta" in name or "iceberg" in name], imported
"""


def test_a_format_without_target_is_not_imported() -> None:
    """Most tables are published in none."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], check=True)


def test_a_folder_or_a_property_shows_a_format() -> None:
    """A format that was switched off still has its target."""
    storage = MemoryStorage()
    assert [name for name, _ in in_use(Formats(), storage, ["iceberg"])] == ["iceberg"]
    storage.create("_delta_log/00000000000000000000.json", b"{}")
    assert [name for name, _ in in_use(Formats(), storage, ())] == ["delta"]


def test_a_storage_that_fails_hides_no_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target reports the error."""
    storage = MemoryStorage()

    def fail(*_: object, **__: object) -> None:
        raise StorageError("away")

    monkeypatch.setattr(storage, "list", fail)
    assert len([*in_use(Formats(), storage, ())]) == 2
