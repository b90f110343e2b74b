"""A process that goes on writing keeps the entries about records in memory, and they are true."""

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from airflow_provider_segtable.data.indexes.known_entries import KnownEntries
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.committer import forward_feeds
from airflow_provider_segtable.table.entry_cache import ViewCache
from airflow_provider_segtable.table.indexes import index_entries, key_entries
from airflow_provider_segtable.table.indexes.index_entries import index_ports
from airflow_provider_segtable.table.indexes.key_entries import (
    entries_of_keys,
    known_of_keys,
    memory_key,
)
from tests.unit.table.keyed_indexed import KEYS, new_table, read, unique, upsert, writer
from tests.watched_files import WatchedFiles

pytestmark = pytest.mark.usefixtures("memory_zookeeper")

EVERY = pa.table({"key_1": pa.array(range(40), pa.int64())})


def known(table: Table) -> object:
    """Return what a process keeps in memory."""
    return table.ports.known.kept(memory_key(table.ports, table.index(KEYS)))


def check(table: Table) -> None:
    """Compare the entries in memory with those in files and feeds."""
    state = table.ports.log.load()
    index = state.indexes[KEYS]
    found = known_of_keys(table.ports, state, index, EVERY)
    names = [*index.definition.kind.key, "start"]
    held, stored = (
        sorted(map(str, some.select(names).to_pylist()))
        for some in (found, entries_of_keys(table.ports, index, EVERY))
    )
    assert held == stored


def drawn(draw: Random) -> list[dict[str, int]]:
    """Return records of keys in a few days, some of which delete."""
    return [
        {
            "key": draw.randrange(12),
            "day": draw.randrange(4),
            "seq": draw.randrange(30),
            "gone": draw.random() < 0.2,
        }
        for _ in range(draw.randrange(1, 6))
    ]


@pytest.mark.parametrize("most_inline", [index_entries.MOST_INLINE_RECORDS, 0])
def test_entries_in_memory_are_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_inline: int
) -> None:
    """Beside another writer, copies of feeds and rebuilt indexes; each key has one row."""
    monkeypatch.setattr(index_entries, "MOST_INLINE_RECORDS", most_inline)
    table = new_table(tmp_path)
    other, draw = writer(table, 7), Random(3)
    for turn in range(16):
        upsert(other if draw.random() < 0.4 else table, *drawn(draw))
        if turn % 7 == 4:
            forward_feeds(other.ports, other.ports.log.load())
        if turn == 9:
            table.rebuild_index(KEYS)
            table.run_index(KEYS)
        if turn % 3 == 2:
            check(table)
    assert unique(read(table))
    assert isinstance(known(table), KnownEntries)


def test_a_warm_upsert_reads_no_file_of_the_index(tmp_path: Path) -> None:
    """New keys, known ones, and keys that move: also after feeds were joined and copied."""
    table = new_table(tmp_path)
    upsert(table, *({"key": key, "day": key % 3} for key in range(30)))
    forward_feeds(table.ports, table.ports.log.load())
    for turn in range(4):
        upsert(table, {"key": turn, "day": turn % 3, "seq": 1})
    assert isinstance(known(table), KnownEntries)
    watched = WatchedFiles(table.ports.files)
    object.__setattr__(table.ports, "files", watched)
    inner = index_ports(table.ports, table.index(KEYS).definition)
    own = WatchedFiles(inner.files)
    object.__setattr__(inner, "files", own)
    upsert(table, {"key": 3, "seq": 2}, {"key": 29, "day": 5, "seq": 2}, {"key": 77})
    assert not own.opened
    assert not watched.opened
    assert (29, 5, 2) in read(table)
    assert unique(read(table))


def test_a_process_that_writes_once_loads_nothing(tmp_path: Path) -> None:
    """It reads the buckets of its keys."""
    table = new_table(tmp_path)
    for turn in range(key_entries.LOADED_AFTER):
        upsert(table, {"key": turn})
        assert not isinstance(known(table), KnownEntries)
    upsert(table, {"key": 9})
    assert isinstance(known(table), KnownEntries)


def test_an_index_without_room_is_read(tmp_path: Path) -> None:
    """As long as the process lasts."""
    table = new_table(tmp_path)
    object.__setattr__(table.ports, "known", ViewCache(100))
    for turn in range(8):
        upsert(table, {"key": turn % 3, "day": turn % 2, "seq": turn})
        check(table)
    assert not isinstance(known(table), KnownEntries)
    assert table.ports.known.held == 0
    assert unique(read(table))


def test_after_many_events_entries_are_loaded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than read the feeds of all of them."""
    monkeypatch.setattr(key_entries, "MOST_EVENTS", 3)
    table = new_table(tmp_path)
    other = writer(table, 7)
    for turn in range(5):
        upsert(table, {"key": turn})
    for turn in range(9):
        upsert(other, {"key": turn, "day": 1, "seq": turn})
        check(table) if turn % 4 == 3 else None
    upsert(table, {"key": 2, "day": 2, "seq": 50})
    assert (2, 2, 50) in read(table)
    assert unique(read(table))


def test_an_older_version_is_not_looked_up_in_newer_entries(tmp_path: Path) -> None:
    """Another thread may route a version that was the newest one when it began."""
    table = new_table(tmp_path)
    for turn in range(5):
        upsert(table, {"key": turn})
    old = table.ports.log.load()
    upsert(table, {"key": 9})
    held = known(table)
    assert isinstance(held, KnownEntries)
    check(table)
    newer = known(table)
    assert isinstance(newer, KnownEntries)
    assert newer.n > old.n
    known_of_keys(table.ports, old, old.indexes[KEYS], EVERY)
    assert known(table) is newer


def test_entries_of_another_log_are_not_looked_up(tmp_path: Path) -> None:
    """A copy of the table was put back, and other events have the numbers of those known."""
    place, copy = tmp_path / "table", tmp_path / "copy"
    table = new_table(place)
    for turn in range(4):
        upsert(table, {"key": turn, "day": turn}, {"key": 9, "seq": turn})
    shutil.copytree(place, copy)
    upsert(table, {"key": 1, "day": 4, "seq": 10})
    upsert(table, {"key": 2, "day": 4, "seq": 10})
    shutil.rmtree(place)
    shutil.copytree(copy, place)
    other = writer(Table.open(str(place)), 7)
    for key in (1, 2, 3):
        upsert(other, {"key": key, "day": 5, "seq": 11})
    upsert(table, *({"key": key, "day": 6, "seq": 12} for key in (1, 2, 3)))
    check(table)
    assert read(table) == [(0, 0, 0), (1, 6, 12), (2, 6, 12), (3, 6, 12), (9, 0, 3)]


def test_entries_are_loaded_anew_if_events_have_expired(tmp_path: Path) -> None:
    """A process that looked nothing up meanwhile cannot add the feeds of these events."""
    table = new_table(tmp_path)
    other = writer(table, 7)
    for turn in range(4):
        upsert(table, {"key": turn, "day": turn}, {"key": 9, "seq": turn})
    for key in (1, 2, 3):
        upsert(other, {"key": key, "day": 5, "seq": 11})
        table.state()
    forward_feeds(other.ports, other.ports.log.load())
    other.tag("newest")
    other.ports.log.checkpoint(other.state())
    table.state()
    clean(other.ports, retention=Retention(hours=0, versions=1))
    assert table.ports.log.first() > 8
    assert table.state().n
    assert table.ports.log.openings == 1
    upsert(table, *({"key": key, "day": 6, "seq": 12} for key in (1, 2, 3)))
    check(table)
    assert read(table) == [(0, 0, 0), (1, 6, 12), (2, 6, 12), (3, 6, 12), (9, 0, 3)]
