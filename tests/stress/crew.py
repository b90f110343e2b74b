"""The processes of a stress run, and what happens to them.

Whoever is killed is started again. A process that sleeps (SIGSTOP) through the end of its session
wakes up believing that it still holds its locks.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE
from tests.support.processes import importable

PATIENCE_S = 90.0
NAP_ENDS_S = 1.0
DEEDS = ("kill", "kill", "sleep", "executor")


class Running(Protocol):
    """A process that leads a process group; ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int:
        """Return its id."""
        ...

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""
        ...


Launch = Callable[[str, str, str], Running]
"""Starts a worker, by its mode, name and table."""


def launcher(worker: str, address: str, folder: Path, session_s: int) -> Launch:
    """Return a function that starts a module, the worker, in a Python of its own."""

    def launch(mode: str, name: str, uri: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", worker, mode, name, uri, address, str(folder)]
        environ = {
            **os.environ,
            "PYTHONPATH": importable(),
            SESSION_TIMEOUT_VARIABLE: str(session_s),
        }
        with (folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environ
            )

    return launch


@dataclass(slots=True)
class Crew:
    """The running workers; ``session_s`` is the length of their sessions.

    ``naps`` says who slept from when to when.
    """

    launch: Launch
    folder: Path
    session_s: int
    running: dict[str, Running] = field(default_factory=dict)
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    asleep: dict[str, float] = field(default_factory=dict)
    naps: list[tuple[str, float, float]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def start(self, mode: str, name: str, uri: str) -> None:
        """Start a worker on a table, in a process group of its own."""
        self.jobs[name] = (mode, uri)
        self.running[name] = self.launch(mode, name, uri)

    def strike(self, randomness: random.Random, deeds: Sequence[str] = DEEDS) -> str:
        """Do something bad to somebody; return what."""
        name = randomness.choice(sorted(self.running.keys() - self.asleep.keys()))
        what = randomness.choice(deeds)
        if what == "sleep":
            os.killpg(self.running[name].pid, signal.SIGSTOP)
            naps_s = self.session_s * randomness.uniform(1.2, 2.0)
            self.asleep[name] = time.monotonic() + naps_s
            self.naps.append((name, time.time(), time.time() + naps_s + NAP_ENDS_S))
        elif what == "executor" and (workers := self._python_workers()):
            randomness.choice(workers).kill()
        else:
            self.kill(name)
            return f"kill {name}"
        self.done[f"{what} {self.jobs[name][0] if what != 'executor' else ''}".strip()] += 1
        return f"{what} {name}"

    def kill(self, name: str) -> None:
        """Kill somebody, and start it again."""
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait()
        self.start(self.jobs[name][0], name, self.jobs[name][1])
        self.done[f"kill {self.jobs[name][0]}"] += 1

    def tend(self) -> None:
        """Wake who has slept long enough; start anew who ended by itself."""
        for name, until in tuple(self.asleep.items()):
            if time.monotonic() >= until:
                os.killpg(self.running[name].pid, signal.SIGCONT)
                del self.asleep[name]
        for name, process in tuple(self.running.items()):
            if process.poll() is not None:
                self.done[f"ended {self.jobs[name][0]}"] += 1
                self.start(self.jobs[name][0], name, self.jobs[name][1])

    def end(self) -> None:
        """Ask all to stop, then make them."""
        for name in tuple(self.asleep):
            os.killpg(self.running[name].pid, signal.SIGCONT)
        (self.folder / "stop").touch()
        deadline = time.monotonic() + PATIENCE_S
        for process in self.running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        (self.folder / "stop").unlink()

    def _python_workers(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in self.running.values():
            try:
                family = psutil.Process(process.pid).children(recursive=True)
                found += [c for c in family if "pyspark.daemon" in " ".join(c.cmdline())]
            except psutil.Error:
                continue
        return found
