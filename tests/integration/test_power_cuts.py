"""The power fails at any sync: whatever was not synced is kept or lost, piece by piece.

The model looks at the real folders of a real table. It knows what was synced: the bytes of files,
and the names that a folder had. At a cut it makes a copy of the table in which every other name is
as it is now or as it was, by chance, and opens that. Nothing is really synced.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.log_paths import checkpoint_path, event_path
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import defined_by
from tests.unit.services.conftest import SCHEMA, contents, rows

NOW = Retention(hours=0, versions=1, orphan_hours=0)
DEFINITION = defined_by(SCHEMA, properties={"compaction.min_segments": "2"})


@dataclass
class Disk:
    """A folder, and what of it would survive a power cut.

    ``names`` are those that each folder had when it was synced, ``files`` the synced files; both
    by inode, which a descriptor keeps from being given to another one. Data files are synced by
    threads: one sync or cut at a time.
    """

    place: Path
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    folders: list[int] = field(default_factory=list)
    synced: list[str] = field(default_factory=list)
    cut: Callable[[], None] = lambda: None
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def sync(self, fd: int) -> None:
        """Cut the power right before the sync takes effect, maybe; then note it."""
        with self.mutex:
            self._sync(fd)

    def _sync(self, fd: int) -> None:
        self.cut()
        self.synced.append(os.path.relpath(Path(f"/proc/self/fd/{fd}").readlink(), self.place))
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            if found.st_ino not in self.names:
                self.folders.append(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))
            self.names[found.st_ino] = {each.name: each.inode() for each in os.scandir(fd)}
        elif found.st_ino not in self.files:
            self.files[found.st_ino] = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)

    def sync_but_for_the_log(self, fd: int) -> None:
        """Sync as an author who stops before it comes to a folder of the log."""
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        if not folder or "_segtable" not in str(Path(f"/proc/self/fd/{fd}").readlink()):
            self.sync(fd)

    def survives(self, target: Path, random: Random | None) -> None:
        """Write what a cut leaves: of what was not synced nothing, or a part of it by chance."""
        self._left(self.place.stat().st_ino, self.place, target, random)

    def _left(self, inode: int, live: Path, target: Path, random: Random | None) -> None:
        target.mkdir()
        was = self.names.get(inode, {})
        now = {each.name: each.inode() for each in os.scandir(live)}
        for name in sorted({*was, *now}):
            before, after = was.get(name), now.get(name)
            chosen = before if random is None or random.random() < 0.5 else after
            if chosen is None:
                continue
            if chosen == after and (live / name).is_dir():
                self._left(chosen, live / name, target / name, random)
            else:
                (target / name).write_bytes(self._bytes(chosen))

    def _bytes(self, inode: int) -> bytes:
        if inode not in self.files:
            return b""  # never synced: torn
        fd = self.files[inode]
        return os.pread(fd, os.fstat(fd).st_size, 0)

    def close(self) -> None:
        """Let go of the files."""
        for fd in (*self.files.values(), *self.folders):
            os.close(fd)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    made = Disk(place)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short logs expire."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)


def ports_on(disk: Disk, sync: Callable[[int], None] | None = None) -> TableContext:
    root = disk.place / "table"
    made = open_context(str(root), author="test")
    return replace(
        made,
        storage=LocalStorage(root, sync=sync or disk.sync),
        files=LocalFiles(root, sync=sync or disk.sync),
        optional_coordinator=MemoryCoordinator(made.clock, MemoryService()),
    )


@dataclass
class World:
    """A table at work, and what a reader must find if the power fails now."""

    disk: Disk
    ports: TableContext
    random: Random
    every: int = 1
    syncs: int = 0
    cuts: int = 0
    version: int = -1
    shown: list[int] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    tags: dict[str, list[int]] = field(default_factory=dict)

    @contextmanager
    def step(
        self, change: Callable[[list[int]], list[int]] = lambda shown: shown
    ) -> Iterator[None]:
        """Do something that is acknowledged when it ends, and shows other rows then."""
        self.next = sorted(change(self.shown))
        yield
        self.shown, self.version = self.next, EventLog(self.ports.storage).load().n
        self.check()

    def maybe(self) -> None:
        """Cut the power at every so many syncs."""
        self.syncs += 1
        if self.syncs % self.every == 0:
            self.check()

    def check(self) -> None:
        """Cut the power: what was acknowledged is there, and nothing contradicts itself."""
        self.cuts += 1
        place = self.disk.place.parent / f"cut-{self.cuts}"
        self.disk.survives(place, self.random if self.cuts % 3 else None)
        if self.version >= 0:
            self._sound(open_context(str(place / "table"), author="reader"))

    def _sound(self, left: TableContext) -> None:
        state = EventLog(left.storage).load()
        assert state.n >= self.version
        assert contents(left) in (self.shown, self.next)
        assert verify(left).findings == ()
        for name, then in self.tags.items():
            past = Table(left).snapshot(version=state.tags[name])
            assert sorted(past.to_arrow().column("row").to_pylist()) == then

    def compact(self, kind: str) -> None:
        """Carry out a compaction of everything."""
        plans = [asked.plan.id for asked in request(self.ports, kind)]
        results = compact(self.ports, plans, in_process(self.ports.files))
        assert {result.ended for result in results} == {Ended.COMPLETED}


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.long)])
def test_a_power_cut_takes_nothing_that_was_acknowledged(disk: Disk, every: int) -> None:
    """Appends, deletes, tags, compaction, cleaning and expiry, cut at every so many syncs."""
    world = World(disk, ports_on(disk), Random(every), every)
    table = Table(world.ports)
    disk.cut = world.maybe
    with world.step():
        create_table(world.ports, DEFINITION)
    for turn in range(3):
        with world.step(lambda shown, turn=turn: [*shown, turn, 100 + turn]):
            table.append(rows(turn))
    world.every = 1
    with world.step():
        table.tag("kept")
    world.tags["kept"] = world.shown
    world.every = every
    with world.step(lambda shown: [row for row in shown if row != 1]):
        table.delete("row = 1")
    with world.step():
        world.compact("minor")
    world.every = min(2, every)
    for _ in range(2):
        with world.step():
            clean(world.ports, retention=NOW)
    assert EventLog(world.ports.storage).first() > 0
    with world.step(lambda shown: [*shown, 3, 103]):
        table.append(rows(3))
    assert world.cuts > 30


def test_cleaning_rests_on_no_name_that_its_author_did_not_sync(disk: Disk) -> None:
    """Events, checkpoints and the marker of one who stopped before its sync are flushed first."""
    create_table(ports_on(disk), DEFINITION)
    dying = ports_on(disk, disk.sync_but_for_the_log)
    for turn in range(4):
        Table(dying).append(rows(turn))
    cleaner = ports_on(disk)
    shown, version = contents(cleaner), Table(cleaner).state().n
    run = clean(cleaner, retention=NOW)
    assert run.log_files
    world = World(disk, cleaner, Random(1), version=version, shown=shown, next=shown)
    for _ in range(5):
        world.check()


def test_the_order_of_syncs_is_what_the_log_needs(disk: Disk) -> None:
    """What an event names is durable before it, a checkpoint and a tag's file right after."""
    ports = ports_on(disk)
    create_table(ports, DEFINITION)
    del disk.synced[:]
    Table(ports).append(rows(0))
    trace = disk.synced
    chunks = sorted({path for path in trace if path.startswith("table/data/1")})
    folders = [path for path in chunks if path.count("/") == 2]
    assert len(folders) == 2
    assert trace.index("table") < trace.index("table/data") < trace.index(folders[0])
    assert all(trace.index(folder) < trace.index("table/_segtable/timeline") for folder in folders)
    del disk.synced[:]
    Table(ports).delete("row = 0")
    event = trace.index("table/_segtable/timeline")
    assert trace.index("table/deletes") < event
    assert trace.index("table/_segtable/checkpoints") > event
    del disk.synced[:]
    Table(ports).tag("kept")
    assert trace.index("table/_segtable/tags") < trace.index("table/_segtable/timeline")


class Recorded(LocalStorage):
    """A storage that notes what is asked of it, in order."""

    asked: list[tuple[str, str]]

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create and note."""
        super().create(path, data, ready=ready)
        self.asked.append(("create", path))

    def flush(self, prefix: str) -> None:
        """Settle and note."""
        super().flush(prefix)
        self.asked.append(("flush", prefix))

    def delete(self, path: str) -> None:
        """Note and delete."""
        self.asked.append(("delete", path))
        super().delete(path)


def test_expiry_flushes_before_it_deletes(tmp_path: Path) -> None:
    """The marker, then log, checkpoints and markers as all can see them, then the oldest event."""
    made = open_context(str(tmp_path), author="test")
    storage = Recorded(tmp_path)
    storage.asked = []
    ports = replace(
        made, storage=storage, optional_coordinator=MemoryCoordinator(made.clock, MemoryService())
    )
    create_table(ports, DEFINITION)
    for turn in range(4):
        Table(ports).append(rows(turn))
    del storage.asked[:]
    run = clean(ports, retention=NOW)
    first = storage.asked.index(("delete", event_path(0)))
    before = storage.asked[:first]
    assert before[-5:] == [
        ("create", f"_segtable/expired/{run.log_from:020d}"),
        ("flush", "_segtable/timeline"),
        ("flush", "_segtable/checkpoints"),
        ("flush", "_segtable/expired"),
        ("flush", "_segtable/sidecars"),
    ]
    assert ("delete", checkpoint_path(run.log_from)) not in storage.asked
