"""What applications leave for those who wait elsewhere: found once, and never for ever."""

import pytest

from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.remote_results import FOLDER, KEPT_US, fetch, forget, leave


def test_what_is_left_is_found_until_it_is_forgotten() -> None:
    """Under its name only."""
    storage = MemoryStorage()
    leave(storage, "change-1", {"code": 0, "event": None}, now=0)
    assert fetch(storage, "change-1") == {"code": 0, "event": None}
    assert fetch(storage, "change-2") is None
    forget(storage, "change-1")
    forget(storage, "change-1")
    assert fetch(storage, "change-1") is None


def test_what_nobody_fetched_for_a_week_is_deleted_by_the_next() -> None:
    """A younger one stays."""
    storage = MemoryStorage()
    leave(storage, "change-1", {}, now=0)
    (entry,) = storage.list(FOLDER)
    leave(storage, "change-2", {}, now=entry.modified + KEPT_US)
    assert fetch(storage, "change-1") == {}
    leave(storage, "change-3", {}, now=entry.modified + KEPT_US + 1)
    assert fetch(storage, "change-1") is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "0", ".hidden"])
def test_a_name_leads_nowhere_else(name: str) -> None:
    """What is no plain name is refused."""
    with pytest.raises(InvalidName, match="not a name of a result"):
        leave(MemoryStorage(), name, {}, now=0)
