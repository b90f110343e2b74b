"""Settling: which rows of a primary-key table are shown is recorded, and reads merge little."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.settle_events import GroupsSettled
from airflow_provider_segtable.core.settlement import identity_of, usable
from airflow_provider_segtable.data.keyed.row_fates import RowFates
from airflow_provider_segtable.data.keyed.settled_file import write_settled
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source
from airflow_provider_segtable.services.settling import settle
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.watched_files import WatchedFiles

FIRST_US = 1_767_225_600_000_000
SCHEMA = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("n", pa.int64()),
        ("text", pa.string()),
    ]
)


def rows(start: int, end: int, n: int) -> pa.Table:
    """Return records of some keys, with one number."""
    made = ({"key": k, "at": FIRST_US + k, "n": n, "text": f"{k}-{n}"} for k in range(start, end))
    return pa.Table.from_pylist([*made], schema=SCHEMA)


def keyed(place: Path, *, merge: str = "latest", tail: bool = True) -> Table:
    """Return a table with a base file, and log files beside it; one of them deletes keys."""
    table = Table.create(
        str(place),
        schema=SCHEMA,
        time_column="at",
        granularity="all",
        primary_key="key",
        buckets=1,
        merge=merge,
        zookeeper="memory://settling",
    )
    table.upsert(rows(0, 100, 1))
    table.upsert(rows(0, 50, 2))
    table.compact("semi-major")
    if tail:
        table.upsert(rows(40, 45, 3))
        table.delete("key < 5")
    return table


def newest(key: int) -> int:
    """Return the number that a key has in the end."""
    if 40 <= key < 45:
        return 3
    return 2 if key < 50 else 1


EXPECTED = sorted(f"{key}-{newest(key)}" for key in range(5, 100))


def shown(table: Table) -> list[str]:
    """Return the texts of all rows, in order."""
    return sorted(table.scan(columns=["text"]).to_arrow().column("text").to_pylist())


def vectors(table: Table) -> list[str]:
    """Return the files of vectors."""
    return sorted(entry.path for entry in table.ports.storage.list("deletes"))


def anew(table: Table) -> Table:
    """Return the table as another process opens it: nothing is in memory."""
    return Table.open(table.ports.uri, zookeeper="memory://settling")


def watched(table: Table) -> tuple[Table, WatchedFiles]:
    """Return the table as another process opens it, and the files that it opens."""
    other = anew(table)
    files = WatchedFiles(other.ports.files)
    return Table(replace(other.ports, files=files)), files


def test_a_settled_read_opens_only_the_columns_asked_for(tmp_path: Path) -> None:
    """Keys and hidden columns are not read, and a count opens no data file at all."""
    table = keyed(tmp_path)
    run = table.settle()
    assert (run.groups, run.rows, run.hidden, run.open) == (1, 110, 15, 0)
    assert shown(anew(table)) == EXPECTED
    plan = anew(table).scan(columns=["text"]).explain()
    assert {file.columns for file in plan.files} == {("text",)}
    other, files = watched(table)
    assert other.scan().count() == len(EXPECTED)
    assert not [path for path in files.opened if path.startswith("data/")]


def test_conditions_on_any_column_skip_row_groups_of_settled_files(tmp_path: Path) -> None:
    """A record that is shown is final, so a file in which none matches is not read."""
    table = keyed(tmp_path)
    table.settle()
    plan = anew(table).scan(where="n = 3").explain()
    assert [group.read for file in plan.files for group in file.groups].count(True) == 1
    assert anew(table).scan(where="n = 3").count() == 5
    assert anew(table).scan(where="n = 1").count() == 50


def test_a_base_without_tombstones_needs_no_settlement(tmp_path: Path) -> None:
    """Statistics in its footer tell that each of its rows is shown: a count reads no row."""
    table = keyed(tmp_path, tail=False)
    (segment,) = table.snapshot().segments()
    assert segment.footer is not None
    other, files = watched(table)
    assert other.scan().count() == 100
    assert files.body_bytes(segment.path, segment.footer.start) == 0
    assert table.settle().groups == 0
    assert vectors(table) == []


def test_a_tail_is_looked_at_once(tmp_path: Path) -> None:
    """After more upserts the first read finds out which rows lost; later ones read none of them."""
    table = keyed(tmp_path)
    table.settle()
    table.upsert(rows(90, 110, 5))
    other, files = watched(table)
    old = [text for text in EXPECTED if int(text.split("-")[0]) < 90]
    want = sorted([*old, *(f"{key}-5" for key in range(90, 110))])
    assert shown(other) == want
    files.opened.clear()
    assert other.scan().count() == len(want)
    assert not files.opened
    plan = other.scan(columns=["text"]).explain()
    assert {file.columns for file in plan.files} == {("text",)}


def test_settling_goes_on_where_it_was(tmp_path: Path) -> None:
    """A second run has nothing to do; after an upsert it covers the new file, too."""
    table = keyed(tmp_path)
    first = table.settle()
    assert (table.settle().groups, table.settle().settled_before) == (0, 1)
    table.upsert(rows(3, 6, 7))
    assert table.settle(dry_run=True).groups == 1
    again = table.settle()
    assert (again.groups, again.hidden) == (1, first.hidden + 1)  # two of the keys were deleted
    state = table.state()
    (known,) = state.settled.values()
    assert len(known.group.files) == len(table.snapshot().segments())
    assert [each.last for each in state.replaced_vectors] == [again.version]
    assert read_checkpoint(write_checkpoint(state)) == state
    assert table.verify(deep=True).findings == ()


def test_partial_updates_merge_only_open_rows(tmp_path: Path) -> None:
    """The rows of keys with several records stay open; all others are read as they are."""
    table = keyed(tmp_path, merge="partial_update")
    before = shown(table)
    run = table.settle()
    assert run.open > 0
    assert shown(anew(table)) == before == EXPECTED
    assert table.verify(deep=True).findings == ()


def test_only_keyed_tables_are_settled(tmp_path: Path) -> None:
    """Rows of other tables do not compete."""
    table = Table.create(
        str(tmp_path), schema=SCHEMA, time_column="at", zookeeper="memory://settling"
    )
    with pytest.raises(InvalidInput, match="primary key"):
        table.settle()


# Beside others
@dataclass(slots=True)
class InterruptedFiles:
    """``DataFiles``; something happens before a vector file is written."""

    inner: DataFiles
    happens: Callable[[], object]

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file."""
        with self.inner.open(path) as source:
            yield source

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a file."""
        if path.startswith("deletes/"):
            self.happens()
        with self.inner.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.inner.delete(path)


def test_a_compaction_meanwhile_wins(tmp_path: Path) -> None:
    """Its vectors would be of files that readers do not see: they are deleted again."""
    table = keyed(tmp_path)
    files = InterruptedFiles(table.ports.files, lambda: table.compact("semi-major"))
    run = settle(replace(table.ports, files=files))
    assert (run.groups, run.lost) == (0, 1)
    assert vectors(table) == []
    assert table.state().settled == {}
    assert shown(anew(table)) == EXPECTED


def test_an_upsert_meanwhile_is_the_tail(tmp_path: Path) -> None:
    """A file that came later leaves the settlement as useful as it was."""
    table = keyed(tmp_path)
    files = InterruptedFiles(table.ports.files, lambda: table.upsert(rows(99, 101, 6)))
    assert settle(replace(table.ports, files=files)).groups == 1
    assert shown(anew(table)) == sorted([*EXPECTED[:-1], "99-6", "100-6"])


def test_two_who_settle_at_once_record_it_once(tmp_path: Path) -> None:
    """The second one's vectors say the same."""
    table = keyed(tmp_path)
    files = InterruptedFiles(table.ports.files, table.settle)
    run = settle(replace(table.ports, files=files))
    assert (run.groups, run.lost) == (0, 1)
    assert len(vectors(table)) == 1


def test_what_a_killed_process_wrote_is_an_orphan(tmp_path: Path) -> None:
    """Vectors that no event names are deleted by age, and nobody reads them."""
    table = keyed(tmp_path)
    (chunk,) = table.state().timeline.visible_chunks()
    write_settled(table.ports.files, {chunk: {0: RowFates(3)}}, "dead")
    assert shown(anew(table)) == EXPECTED
    table.clean(orphan_hours=0)
    assert vectors(table) == []


# Vectors that are missing, damaged or wrong
def test_without_its_vectors_a_read_merges(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning names the file, the check does, too, and settling again repairs it."""
    table = keyed(tmp_path)
    table.settle()
    (path,) = vectors(table)
    table.ports.files.delete(path)
    with caplog.at_level(logging.WARNING):
        other = anew(table)
        assert shown(other) == shown(other) == EXPECTED
    assert sum(path in record.message for record in caplog.records) == 1
    assert [each.code for each in table.verify().findings] == ["missing-settled-rows"]
    assert table.settle().groups == 1
    assert table.verify(deep=True).findings == ()


def test_damaged_vectors_are_not_used(tmp_path: Path) -> None:
    """Their checksum is in the event."""
    table = keyed(tmp_path)
    table.settle()
    (path,) = vectors(table)
    data = (tmp_path / path).read_bytes()
    (tmp_path / path).write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    assert shown(anew(table)) == EXPECTED
    assert [each.code for each in table.verify().findings] == ["bad-settled-rows"]


def test_a_deep_check_finds_wrong_fates(tmp_path: Path) -> None:
    """It merges the files anew and compares each row."""
    table = keyed(tmp_path)
    state = table.state()
    honest = table.settle()
    (known,) = table.state().settled.values()
    files = table.snapshot().segments()
    assert identity_of(files) == known.group.identity
    assert usable(known.group, files)
    ports = table.ports
    fates = {segment.id.partition: RowFates(segment.rows) for segment in files}
    forged = write_settled(ports.files, {known.group.chunk: fates}, "forged")
    action = GroupsSettled(
        path=forged.path,
        size=forged.size,
        checksum=forged.checksum,
        groups=(replace(known.group, hidden=0, open=0),),
        damaged=(known.path,),
    )
    commit_or_raise(ports, state, Change(action=action, commit_id="forged"))
    assert honest.hidden
    assert table.verify().findings == ()
    assert {each.code for each in table.verify(deep=True).findings} == {"wrong-settled-rows"}


# Cleaning
def test_replaced_vectors_stay_for_the_versions_that_use_them(tmp_path: Path) -> None:
    """They go when no kept version is left, tagged ones included."""
    table = keyed(tmp_path)
    first = table.settle().version
    (old,) = vectors(table)
    table.tag("then", version=first)
    table.upsert(rows(0, 3, 8))
    table.settle()
    (new,) = {*vectors(table)} - {old}
    table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
    assert vectors(table) == sorted([old, new])
    _, files = watched(table)
    then = Table(replace(anew(table).ports, files=files)).scan(version=first)
    assert then.count() == len(EXPECTED)
    assert old in files.opened
    table.untag("then")
    table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
    assert vectors(table) == [new]


def test_vectors_go_with_their_files(tmp_path: Path) -> None:
    """A compaction makes a settlement useless; cleaning its files gives its vectors up."""
    table = keyed(tmp_path)
    table.settle()
    table.compact("semi-major")
    assert len(table.state().settled) == 1
    assert shown(anew(table)) == EXPECTED
    table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
    assert table.state().settled == {}
    assert vectors(table) == []
    assert table.verify(deep=True).findings == ()
