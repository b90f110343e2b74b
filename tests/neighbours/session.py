"""A session of an engine: a process in the environment that ``prepare.py`` made."""

import json
import os
import subprocess
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from tests.neighbours.prepare import PYTHON

_ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = count()


class Refused(Exception):
    """The engine answered with an error."""


@dataclass(frozen=True)
class Session:
    """The process of a program that answers requests (``answers.py``); ``folder`` has its files."""

    process: subprocess.Popen[str]
    folder: Path

    @classmethod
    def start(cls, program: str, folder: Path, *arguments: str) -> "Session":
        """Start a program of this package."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
        process = subprocess.Popen(
            [str(PYTHON), "-m", f"tests.neighbours.{program}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(_ROOT)},
            cwd=folder,
        )
        return cls(process, folder)

    def stop(self) -> None:
        """End the process, and wait for it."""
        self.process.communicate()

    def ask(self, **asked: Any) -> pa.Table:
        """Return the rows that a request asks for.

        Raises:
            Refused: the engine has an error instead.
        """
        into = self.folder / f"answer-{next(_NUMBERS)}.arrow"
        _put(self.process.stdin, json.dumps({**asked, "into": str(into)}))
        answer = _answer(self.process.stdout)
        if "error" in answer:
            raise Refused(answer["error"])
        with pa.memory_map(str(into)) as file:
            return pa.ipc.open_file(file).read_all()


def _put(pipe: IO[str] | None, line: str) -> None:
    assert pipe
    pipe.write(line + "\n")
    pipe.flush()


def _answer(pipe: IO[str] | None) -> dict[str, Any]:
    assert pipe
    for line in pipe:
        if line.startswith("ANSWER "):
            made: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
            return made
    raise AssertionError("the engine has ended without an answer")
