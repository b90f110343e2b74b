"""Tags: versions that are kept by name."""

import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    InvalidName,
    NotATable,
)
from airflow_provider_segtable.core.log.log_paths import tag_path
from airflow_provider_segtable.table.kept_versions import known_tag, put_tag, remove_tag
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table


def test_the_newest_version_is_tagged_by_default(table: Table) -> None:
    """The name leads to the version as it was, which has a checkpoint of its own."""
    before = table.state()
    assert put_tag(table.ports, "now") == 4
    assert put_tag(table.ports, "start", 1) == 1
    assert table.state().tags == {"now": 4, "start": 1}
    read = table.ports.storage.read
    assert read_checkpoint(read(tag_path("now", 4))) == before
    assert read_checkpoint(read(tag_path("start", 1))) == EventLog(table.ports.storage).at(1)


@pytest.mark.parametrize("name", ["", "a/b", ".a", "x" * 101, "a b"])
def test_names_that_are_no_names_are_refused(table: Table, name: str) -> None:
    """They become names of files; nothing is written."""
    with pytest.raises(InvalidName, match="tag"):
        put_tag(table.ports, name)
    assert list(table.ports.storage.list("_segtable/tags")) == []


def test_versions_that_are_not_there_cannot_be_tagged(table: Table) -> None:
    """Neither those to come, nor, by the log, a name that has another version."""
    with pytest.raises(NotATable, match="no event 9"):
        put_tag(table.ports, "later", 9)
    put_tag(table.ports, "mine", 2)
    with pytest.raises(InvalidInput):
        put_tag(table.ports, "mine", 3)
    assert table.state().tags == {"mine": 2}


def test_a_removed_tag_is_unknown(table: Table) -> None:
    """Others stay; a name may be removed once, and be given again."""
    for name, version in (("a", 1), ("b", 2)):
        put_tag(table.ports, name, version)
    assert known_tag(table.state(), "b") == 2
    remove_tag(table.ports, "b")
    with pytest.raises(InvalidInput, match="there is no tag 'b': the table has a"):
        known_tag(table.state(), "b")
    with pytest.raises(InvalidInput):
        remove_tag(table.ports, "b")
    assert put_tag(table.ports, "b", 3) == 3
    remove_tag(table.ports, "a")
    remove_tag(table.ports, "b")
    with pytest.raises(InvalidInput, match="the table has no tags"):
        known_tag(table.state(), "a")


def test_known_tags_are_listed_in_order(table: Table) -> None:
    """Whatever the order in which they were made."""
    for name in ("b", "c", "a"):
        put_tag(table.ports, name)
    with pytest.raises(InvalidInput, match="the table has a, b, c"):
        known_tag(table.state(), "d")
