"""A process of a system, as seen by the measuring process."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

PROGRAM = Path(__file__).with_name("program.py")


class Failed(Exception):
    """A system answered with an error that is no lost race."""


@dataclass(frozen=True, slots=True)
class Session:
    """One process, with the JVM that it starts."""

    process: subprocess.Popen[str]
    requests: IO[str]
    answers: IO[str]

    @classmethod
    def start(cls, python: Path, arguments: list[str], log: Path) -> "Session":
        """Start it; ``ready`` waits until it is up."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
        process = subprocess.Popen(
            [str(python), str(PROGRAM), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)},
            cwd=log.parent,
        )
        if process.stdin is None or process.stdout is None:
            raise Failed("the process has no pipes")
        return cls(process, process.stdin, process.stdout)

    def ready(self) -> None:
        """Wait until it takes requests."""
        self._answer()

    def stop(self) -> None:
        """End it, and wait."""
        self.process.communicate()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Return a result.

        Raises:
            Failed: there is none.
        """
        answer = self.attempt(do, **arguments)
        if "error" in answer:
            raise Failed(f"{do} {arguments}: {answer['error']}")
        return answer["result"]

    def seconds(self, do: str, **arguments: Any) -> float:
        """Return how long a request took."""
        answer = self.attempt(do, **arguments)
        if "error" in answer:
            raise Failed(f"{do} {arguments}: {answer['error']}")
        return float(answer["seconds"])

    def attempt(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return an answer, which may be an error."""
        self.requests.write(json.dumps({"do": do, **arguments}) + "\n")
        self.requests.flush()
        return self._answer()

    def bytes_written(self) -> int:
        """Return the bytes that the process and its children have written so far."""
        found = psutil.Process(self.process.pid)
        every = [found, *found.children(recursive=True)]
        return sum(each.io_counters().write_chars for each in every)

    def _answer(self) -> dict[str, Any]:
        for line in self.answers:
            if line.startswith("ANSWER "):
                made: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return made
        raise Failed("the process has ended without an answer: see its log")
