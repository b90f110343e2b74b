"""Mark processes by a token in their environment, and end them.

1. Children of a marked process are marked too, even if they leave their parent, session or process
   group. So exactly the processes of a stack are ended, none by its name, and none is left.
2. Unless ``SPT_NOENV`` is set, ``setproctitle`` (Airflow, uvicorn) writes titles over the visible
   environment: start marked processes with ``Marked.environment``.
3. While a process replaces its program (exec) it shows no environment for a moment, which is long
   on a busy machine. It is looked at again, or whoever ends a stack would miss it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

TOKEN = "SEGTABLE_STACK"  # a variable's name, not a secret
PATIENCE_S = 8.0


@dataclass(frozen=True, slots=True)
class Marked:
    """The processes whose environment holds ``SEGTABLE_STACK=<token>``."""

    token: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that mark a process."""
        return {TOKEN: self.token, "SPT_NOENV": "1"}

    def living(self) -> list[psutil.Process]:
        """Return the marked processes."""
        return [process for process in psutil.process_iter() if self.marks(process)]

    def marks(self, process: psutil.Process) -> bool:
        """Return whether a process is marked and has not ended."""
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and bool(_environment(process).get(TOKEN) == self.token)
        except (psutil.Error, OSError):
            return False

    def end(self, first: Iterable[int] = ()) -> None:
        """End the marked processes: ``first`` in order, then all others at once."""
        leading = [process for process in self.living() if process.pid in set(first)]
        for process in leading:
            with suppress(psutil.Error):
                process.terminate()
        psutil.wait_procs(leading, timeout=PATIENCE_S)
        while left := self.living():
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)

    def watch(self) -> subprocess.Popen[bytes]:
        """Start a process that ends the marked ones when this process ends, however it ends."""
        command = [sys.executable, "-m", "tests.support.processes", self.token]
        env = {**os.environ, "PYTHONPATH": importable()}
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=env, start_new_session=True)


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return a process's environment; of one that replaces its program, the new program's."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        before = process.cmdline()
        environment: dict[str, str] = process.environ()
        settled = before and process.cmdline() == before
        if environment or settled or not process.exe():  # threads of the kernel have no program
            return environment
    return {}


def importable() -> str:
    """Return a ``PYTHONPATH`` that finds this checkout, installed or not."""
    checkout = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))


if __name__ == "__main__":
    os.read(0, 1)  # returns when the last holder of the pipe's other end has ended
    Marked(sys.argv[1]).end()
