"""SIGKILL at requests to an S3 server: nothing is lost, nothing is there twice, nothing stays.

1. Each work is run once, and its requests are written down by kind: the method, and the room of
   the table that they are about.
2. A process is killed at the first and at the last write of an event, of a data file and of a
   publication, before it is sent, and when the server has done it and the answer is on its way.
   It is also killed after the first one of each other kind of write, and before a data file.
3. A second process repeats the work. Then all rows are there once, the table is sound, and a
   cleaning leaves no file that no segment names.
"""

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.health.publish_check import check_published
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import open_storage
from tests.stores import killed_work
from tests.stores.faulty_proxy import Asked, FaultyProxy, Killed, Traced, kind_of
from tests.stores.killed_work import PUBLISHED, WORKS, Place, numbers, prepared, wanted
from tests.stores.servers import Server

WRITES = ("PUT", "POST", "DELETE")
DECISIVE = ("event", "data", "published")
PATIENCE_S = 120
_places = count()


@pytest.fixture(scope="module")
def processes() -> Any:
    """Start processes that have the modules, and no threads of this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([killed_work.__name__])
    return context


@dataclass(frozen=True)
class Point:
    """Where a process is killed: at which request of a kind, and on which side of it."""

    kind: str
    number: int
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.kind} {self.number}"


@dataclass
class Theatre:
    """A store, and processes that work on its tables."""

    server: Server
    zookeeper: str
    processes: Any
    folder: Path

    def place(self, work: str) -> Place:
        """Prepare a table."""
        uri = self.server.uri(f"killed-{next(_places)}/{work}")
        options = dict(self.server.options)
        made = Place(uri=uri, zookeeper=self.zookeeper, options=options, folder=self.folder)
        prepared(made, work)
        return made

    def run(self, place: Place, work: str, killed: Killed | None = None) -> int | None:
        """Do a work in a process; return its exit code."""
        process = self.processes.Process(target=killed_work.run, args=(place, work))
        process.start()
        if killed is not None:
            killed.victim.value = process.pid
        process.join(PATIENCE_S)
        code: int | None = process.exitcode
        process.kill()
        process.join()
        return code

    def behind(self, place: Place, proxy: FaultyProxy) -> Place:
        """Return the table as it is reached by a proxy."""
        return replace(place, options=self.server.at(proxy.port))


@pytest.fixture
def theatre(
    server: Server, zookeeper: EmbeddedZooKeeper, processes: Any, tmp_path: Path
) -> Theatre:
    """Play on versitygw alone: a server with a disk, which verifies signatures."""
    if server.name != "versitygw":
        pytest.skip("killed on one server")
    return Theatre(server, zookeeper.address, processes, tmp_path)


def points(theatre: Theatre, work: str) -> list[Point]:
    """Run a work undisturbed; return where processes will be killed."""
    place, file = theatre.place(work), theatre.folder / "requests"
    with FaultyProxy(theatre.server.port, Traced(file=file)) as proxy:
        assert theatre.run(theatre.behind(place, proxy), work) == 0, error(theatre)
    check(place, work)
    kinds = Counter(file.read_text().splitlines())
    return [point for kind, most in kinds.items() for point in points_of(kind, most)]


def points_of(kind: str, most: int) -> Iterator[Point]:
    """Return the points of a kind of request, of which there were so many.

    A kill at a read leaves what a kill after the write before it leaves: one kind is enough.
    """
    method, room = kind.split()
    if method in WRITES and room in DECISIVE:
        for number in sorted({1, most}):
            yield Point(kind, number, after=False)
            yield Point(kind, number, after=True)
    elif method in WRITES:
        yield Point(kind, 1, after=True)
    elif kind == "HEAD data":
        yield Point(kind, 1, after=False)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("work", WORKS)
def test_a_process_killed_at_a_request_loses_and_doubles_nothing(
    theatre: Theatre, work: str
) -> None:
    """Each kind of request of each work, on both sides of a write; a second process repeats it."""
    played = 0
    for point in points(theatre, work):
        place = theatre.place(work)

        def chosen(asked: Asked, kind: str = point.kind) -> bool:
            return kind_of(asked) == kind

        killed = Killed(chosen=chosen, times=point.number, after=point.after)
        with FaultyProxy(theatre.server.port, killed) as proxy:
            code = theatre.run(theatre.behind(place, proxy), work, killed)
        # A cleaning may have less to do than the undisturbed one, and never reach the point.
        assert code in {0, -signal.SIGKILL}, f"{work} {point}: {code} {error(theatre)}"
        assert theatre.run(place, work) == 0, f"{work} {point}: {error(theatre)}"
        check(place, work, f"{work} {point}")
        played += code != 0
    assert played > 1


def error(theatre: Theatre) -> str:
    """Return what the last process died of."""
    file = theatre.folder / "error"
    return file.read_text() if file.exists() else ""


def check(place: Place, work: str, where: str = "") -> None:
    """Check rows and files, then clean, and check that no file is left that nothing names."""
    table = place.open()
    assert numbers(table) == wanted(work), where
    assert table.verify(deep=True).findings == (), where
    if work == "publish":
        for published in check_published(table.ports, PUBLISHED):
            assert not published.findings, where
            assert published.rows == len(wanted(work)), where
    if work == "index":
        assert table.index("numbers").current, where
    assert cleaned(table, place) == named(table), where
    assert numbers(table) == wanted(work), where
    assert table.verify(deep=True, all_versions=True).findings == (), where
    table.ports.coordinator.close()


def cleaned(table: Table, place: Place) -> set[str]:
    """Clean; return the files that are left, once the locks of the dead have ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
        left = stored(place)
        if left == named(table) or time.monotonic() > deadline:
            return left


def named(table: Table) -> set[str]:
    """Return the files of the visible segments."""
    return {str(segment.path) for segment in table.snapshot().segments() if segment.path}


def stored(place: Place) -> set[str]:
    """Return the data files."""
    return {entry.path for entry in open_storage(place.uri, place.options).list("data")}
