"""What a target of Delta Lake writes, finds and keeps."""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    OutcomeUnknown,
    SegtableError,
    StorageFull,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.formats.delta.delta_target import DeltaTarget
from airflow_provider_segtable.formats.delta.log_files import checkpoint_path
from airflow_provider_segtable.storage import MemoryStorage
from airflow_provider_segtable.storage.local import SystemClock
from tests.contract.test_targets import new_file, revision
from tests.support.builders import BASE, first
from tests.unit.formats.delta.making import TABLE, Lake

LOG = "_delta_log"


def actions(lake: Lake, number: int) -> dict[str, list[Any]]:
    """Return the actions of a version, by kind."""
    found: dict[str, list[Any]] = {}
    for line in (lake.root / LOG / f"{number:020d}.json").read_text().splitlines():
        for kind, body in json.loads(line).items():
            found.setdefault(kind, []).append(body)
    return found


def write(lake: Lake, number: int, *lines: Any) -> None:
    """Write a version as another writer would that does not know of the fence."""
    path = lake.root / LOG / f"{number:020d}.json"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))


def test_protocol_and_metadata_are_written_when_they_change(lake: Lake) -> None:
    """Readers need no feature before the first vector; then both are there once more."""
    lake.put(lake.file(1))
    lake.put(lake.file(2))
    lake.put(lake.file(1, hidden=[3]))
    lake.put(lake.file(1, hidden=[3, 4]))
    assert [*actions(lake, 0)] == ["commitInfo", "protocol", "metaData", "txn", "add"]
    assert [*actions(lake, 1)] == ["commitInfo", "txn", "add"]
    assert [*actions(lake, 2)] == ["commitInfo", "protocol", "metaData", "txn", "remove", "add"]
    assert [*actions(lake, 3)] == ["commitInfo", "txn", "remove", "add"]
    assert actions(lake, 0)["protocol"][0]["minReaderVersion"] == 1
    assert actions(lake, 2)["protocol"][0]["readerFeatures"] == ["deletionVectors"]
    before, after = (actions(lake, n)["metaData"][0] for n in (0, 2))
    assert after["configuration"].pop("delta.enableDeletionVectors") == "true"
    assert before == after


def test_invariants_are_listed(lake: Lake) -> None:
    """Spark refuses to read a table with a column without nulls whose protocol lacks them."""
    lake.put(lake.file(1))
    (protocol,) = actions(lake, 0)["protocol"]
    assert "invariants" in protocol["writerFeatures"]
    assert "readerFeatures" not in protocol


def test_a_file_that_stays_is_not_removed(lake: Lake) -> None:
    """Adding it again is enough: no version may remove and add one file with one vector."""
    lake.put(lake.file(1), lake.file(2, hidden=[0]))
    lake.put(lake.file(1), lake.file(2, hidden=[0]))
    assert [each["path"] for each in actions(lake, 1)["remove"]] == [first(2).path]
    assert len(actions(lake, 1)["add"]) == 2


def test_times_without_a_zone_need_their_feature(lake: Lake) -> None:
    """From the first version on, so that no reader takes them for times in UTC."""
    naive = Column(name="local", type="struct<at: timestamp[us]>")
    lake.put(table=replace(TABLE, schema=Schema((*TABLE.schema.columns, naive))))
    (protocol,) = actions(lake, 0)["protocol"]
    assert protocol["minReaderVersion"] == 3
    assert protocol["readerFeatures"] == ["timestampNtz"]
    assert "timestampNtz" in protocol["writerFeatures"]


def test_a_checkpoint_brings_no_metadata_anew(lake: Lake) -> None:
    """What is loaded from a checkpoint equals what was put, to the last property."""
    for n in range(12):
        lake.put(lake.file(n, hidden=[n % 3]))
    (lake.root / LOG / f"{10:020d}.json").unlink()
    (lake.root / LOG / f"{11:020d}.json").unlink()
    lake.known = lake.target.load()
    assert lake.known is not None
    lake.put(lake.file(1, hidden=[7]))
    assert [*actions(lake, 10)] == ["commitInfo", "txn", "remove", "add"]


def test_stamps_rise_with_events_whatever_their_times(lake: Lake) -> None:
    """In-commit timestamps are the times of events, or one more than the last one."""
    for at in (BASE, BASE + 5_000_000, BASE, BASE + 9_000_000):
        lake.put(lake.file(1), time=at)
    stamps = [actions(lake, n)["commitInfo"][0]["inCommitTimestamp"] for n in range(4)]
    at = BASE // 1000
    assert stamps == [at, at + 5000, at + 5001, at + 9000]


def test_a_first_version_of_many_files_has_a_checkpoint(tmp_path: Path) -> None:
    """Loading a large table is quick from the start."""
    lake = Lake(tmp_path)
    one = lake.file(1)
    shown = (replace(one.shown.segment, path=f"data/a/{n:05d}.parquet") for n in range(1000))
    files = (replace(one, shown=replace(one.shown, segment=each)) for each in shown)
    made = lake.put(*files)
    assert made.own.checkpoint == 0
    assert (lake.root / LOG / f"{0:020d}.checkpoint.parquet").exists()
    assert len(DeltaTable(tmp_path).file_uris()) == 1000


def test_a_version_on_top_by_another_writer_is_corrected(lake: Lake) -> None:
    """Its files have no known key, the version no known commit; the next put shows what is so."""
    lake.put(lake.file(1), lake.file(2, hidden=[0]))
    vector = actions(lake, 0)["add"][1]["deletionVector"]
    path = first(2).path
    foreign = {"path": "data/x%20y.parquet", "size": 1, "partitionValues": {}, "dataChange": True}
    write(
        lake,
        1,
        {"commitInfo": {"operation": "MERGE"}},
        {"remove": {"path": path, "dataChange": True, "deletionVector": vector}},
        {"add": {**foreign, "modificationTime": 1, "stats": "{}"}},
    )
    found = lake.target.load(lake.known)
    assert found is not None
    assert (found.number, found.event, found.commit) == (1, 0, "")
    assert {each: file.key == "" for each, file in found.files.items()} == {
        first(1).path: True,
        "data/x y.parquet": False,
    }
    lake.known = found
    change = lake.revision(lake.file(2, hidden=[0]))
    made = lake.target.put(found, replace(change, gone=frozenset({"data/x y.parquet"})))
    assert made is not None
    assert made.commit == "c1"
    assert found.own.stamp == BASE // 1000
    anew = lake.target.load()
    assert anew is not None
    assert anew.commit == "c1"
    assert {Path(each).name for each in DeltaTable(lake.root).file_uris()} == {
        Path(first(n).path).name for n in (1, 2)
    }


def test_a_lost_hint_or_one_that_misleads_costs_time_only(lake: Lake) -> None:
    """The log is listed from its beginning, and read from the newest checkpoint."""
    for n in range(12):
        lake.put(lake.file(n % 3))
    hint = lake.root / LOG / "_last_checkpoint"
    assert json.loads(hint.read_text())["version"] == 9
    for text in ('{"version": 11}', '{"version": 7}', "{", '{"version": "x"}', "[]"):
        hint.write_text(text)
        assert lake.target.load() == lake.target.load(lake.known)
    hint.unlink()
    assert lake.target.load() == lake.target.load(lake.known)


def test_a_missing_version_is_an_error_unless_a_checkpoint_covers_it(lake: Lake) -> None:
    """Later versions alone would show an older state without a word."""
    for n in range(4):
        lake.put(lake.file(n % 3))
    middle = lake.target.load(lake.known)
    for n in range(4, 12):
        lake.put(lake.file(n % 3))
    (lake.root / LOG / f"{5:020d}.json").unlink()
    assert lake.target.load(middle) == lake.target.load()
    (lake.root / LOG / f"{10:020d}.json").unlink()
    with pytest.raises(CorruptTable, match=r"10\.json is missing.* --format delta --full"):
        lake.target.load()


def test_the_checkpoint_of_another_publisher_counts(lake: Lake) -> None:
    """A publisher that has read it on the way writes the next one only when that is due."""
    early = lake.put(lake.file(1))
    for n in range(1, 11):
        lake.put(lake.file(n % 3))
    found = lake.target.load(early)
    assert found is not None
    assert found.own.checkpoint == 9


def test_a_checkpoint_that_cannot_be_written_is_none_of_the_put() -> None:
    """The version is there, and the next one is followed by a checkpoint."""
    storage = Full(clock=SystemClock())
    target, known = DeltaTarget(storage), None
    for n in range(12):
        storage.full = n < 11
        known = target.put(known, revision(n, new_file(n % 3)))
        assert known is not None
    assert known.own.checkpoint == 11


def test_damage_to_a_checkpoint_is_no_other_state() -> None:
    """Wherever a byte of its pages differs, it is an error, or what was there."""
    storage = MemoryStorage(clock=SystemClock())
    target, known = DeltaTarget(storage), None
    for n in range(10):
        known = target.put(known, revision(n, new_file(n % 4, hidden=n % 2, deletes=n)))
    path = checkpoint_path(9)
    data = storage.read(path)
    expected = target.load()
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(0, pages, 37):
        storage.replace(path, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with suppress(CorruptTable):
            assert target.load() == expected


class Full(MemoryStorage):
    """A storage that has no space for checkpoints."""

    full = True

    def create(self, path: str, data: bytes, **ready: Any) -> None:
        """Create an object."""
        if self.full and path.endswith(".parquet"):
            raise StorageFull(f"{path}: no space")
        super().create(path, data, **ready)


def test_a_log_that_was_made_anew_is_no_later_version(lake: Lake) -> None:
    """A version with a known number and another content is read with its own files."""
    old = lake.put(lake.file(1, hidden=[1]))
    listed = lake.target.load(old)
    assert listed is not None
    for path in lake.root.glob(f"{LOG}/*"):
        path.unlink()
    lake.known = None
    lake.put(lake.file(1, hidden=[1]))
    new = lake.target.load()
    assert new is not None
    assert new.files != old.files
    assert lake.target.load(old) == lake.target.load(listed) == new


class Lossy(MemoryStorage):
    """A storage that creates versions, or only says so, and loses the reply."""

    landed = True

    def create(self, path: str, data: bytes, **ready: Any) -> None:
        """Create an object."""
        if not path.endswith(".json"):
            return super().create(path, data, **ready)
        if self.landed:
            super().create(path, data, **ready)
        raise OutcomeUnknown(f"{path}: no reply")


@pytest.mark.parametrize("landed", [True, False])
def test_a_version_whose_reply_was_lost(lake: Lake, *, landed: bool) -> None:
    """It is recognised if it is there; else the outcome stays unknown."""
    storage = Lossy(clock=SystemClock())
    storage.landed = landed
    target = DeltaTarget(storage)
    change = lake.revision(lake.file(1, hidden=[1]))
    if landed:
        assert target.put(None, change) is not None
        assert target.put(None, change) is None
        return
    with pytest.raises(OutcomeUnknown):
        target.put(None, change)
    assert target.load() is None


def test_what_is_needed_follows_the_later_of_two_clocks(lake: Lake) -> None:
    """A storage whose clock is behind makes no version look replaced long ago."""
    lake.put(lake.file(1))
    lake.put(lake.file(2), gone=[1])
    lake.put(lake.file(3), gone=[2])
    for path in lake.root.glob(f"{LOG}/*.json"):
        os.utime(path, (1, 1))
    paths = [first(n).path for n in (1, 2, 3)]
    assert lake.target.needed(BASE - 1) == {*paths}
    assert lake.target.needed(BASE + 1_500_000) == {*paths[1:]}
    assert lake.target.needed(BASE + 2_500_000) == {*paths[2:]}


def test_what_an_attempt_may_need_outlives_the_retention(lake: Lake) -> None:
    """Nobody finds a swept number free, nor misses vectors that were written a moment ago."""
    lake.put(lake.file(1))
    early = lake.known
    for n in range(24):
        lake.put(lake.file(1, hidden=[n % 10]))
    assert lake.target.put(early, lake.revision(lake.file(1, hidden=[1, 2]))) is None
    now = SystemClock().now()
    assert lake.target.sweep(now) == ()
    assert lake.target.sweep(now + 2 * DAY_US)
    assert lake.target.sweep(now + 2 * DAY_US) == ()
    assert DeltaTable(lake.root).version() == 24


def test_a_sweep_leaves_the_version_of_the_time_and_all_that_it_needs(lake: Lake) -> None:
    """It goes up to the last checkpoint that is not after that version; vectors stay if named."""
    lake.put(lake.file(1, hidden=[0]))
    for n in range(1, 20):
        lake.put(lake.file(2 if n == 10 else 3, hidden=[n % 10]))
    for path in lake.root.rglob("*.*"):
        os.utime(path, (1, 1))
    (lake.root / LOG / "_last_checkpoint").write_text('{"version": 9, "size": 5}')
    replaced = BASE + 9_000_000 + DAY_US  # version 9 replaced version 8 then
    assert not [each for each in lake.target.sweep(replaced - 1) if each.startswith(LOG)]
    swept = lake.target.sweep(replaced)
    assert [each for each in swept if each.startswith(LOG)] == [
        f"{LOG}/{n:020d}.json" for n in range(9)
    ]
    assert pl.scan_delta(str(lake.root), version=10).collect().height == 27
    lake.target.sweep(2**62)
    assert pl.scan_delta(str(lake.root)).collect().height == 27
    hint = json.loads((lake.root / LOG / "_last_checkpoint").read_text())
    assert hint == {"version": 19, "size": 6}
    found = lake.target.load()
    assert found is not None
    assert found.commit == "c19"


def test_the_id_of_the_published_table_is_that_of_the_table(lake: Lake) -> None:
    """A target that was made anew is the same table to its readers; another table is not."""
    ids = set()
    for table in (TABLE, TABLE, replace(TABLE, table_id="9")):
        lake.put(lake.file(1), table=table)
        ids.add(DeltaTable(lake.root).metadata().id)
        for path in lake.root.glob(f"{LOG}/*"):
            path.unlink()
        lake.known = None
    assert len(ids) == 2


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_an_error_that_names_it(seed: int) -> None:
    """Whatever a file of the log has become, the error is one of segtable's."""
    draw = Random(seed)
    storage = MemoryStorage(clock=SystemClock())
    target, known = DeltaTarget(storage), None
    for n in range(11):
        known = target.put(known, revision(n, new_file(n % 4, hidden=n % 2, deletes=n)))
    path = draw.choice([e.path for e in storage.list(LOG) if not e.path.endswith("_checkpoint")])
    storage.replace(path, damaged(storage.read(path), draw))
    for act in (target.load, lambda: target.needed(0), lambda: target.sweep(2**62)):
        with suppress(SegtableError):
            act()
    with suppress(SegtableError):
        target.put(target.load(), revision(50, new_file(1, hidden=1)))


def damaged(data: bytes, draw: Random) -> bytes:
    """Return JSON with a value of another type, other data with another byte, or cut."""
    at = draw.randrange(len(data))
    if not data.startswith(b"{"):
        return data[:at] + draw.choice([b"", bytes([draw.randrange(256)]) + data[at + 1 :]])
    lines = [json.loads(each) for each in data.splitlines()]
    (body,) = draw.choice(lines).values()
    if isinstance(body, dict):
        body[draw.choice([*body])] = draw.choice([None, 7, "x", [], {}])
    return "\n".join(map(json.dumps, lines)).encode()
