"""Workers that are forked from a process which has imported everything already.

A Python process that imports pyarrow and this package takes half a second of processor time to
start. A run that kills a worker each second would do little else. ``multiprocessing``'s fork server
is a process without threads, forked for each worker: it starts in milliseconds, and is a process as
any other, in a session of its own.
"""

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

Target = Callable[[str, str, str, Path], None]
"""What a worker does, given its mode, its name, the table's URI and the crew's folder."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A forked worker, with the part of ``Popen`` that a crew uses."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        """Return its id, which is also that of its session and process group."""
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.process.name), timeout or 0.0)
        return self.process.exitcode


class Forks:
    """Starts forked workers."""

    def __init__(self, target: Target, folder: Path, preload: Sequence[str]) -> None:
        """Preload modules; ``target`` is a function of one of them."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*preload])
        self._target, self._folder = target, folder

    def __call__(self, mode: str, name: str, uri: str) -> Forked:
        """Start a worker; return when it has a session of its own."""
        here, there = self._context.Pipe()
        given = (self._target, mode, name, uri, self._folder, there)
        process = self._context.Process(target=_begin, args=given, name=name, daemon=True)
        process.start()
        there.close()
        here.recv()
        return Forked(process)


def _begin(target: Target, mode: str, name: str, uri: str, folder: Path, begun: Connection) -> None:
    os.setsid()
    begun.send(None)
    with (folder / f"{name}.log").open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    target(mode, name, uri, folder)
