"""Tables on network mounts: the answers of NFS that a local disk never gives.

No NFS server is started. The answers are those of its protocol: a ``link`` that was sent again
after a lost reply finds its own name taken, or ends with a stale handle; a folder has no ``flock``.
"""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import AlreadyExists, OutcomeUnknown, UnsafeStorage
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import LocalStorage

ROWS = pa.table({"at": pa.array([0, 1], pa.timestamp("us", "UTC")), "x": [1, 2]})
Break = Callable[[int, int], list[str]]


@pytest.fixture
def after_link(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Make each of so many links of events succeed, and then end with an error of this number."""
    link = os.link

    def fail(number: int, times: int) -> list[str]:
        failed: list[str] = []

        def linked(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if target.endswith(".json") and len(failed) < times:
                failed.append(target)
                raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", linked)
        return failed

    return fail


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (errno.EEXIST, AlreadyExists),
        (errno.ESTALE, OutcomeUnknown),
        (errno.ETIMEDOUT, OutcomeUnknown),
        (errno.EIO, OutcomeUnknown),
    ],
)
def test_a_link_whose_reply_was_lost_is_no_certain_failure(
    number: int, meaning: type[Exception], tmp_path: Path, after_link: Break
) -> None:
    """The object is there, and the error says that it may be."""
    after_link(number, 1)
    storage = LocalStorage(tmp_path)
    with pytest.raises(meaning):
        storage.create("t/0.json", b"mine")
    assert storage.read("t/0.json") == b"mine"
    assert [entry.path for entry in storage.list("")] == ["t/0.json"]


@pytest.mark.parametrize("number", [errno.EEXIST, errno.ESTALE])
def test_a_commit_whose_link_was_sent_again_lands_once(
    number: int, tmp_path: Path, after_link: Break
) -> None:
    """A table is made and appended to though the reply to each link of an event is lost."""
    failed = after_link(number, 3)
    place = str(tmp_path / "table")
    reach = {"zookeeper": f"memory://{number}"}
    made = Table.create(place, schema=ROWS.schema, time_column="at", **reach)
    made.append(ROWS)
    made.append(ROWS)
    assert len(failed) == 3
    assert sorted(Table.open(place).scan().to_arrow()["x"].to_pylist()) == [1, 1, 2, 2]
    made.ports.coordinator.close()


def test_a_mount_without_locks_of_folders_takes_no_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS refuses to lock a folder that is open for reading: writers go on without turns."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", refuse)
    storage = LocalStorage(tmp_path)
    storage.create("t/0.json", b"0")
    with storage.turn("t", wait_s=0.1), storage.turn("t", wait_s=0.1):
        storage.create("t/1.json", b"1")
    assert len(list(storage.list("t"))) == 2


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_mount_without_links_is_refused_at_create(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SMB, FUSE mounts of object stores and others without hard links hold no tables."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsafeStorage, match="makes no hard links") as caught:
        Table.create(str(tmp_path), schema=ROWS.schema, time_column="at", zookeeper="memory://no")
    assert str(tmp_path) in str(caught.value)
