"""The API reference: what users may import is described, and has a place on a page."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from docs.reference import public_api, write_reference

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def api() -> Mapping[str, list[str]]:
    """Return the public names by module."""
    return public_api()


def test_what_users_import_is_public(api: Mapping[str, list[str]]) -> None:
    """The reference has the library, and what the provider brings into a DAG."""
    names = {name for names in api.values() for name in names}
    assert names >= {"Table", "Scan", "Snapshot", "compaction_dags", "SegtableError"}
    assert names >= {"SegtableIngestOperator", "SegtableMergeOperator", "SegtablePlanOperator"}
    assert names >= {"SegtableSmallSegmentsSensor", "SmallSegmentsTrigger", "SegtableHook"}


def test_every_public_name_is_described(api: Mapping[str, list[str]]) -> None:
    """No public class or function lacks a docstring of its own."""
    values = {
        f"{module}.{name}": getattr(import_module(module), name)
        for module, names in api.items()
        for name in names
    }
    assert not [
        name for name, value in values.items() if not vars(value).get("__doc__", value.__doc__)
    ]


def test_every_public_name_has_a_place(api: Mapping[str, list[str]], tmp_path: Path) -> None:
    """The pages have an entry for every public name, and none for others."""
    pages = write_reference(tmp_path, api)
    for module, names in api.items():
        text = pages[module].read_text()
        assert not [name for name in names if f'id="{name}"' not in text]
    assert 'id="readable"' not in pages["airflow_provider_segtable.operators.ingest"].read_text()
    first = (tmp_path / "index.md").read_text()
    assert not [name for names in api.values() for name in names if f"#{name})" not in first]
