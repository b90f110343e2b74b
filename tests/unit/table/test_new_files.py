"""The files of one write become durable beside each other, by few threads."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.table import new_files
from airflow_provider_segtable.table.new_files import AT_ONCE, NewFiles


def is_file(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)


def write(files: LocalFiles, new: NewFiles, name: str) -> None:
    with files.create(f"data/{name}") as sink:
        sink.write(name.encode())
        new.commit(sink)


def test_syncs_of_a_disk_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A disk makes several files durable by one flush, if it is asked for them together."""
    together = threading.Barrier(AT_ONCE)

    def sync(fd: int) -> None:
        if is_file(fd):
            together.wait(60)  # one after another, the first would wait for ever

    files, new = LocalFiles(tmp_path, sync=sync), NewFiles()
    for number in range(AT_ONCE):
        write(files, new, str(number))
    new.wait_durable()
    assert {each.name for each in (tmp_path / "data").iterdir()} == {*map(str, range(AT_ONCE))}


def test_many_files_share_few_threads(tmp_path: Path) -> None:
    """A thread for each file costs as much as a small file, and each holds descriptors."""
    seen: set[int] = set()
    under_way, most = threading.Semaphore(AT_ONCE), 5 * AT_ONCE

    def sync(fd: int) -> None:
        if is_file(fd):
            assert under_way.acquire(blocking=False)
            seen.add(threading.get_ident())
            under_way.release()

    files, new = LocalFiles(tmp_path, sync=sync), NewFiles()
    for number in range(most):
        write(files, new, str(number))
    new.wait_durable()
    assert len([*(tmp_path / "data").iterdir()]) == most
    assert len(seen) <= AT_ONCE


def test_an_error_is_raised_however_late_it_is_waited_for(tmp_path: Path) -> None:
    """The other files are there; the temporary one is not."""

    def sync(fd: int) -> None:
        if is_file(fd) and os.pread(fd, 1, 0) == b"b":
            raise OSError("broken")

    files, new = LocalFiles(tmp_path, sync=sync), NewFiles()
    for name in ("a", "b", "c"):
        write(files, new, name)
    for _ in range(2):
        with pytest.raises(StorageError, match="data/b"):
            new.wait_durable()
    assert sorted(each.name for each in (tmp_path / "data").iterdir()) == ["a", "c"]


def test_a_process_without_further_threads_commits_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that ends: no file may be lost for it."""
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(new_files, "ThreadPoolExecutor", lambda *_: ended)
    files, new = LocalFiles(tmp_path), NewFiles()
    write(files, new, "a")
    assert new.ready is None
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["a"]
