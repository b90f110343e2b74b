"""Turns in a folder: one writer at a time, in order, and never without end."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_segtable.disk import Turns
from tests.contract.worlds import Running, eventually

LONG_S = 20.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def open_descriptors() -> list[int]:
    """Return this process's open files, and folders."""
    return [int(each.name) for each in Path("/proc/self/fd").iterdir() if each.exists()]


def at(fd: int) -> tuple[int, int]:
    """Return the device and the inode of an open file."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def test_one_writer_at_a_time_has_the_turn(folder: int) -> None:
    """Of threads that share one storage, or have their own, as processes do."""
    shared, inside, most = Turns(), list[int](), list[int]()

    def write(turns: Turns) -> None:
        for _ in range(50):
            with turns.turn(folder, LONG_S):
                inside.append(1)
                most.append(len(inside))
                os.sched_yield()
                inside.pop()

    with ThreadPoolExecutor(4) as pool:
        tuple(pool.map(write, (shared, shared, Turns(), Turns())))
    assert len(most) == 200
    assert set(most) == {1}


def test_a_writer_does_not_wait_for_a_stopped_one_for_ever(folder: int) -> None:
    """It waits once in vain; then it takes no turns until the stopped writer goes on."""
    stopped, writer = Turns(), Turns()
    with ExitStack() as stack:
        stack.enter_context(stopped.turn(folder, LONG_S))
        with writer.turn(folder, 0.01):
            assert not writer.late
        assert len(writer.late) == 1
        with writer.turn(folder, LONG_S / 10):
            pass
        assert len(writer.late) == 1, "it waited in vain a second time"
    eventually(lambda: not writer.late)
    with stopped.turn(folder, LONG_S):
        waiting = Running(lambda: writer.turn(folder, LONG_S).__enter__())
    waiting.result()


def test_a_turn_that_came_too_late_is_passed_on(folder: int) -> None:
    """The folder is free although the wait for it had been given up."""
    stopped, late, next_ = Turns(), Turns(), Turns()
    with stopped.turn(folder, LONG_S), late.turn(folder, 0.01):
        pass
    eventually(lambda: not late.late)
    with next_.turn(folder, LONG_S):
        pass
    assert not next_.late


def test_a_forked_child_does_not_keep_the_turn(folder: int) -> None:
    """It has the descriptor, too, but the turn ends with its writer's."""
    first, second = Turns(), Turns()
    with first.turn(folder, LONG_S):
        same = [fd for fd in open_descriptors() if fd != folder and at(fd) == at(folder)]
        copies = [os.dup(fd) for fd in same]
    with second.turn(folder, 0.0):
        pass
    for each in copies:
        os.close(each)
    assert copies
    assert not second.late


def test_a_turn_never_fails(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the folder is gone, or the file system has no locks: its writer goes on."""
    with Turns().turn(-1, LONG_S):
        pass

    def unsupported(*_: object) -> None:
        raise OSError(95, "no locks")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with Turns().turn(folder, LONG_S), Turns().turn(folder, LONG_S):
        pass


def test_an_error_in_a_turn_ends_it(folder: int) -> None:
    """And reaches the writer."""
    turns = Turns()
    with pytest.raises(ValueError, match="mine"), turns.turn(folder, LONG_S):
        raise ValueError("mine")
    with Turns().turn(folder, 0.0):
        pass
    assert not turns.late
