"""Real disks that are full, read-only, out of inodes or handles, or die between two steps.

Small tmpfs mounts where this user may mount; elsewhere those tests are skipped, saying so. Only a
failing fsync is staged, through the adapter's own seam.
"""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import LocalStorage, probe
from airflow_provider_segtable.storage.local import TEMPORARY
from tests.unit.table.conftest import SCHEMA, rows

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a tmpfs with the given options; skips where that is not allowed."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"may not mount a tmpfs here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """Lower one of this process's limits for a moment."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def files_below(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_a_full_disk_is_named_and_leaves_nothing(mount: Mount) -> None:
    """Neither name nor temporary remains; once there is space, the same call succeeds."""
    disk = mount("size=64k")
    storage = LocalStorage(disk / "table")
    storage.create("t/0", b"kept")
    (disk / "ballast").write_bytes(b"x" * 32_768)
    for write in (storage.create, storage.replace):
        with pytest.raises(StorageFull, match="free space or inodes") as caught:
            write("t/1", b"y" * 60_000)
        assert f"file://{disk}/table/t/1" in str(caught.value)
    assert files_below(disk) == ["ballast", "table/t/0"]
    assert storage.read("t/0") == b"kept"
    (disk / "ballast").unlink()
    storage.create("t/1", b"y" * 40_000)
    assert [entry.path for entry in storage.list("t")] == ["t/0", "t/1"]


def test_a_full_disk_spoils_no_hint(mount: Mount) -> None:
    """A hint that cannot be replaced keeps its old bytes."""
    disk = mount("size=64k")
    storage = LocalStorage(disk)
    storage.replace("_last", b"old")
    with pytest.raises(StorageFull):
        storage.replace("_last", b"n" * 100_000)
    assert storage.read("_last") == b"old"


def test_a_disk_without_inodes_is_full(mount: Mount) -> None:
    """No inode left is no space left; here a link takes one, too."""
    storage = LocalStorage(mount("size=1m,nr_inodes=3"))
    storage.create("0", b"")
    with pytest.raises(StorageFull, match="inodes"):
        storage.create("1", b"")


def test_a_read_only_disk_is_named_and_still_read(mount: Mount) -> None:
    """Reading goes on; each write says that the mount is read-only."""
    disk = mount("size=64k")
    storage = LocalStorage(disk)
    storage.create("t/0", b"kept")
    remount(disk, "ro")
    writes: list[Callable[[], object]] = [
        lambda: storage.create("t/1", b""),
        lambda: storage.create("new/1", b""),
        lambda: storage.replace("t/0", b""),
        lambda: storage.delete("t/0"),
        lambda: probe(storage),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyStorage, match="mount it writable"):
            write()
    assert storage.read("t/0") == b"kept"
    remount(disk, "rw")
    storage.create("t/1", b"")


def test_a_data_file_on_a_full_disk_stays_invisible(mount: Mount) -> None:
    """A segment that does not fit leaves nothing, not even its temporary."""
    disk = mount("size=64k")
    with (
        pytest.raises(StorageFull),
        LocalFiles(disk).create("data/c/0-a.parquet") as sink,
    ):
        sink.write(b"x" * 100_000)
    assert files_below(disk) == []


def test_the_file_size_limit_is_named(tmp_path: Path) -> None:
    """A file over RLIMIT_FSIZE does not fit, and says which limit to raise."""
    storage = LocalStorage(tmp_path)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with limited(resource.RLIMIT_FSIZE, 4096), pytest.raises(StorageFull, match="ulimit -f"):
            storage.create("t/0", b"x" * 10_000)
    finally:
        signal.signal(signal.SIGXFSZ, before)
    assert files_below(tmp_path) == []


def test_no_file_handles_left_is_named(tmp_path: Path) -> None:
    """EMFILE is a full table of handles: nothing was written, and the limit is named."""
    storage = LocalStorage(tmp_path)
    storage.create("t/0", b"")
    with limited(resource.RLIMIT_NOFILE, 0):
        for call in (lambda: storage.create("t/1", b""), lambda: storage.read("t/0")):
            with pytest.raises(StorageFull, match="ulimit -n"):
                call()
    assert files_below(tmp_path) == ["t/0"]


class Disk:
    """Records what is synced, and fails the k-th sync."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.synced: list[str] = []
        self._calls = 0
        self._fails_at = fails_at

    def sync(self, fd: int) -> None:
        """Sync, record the path, or fail."""
        self._calls += 1
        if self._calls == self._fails_at:
            raise OSError(errno.EIO, "staged")
        os.fsync(fd)
        self.synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))


def test_what_is_acknowledged_was_synced(tmp_path: Path) -> None:
    """File, its folder, and every new folder's parent: leave one out, and a power cut loses it."""
    disk, root = Disk(), tmp_path / "not" / "yet"
    storage = LocalStorage(root, sync=disk.sync)
    storage.create("a/b/0", b"x")
    folders, (file, last) = disk.synced[:-2], disk.synced[-2:]
    assert folders == [str(p) for p in (root.parent, tmp_path, root, root / "a")]
    assert file.startswith(str(root / "a/b"))
    assert file.endswith(TEMPORARY)
    assert last == str(root / "a/b")
    storage.create("a/b/1", b"y")
    assert disk.synced[-1] == str(root / "a/b")
    assert len(disk.synced) == 8


def test_folders_that_others_made_are_synced_too(tmp_path: Path) -> None:
    """A folder that is there need not be durable: its maker may not have come to its sync yet."""
    (tmp_path / "table/a").mkdir(parents=True)
    disk = Disk()
    LocalStorage(tmp_path / "table", sync=disk.sync).create("a/0", b"x")
    assert {str(tmp_path / "table"), str(tmp_path)} <= set(disk.synced)


def test_a_failed_file_sync_is_final(tmp_path: Path) -> None:
    """The file is thrown away and never synced again: the kernel may have dropped its pages."""
    (tmp_path / "t").mkdir()
    LocalStorage(tmp_path).create("t/0", b"")
    disk = Disk(fails_at=3)  # after both folders
    storage = LocalStorage(tmp_path, sync=disk.sync)
    with pytest.raises(StorageError, match="check the disk") as caught:
        storage.create("t/1", b"x")
    assert not isinstance(caught.value, OutcomeUnknown)
    assert files_below(tmp_path) == ["t/0"]


def test_a_failed_folder_sync_is_unknown(tmp_path: Path) -> None:
    """The name is there, a power cut may take it away: no caller may call it failed."""
    disk = Disk(fails_at=3)
    storage = LocalStorage(tmp_path, sync=disk.sync)
    with pytest.raises(OutcomeUnknown, match="power cut"):
        storage.create("0", b"x")
    assert storage.read("0") == b"x"
    with pytest.raises(AlreadyExists):
        storage.create("0", b"x")


DYING = """
import os, signal, sys
from airflow_provider_segtable.storage import LocalStorage
syncs = 0
def die(fd):
    global syncs
    syncs += 1
    if syncs == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    os.fsync(fd)
LocalStorage(sys.argv[1], sync=die).create("t/0", b"whole")
"""


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_kill_9_leaves_all_or_nothing(tmp_path: Path, at: int) -> None:
    """Killed at any sync, the object is whole or absent; litter is never listed or in the way."""
    done = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), str(at)], check=False)
    assert done.returncode == -signal.SIGKILL
    storage = LocalStorage(tmp_path)
    listed = [entry.path for entry in storage.list("")]
    if at == 4:
        assert listed == ["t/0"]
    else:
        assert listed == []
        with pytest.raises(NotFound):
            storage.read("t/0")
        storage.create("t/0", b"whole")
    assert storage.read("t/0") == b"whole"


def test_a_folder_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    """Somebody who tidies up empty folders does not break a running writer."""
    storage = LocalStorage(tmp_path / "table")
    storage.create("t/0", b"")
    storage.delete("t/0")
    (tmp_path / "table/t").rmdir()
    storage.create("t/1", b"")
    assert files_below(tmp_path) == ["table/t/1"]


def _fill(disk: Path) -> None:
    """Write until no byte fits any more."""
    with (disk / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(b"x" * 512)


@pytest.mark.parametrize("cleaned_before", [True, False])
def test_a_full_disk_is_cleaned(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, *, cleaned_before: bool
) -> None:
    """A cleaning needs no free space: it has a reserve, and deletes first what needs no event."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    disk = mount("size=4m")
    table = Table.create(str(disk / "t"), schema=SCHEMA, time_column="at", granularity="all")
    if cleaned_before:
        table.clean()
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    table.compact("semi-major")
    orphan = disk / "t/data/x/00000-0123456789abcdef.parquet"
    if not cleaned_before:  # then there is no reserve, and an orphan makes room
        orphan.parent.mkdir()
        orphan.write_bytes(b"x" * 1_000_000)
    _fill(disk)
    with pytest.raises(StorageFull):
        table.append(rows(range(30, 40)))
    done = table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
    assert (len(done.files), len(done.orphans)) == (3, 0 if cleaned_before else 1)
    assert len(files_below(disk / "t/data")) == 1
    table.append(rows(range(30, 40)))
    assert sorted(table.scan().to_arrow()["row"].to_pylist()) == list(range(40))
    assert not table.verify().findings
