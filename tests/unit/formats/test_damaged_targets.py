"""Whatever becomes of a target, it can be published over, removed, and cleaned beside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from airflow_provider_segtable.core import publishing
from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable, TableGone
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.formats.delta.delta_target import FEWEST
from airflow_provider_segtable.formats.delta.log_files import checkpoint_path, commit_path
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.formats.iceberg.names import METADATA, version_path
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.publishing import revising
from airflow_provider_segtable.table.publishing.publisher import (
    AlreadyPublished,
    PublishedNow,
    PublishOutcome,
)
from airflow_provider_segtable.table.table import Table, create_table
from tests.examples import examples
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.repairing import ports_at
from tests.unit.table.conftest import SCHEMA, rows

DEFINITION = defined_by(SCHEMA)
HEADS = {"delta": "_delta_log/", "iceberg": METADATA}
"""Where versions are put, by format."""
NOW = Retention(hours=0, versions=1, orphan_hours=0)


class Died(BaseException):
    """The process ends here."""


@dataclass
class Beside:
    """A storage beside whose next creation of a version something else happens.

    What comes ``first`` happens before any other file of a version is created. With another
    ``suffix`` it is the creation of a checkpoint.
    """

    inner: Any
    about: str
    before: list[Callable[[], object]] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    first: list[Callable[[], object]] = field(default_factory=list)
    suffix: str = ".json"

    def __getattr__(self, name: str) -> Any:
        """Return what the inner one has."""
        return getattr(self.inner, name)

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Create an object, with the next acts around it if it is a version."""
        version = path.startswith(self.about) and path.endswith(self.suffix)
        if self.first:
            self.first.pop(0)()
        if version and self.before:
            self.before.pop(0)()
        self.inner.create(path, data, **given)
        if version and self.after:
            self.after.pop(0)()


def die() -> None:
    raise Died


def beside(table: Table, name: str, *acts: Callable[[], object], dies: bool = False) -> Table:
    """Return the table in a process beside whose puts these acts happen, and which may die then."""
    storage = Beside(table.ports.storage, HEADS[name], [*acts], [die] if dies else [])
    return Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]


def new_table(folder: Path, name: str, count: int = 2) -> Table:
    """Return a published table of some appends, and one that is not published yet."""
    table = create_table(ports_at(folder), DEFINITION)
    for turn in range(count):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        table.publish(formats=name)
    table.delete("row = 3")
    return table


def publish(table: Table, name: str, *, full: bool = False) -> PublishOutcome:
    (outcome,) = table.publish(formats=name, full=full)
    return outcome


def seen(table: Table, name: str) -> list[int]:
    """Return the rows that a reader of the format sees."""
    root = table.ports.uri
    if name == "delta":
        found = pa.table(DeltaTable(root).scan())
    else:
        found = StaticTable.from_metadata(table.published()[name].address).scan().to_arrow()
    return sorted(found.column("row").to_pylist())


def shown(table: Table) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("row").to_pylist())


def own_files(table: Table, name: str) -> list[str]:
    """Return the files in the folders of a format."""
    storage = table.ports.storage
    return [each.path for folder in FORMATS[name].folders for each in storage.list(folder)]


@pytest.fixture(params=["delta", "iceberg"])
def name(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


@pytest.mark.parametrize("switched", [False, True])
def test_a_version_beside_a_removal_leaves_a_whole_table_or_none(
    tmp_path: Path, name: str, *, switched: bool
) -> None:
    """Publish and unpublish at once end as one after the other would."""
    table = new_table(tmp_path, name)
    if switched:
        table.alter(set={f"publish.{name}": "on", "publish.on_commit": "off"})
    late = beside(table, name, lambda: Table(replace(table.ports)).unpublish(name))
    publish(late, name)
    if switched:
        assert own_files(table, name) == []
        assert table.published() == {}
    else:
        assert seen(table, name) == shown(table)
    clean(table.ports, retention=NOW)


@pytest.mark.parametrize("healer", ["publish", "full", "unpublish"])
def test_a_publisher_that_dies_beside_a_removal_is_in_nobodys_way(
    tmp_path: Path, name: str, healer: str
) -> None:
    """A version without the ones before it can be published over, removed, and cleaned beside."""
    table = new_table(tmp_path, name)
    gone = Table(replace(table.ports))
    with pytest.raises(Died):
        publish(beside(table, name, lambda: gone.unpublish(name), dies=True), name)
    assert own_files(table, name)
    clean(gone.ports, retention=NOW)
    if healer == "unpublish":
        gone.unpublish(name)
        assert not [path for path in own_files(table, name) if path.endswith(".json")]
    publish(gone, name, full=healer == "full")
    assert seen(gone, name) == shown(gone)
    gone.append(rows(range(50, 60)))
    publish(gone, name)
    assert seen(gone, name) == shown(gone)
    clean(gone.ports, retention=NOW)


@pytest.mark.parametrize("dies", [False, True])
def test_a_publisher_of_a_dropped_table_is_not_in_the_way_of_the_next(
    tmp_path: Path, name: str, *, dies: bool
) -> None:
    """What it puts into the new table's folder goes again, or is published over."""
    table = new_table(tmp_path, name)
    made: list[Table] = []

    def replaced() -> None:
        drop(replace(table.ports))
        made.append(create_table(replace(table.ports), replace(DEFINITION, table_id="u")))
        made[0].append(rows(range(70, 80)))

    with pytest.raises(Died if dies else TableGone):
        publish(beside(table, name, replaced, dies=dies), name)
    (new,) = made
    if not dies:
        assert own_files(new, name) == []
    clean(new.ports, retention=NOW)
    for turn in range(8, 11):
        assert isinstance(publish(new, name), PublishedNow)
        assert seen(new, name) == shown(new)
        new.append(rows(range(turn * 10, turn * 10 + 10)))
    clean(new.ports, retention=NOW)


def test_an_old_version_in_the_middle_of_a_new_tables_is_published_over(
    tmp_path: Path, name: str
) -> None:
    """The new table has as many versions as the old one when the late one lands."""
    table = new_table(tmp_path, name)
    made: list[Table] = []

    def replaced() -> None:
        drop(replace(table.ports))
        made.append(create_table(replace(table.ports), replace(DEFINITION, table_id="u")))
        for turn in range(7, 9):
            made[0].append(rows(range(turn * 10, turn * 10 + 10)))
            publish(made[0], name)

    with pytest.raises(Died):
        publish(beside(table, name, replaced, dies=True), name)
    publish(made[0], name)
    assert seen(made[0], name) == shown(made[0])


def test_a_delta_version_with_all_files_waits_for_its_checkpoint(tmp_path: Path) -> None:
    """It names the version before it, so readers see its rows and nobody finds damage."""
    table = new_table(tmp_path, "delta")
    with pytest.raises(Died):
        publish(beside(table, "delta", dies=True), "delta", full=True)
    gone = Table(replace(table.ports))
    assert not [path for path in own_files(gone, "delta") if path.endswith(".parquet")]
    assert seen(gone, "delta") == shown(gone)
    assert not verify(gone.ports, deep=True).findings
    clean(gone.ports, retention=NOW)
    gone.append(rows(range(50, 60)))
    assert publish(gone, "delta").mended == ""
    assert seen(gone, "delta") == shown(gone)


def test_a_delta_version_over_damage_needs_its_checkpoint(tmp_path: Path) -> None:
    """Without it, readers need what is damaged: so it is published over."""
    table = new_table(tmp_path, "delta")
    path = tmp_path / commit_path(0)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(Died):
        publish(beside(table, "delta", dies=True), "delta", full=True)
    gone = Table(replace(table.ports))
    outcome = publish(gone, "delta")
    assert isinstance(outcome, PublishedNow)
    assert checkpoint_path(outcome.number) in own_files(gone, "delta")
    assert seen(gone, "delta") == shown(gone)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_checkpoint_of_a_dropped_tables_version_does_not_stay(
    tmp_path: Path, *, full: bool, after: bool
) -> None:
    """Its table was dropped, and the next one published, while it was made."""
    table = create_table(ports_at(tmp_path), DEFINITION)
    for turn in range(FEWEST - 1):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        publish(table, "delta")
    table.append(rows(range(100, 110)))
    made: list[Table] = []

    def replaced() -> None:
        drop(replace(table.ports))
        made.append(create_table(replace(table.ports), replace(DEFINITION, table_id="u")))
        made[0].append(rows(range(170, 180)))
        publish(made[0], "delta")

    acts = {"after" if after else "before": [replaced]}
    storage = Beside(table.ports.storage, "_delta_log/", suffix=".checkpoint.parquet", **acts)
    late = Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]
    with pytest.raises(TableGone):
        publish(late, "delta", full=full)
    (new,) = made
    assert seen(new, "delta") == shown(new)
    assert not [path for path in own_files(new, "delta") if path.endswith(".parquet")]
    assert not verify(new.ports, deep=True).findings


def test_an_old_version_in_the_middle_of_what_was_put_anew_is_published_over(
    tmp_path: Path, name: str
) -> None:
    """What the late one relies on went with a removal, but versions of these numbers are there."""
    table = new_table(tmp_path, name)
    gone, target = Table(replace(table.ports)), FORMATS[name].target(table.ports.storage)
    files: set[str] = set()

    def put_anew() -> None:
        gone.unpublish(name)
        for turn in range(7, 9):
            publish(gone, name)
            gone.append(rows(range(turn * 10, turn * 10 + 10)))
        head = target.load()
        assert head
        files.update(head.files)

    with pytest.raises(Died):
        publish(beside(table, name, put_anew, dies=True), name)
    assert len(files) == 6
    assert files <= target.needed(since=2**60), "it is the newest again if the late one goes on"
    clean(gone.ports, retention=NOW)
    publish(gone, name)
    assert seen(gone, name) == shown(gone)


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_whole_version_after_another_one_than_its_publisher_read_does_not_stay(
    tmp_path: Path, name: str, *, dies: bool, full: bool
) -> None:
    """It names all its files itself, so readers could open it: they would see an earlier event."""
    table = create_table(ports_at(tmp_path), DEFINITION)
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        if turn < 2:
            publish(table, name)
    gone, target = Table(replace(table.ports)), FORMATS[name].target(table.ports.storage)
    files: set[str] = set()

    def put_anew() -> None:
        gone.unpublish(name)
        for turn in range(7, 9):
            gone.append(rows(range(turn * 10, turn * 10 + 10)))
            publish(gone, name)
        head = target.load()
        assert head
        files.update(head.files)

    storage = Beside(table.ports.storage, HEADS[name], [], [die] if dies else [], [put_anew])
    late = Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]
    if dies:
        with pytest.raises(Died):
            publish(late, name, full=full)
        assert files <= target.needed(since=2**60), "it is the newest again if the late one goes on"
        clean(gone.ports, retention=NOW)
        outcome = publish(gone, name)
        assert isinstance(outcome, PublishedNow)
        assert "does not follow" in outcome.mended
    else:
        publish(late, name, full=full)
    assert seen(gone, name) == shown(gone)


def test_a_removal_while_a_version_is_written_is_no_error(tmp_path: Path, name: str) -> None:
    """What the version goes on from is not there any more, so the target is read anew."""
    table = new_table(tmp_path, name)
    gone = Table(replace(table.ports))
    storage = Beside(table.ports.storage, HEADS[name], first=[lambda: gone.unpublish(name)])
    late = Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]
    assert isinstance(publish(late, name), PublishedNow)
    assert seen(gone, name) == shown(gone)


def test_files_that_an_older_segtable_chose_are_compared_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket whose base it did not see is in the next version, whatever else changed."""
    table = create_table(ports_at(tmp_path), of_kind(DEFINITION, PrimaryKey(key=("row",))))
    table.upsert(rows(range(10)))
    plans = [known.plan.id for known in request(table.ports, "semi-major")]
    compact(table.ports, plans, in_process(table.ports.files))
    with monkeypatch.context() as older:
        older.setattr(publishing, "base_groups", lambda _: ())
        older.setattr(revising, "RULES", 0)
        publish(table, name)
    assert seen(table, name) == []
    table.tag("unpublished")
    later = Table(ports_at(tmp_path))
    assert isinstance(publish(later, name), PublishedNow)
    assert seen(later, name) == [*range(10)]
    assert isinstance(publish(Table(ports_at(tmp_path)), name), AlreadyPublished)


def test_a_removal_that_goes_on_while_a_target_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version after version goes between its listing and its reading, until there is none."""
    table = new_table(tmp_path, "iceberg", count=5)
    storage = table.ports.storage
    read = storage.read

    def late(path: str) -> bytes:
        if path.startswith(METADATA):
            storage.delete(path)
        return read(path)

    monkeypatch.setattr(type(storage), "read", lambda _, path: late(path))
    assert FORMATS["iceberg"].target(storage).load() is None


@pytest.mark.parametrize("full", [False, True])
def test_a_torn_version_is_published_over(tmp_path: Path, name: str, *, full: bool) -> None:
    """A head of which the disk lost the end is followed by a whole one; deletions wait for it."""
    table = new_table(tmp_path, name)
    left = next((tmp_path / "data").iterdir()) / f"99999-{'0' * 16}.parquet"
    left.write_bytes(b"of a writer that died")
    path = tmp_path / (commit_path(1) if name == "delta" else version_path(2))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CorruptTable, match="--full"):
        clean(table.ports, retention=NOW)
    assert isinstance(publish(Table(replace(table.ports)), name, full=full), PublishedNow)
    assert seen(table, name) == shown(table)
    assert left.exists()
    clean(table.ports, retention=NOW)


@cache
def memory_table(name: str) -> tuple[Table, Mapping[str, bytes]]:
    """Return a published table in memory, with deletes, and the files of its target."""
    ports = context_in_memory()
    table = create_table(ports, DEFINITION)
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        table.delete(f"row = {turn * 10 + 3}")
        table.publish(formats=name)
    return table, {path: ports.storage.read(path) for path in own_files(table, name)}


def restored(name: str) -> Table:
    """Return the table as a new process has it, its target as it was."""
    table, files = memory_table(name)
    for path in {*own_files(table, name)} - files.keys():
        table.ports.storage.delete(path)
    for path, data in files.items():
        table.ports.storage.replace(path, data)
    return Table(replace(table.ports))


def damaged(data: bytes, other: bytes, random: Random) -> bytes | None:
    """Return the bytes of a file that was damaged as disks and people do; None if it is lost."""
    at = random.randrange(len(data))
    flipped = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    rubbish = b'{"a": [1, null]}\n\x00' * 3
    return random.choice((None, data[:at], flipped, other, b"{}", rubbish, b""))


@given(seed=st.integers(0, 2**32), name=st.sampled_from(["delta", "iceberg"]))
@examples(40)
def test_no_rubbish_in_a_target_keeps_it_from_being_published_or_removed(
    seed: int, name: str
) -> None:
    """After any damage, publishing in full and removing succeed, and data files stay.

    Only if a flipped bit took away what shows whose table it is, it is taken for another tool's.
    """
    random = Random(seed)
    table, files = restored(name), memory_table(name)[1]
    storage = table.ports.storage
    data = {*table.ports.files.store}  # type: ignore[attr-defined]
    for path in random.sample(sorted(files), random.randint(1, 4)):
        other = files[random.choice(sorted(files))]
        new = damaged(files[path], other, random)
        storage.delete(path) if new is None else storage.replace(path, new)
    try:
        table.unpublish(name, dry_run=True)
    except ForeignTable:
        assert any(storage.read(p) != files.get(p) for p in own_files(table, name))
        return
    if random.random() < 0.5:
        table.unpublish(name)
        assert own_files(table, name) == []
    assert isinstance(publish(table, name, full=True), PublishedNow)
    found = FORMATS[name].target(storage).load()
    assert found is not None
    assert {*found.files} == {s.path for s in table.state().timeline.visible_segments()}
    assert {*table.ports.files.store} == data  # type: ignore[attr-defined]
