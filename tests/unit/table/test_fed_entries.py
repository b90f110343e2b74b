"""The entries that events brought after a version, wherever they are kept."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.indexes.index_kind import FILE, START, FileList
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.table.committer import Change, commit_or_raise, forward_feeds
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    fed_entries,
    write_feed,
)
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import rows
from tests.unit.table.test_indexes import found


@pytest.fixture
def versions(table: Table) -> list[int]:
    """An index that three appends have fed; their versions."""
    request_index(table.ports, "files", FileList())
    return [table.append(rows(range(start, start + 20))).n for start in (40, 60, 80)]


def files_after(table: Table, after: int) -> list[str]:
    return sorted(fed_entries(table.ports, found(table), after).column(FILE).to_pylist())


def published(table: Table, versions: Sequence[int]) -> list[str]:
    """Return the files that some events have published."""
    events = [table.ports.log.event(n) for n in versions]
    return sorted(s.path for e in events for s in e.action.segments)  # type: ignore[union-attr]


def bury(table: Table, entries: pa.Table) -> None:
    """Commit tombstones of entries."""
    state = table.state()
    index = found(table).definition
    feed = write_feed(table.ports, index, entries.slice(0, 0), entries.select([FILE, START]))
    action = IndexBuilt(index=index.id, interval=ALL_TIME, through=0)
    change = Change(action=action, commit_id="buried", feeds=(feed,))
    commit_or_raise(table.ports, state, change)


def test_the_entries_since_a_version(table: Table, versions: list[int]) -> None:
    """Of all later events, and of no earlier one, before the feeds are copied and after."""
    for _ in range(2):
        for at, n in enumerate(versions):
            assert files_after(table, n) == published(table, versions[at + 1 :])
        forward_feeds(table.ports, table.state())


def test_a_tombstone_hides_entries_of_earlier_events(table: Table, versions: list[int]) -> None:
    """Also of events that are asked for; of entries before them nothing is said."""
    every = entries_in(table.ports, found(table))
    bury(table, every.slice(0, 2))
    left = sorted(every.slice(2).column(FILE).to_pylist())
    assert files_after(table, versions[0] - 1) == left
    assert not files_after(table, versions[-1])
    forward_feeds(table.ports, table.state())
    assert files_after(table, versions[0] - 1) == left
