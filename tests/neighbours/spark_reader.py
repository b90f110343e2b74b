"""Spark with Iceberg's and Delta Lake's own runtimes, as a reader of published tables."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from tests.neighbours.prepare import JARS, PYTHON
from tests.property.published_readers import metadata, newest_iceberg
from tests.property.published_values import plain

PROGRAM = Path(__file__).with_name("spark_program.py")
_NUMBERS = count()


class Refused(Exception):
    """Spark answered with an error."""


@dataclass(frozen=True)
class SparkReader:
    """A session in a process of its own; ``folder`` has its files, and the catalog ``lake``."""

    process: subprocess.Popen[str]
    folder: Path

    @classmethod
    def start(cls, folder: Path) -> "SparkReader":
        """Start the session."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
        process = subprocess.Popen(
            [str(PYTHON), str(PROGRAM), str(JARS), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**kept, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder,
        )
        return cls(process, folder)

    def stop(self) -> None:
        """End the session, and wait for it."""
        self.process.communicate()

    def ask(self, **asked: Any) -> pa.Table:
        """Return the rows that a request asks for.

        Raises:
            Refused: Spark has an error instead.
        """
        into = self.folder / f"answer-{next(_NUMBERS)}.arrow"
        _put(self.process.stdin, json.dumps({**asked, "into": str(into)}))
        answer = _answer(self.process.stdout)
        if "error" in answer:
            raise Refused(answer["error"])
        with pa.memory_map(str(into)) as file:
            return pa.ipc.open_file(file).read_all()

    def delta(self, root: Path, number: int | None = None, sql: str = "SELECT * FROM t") -> Any:
        """Read a version of a Delta table, or its newest one."""
        options = {} if number is None else {"versionAsOf": str(number)}
        return self.ask(format="delta", path=str(root), options=options, sql=sql)

    def iceberg(self, root: Path, number: int | None = None, sql: str = "SELECT * FROM t") -> Any:
        """Read the metadata of a version of an Iceberg table, or its newest version."""
        path = str(root / "_iceberg") if number is None else metadata(root, number)
        return self.ask(format="iceberg", path=path, sql=sql)

    def delta_rows(self, root: Path, number: int) -> pa.Table:
        """Read a version of a Delta table."""
        return self.delta(root, number)

    def iceberg_rows(self, root: Path, number: int) -> pa.Table:
        """Read a version of an Iceberg table."""
        if number == newest_iceberg(root):
            return self.iceberg(root)
        return self.iceberg(root, number)

    def delta_filter(self, root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
        """Filter, and let Spark compare all rows, which it may not skip."""
        return self._filtered({"format": "delta", "path": str(root)}, column, how, value)

    def iceberg_filter(self, root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
        """Filter, and let Spark compare all rows, which it may not skip."""
        asked = {"format": "iceberg", "path": str(root / "_iceberg")}
        return self._filtered(asked, column, how, value)

    def _filtered(
        self, asked: Mapping[str, str], column: str, how: str, value: Any
    ) -> tuple[int, int]:
        """Count matching rows by a filter, and by a sum that skips no file."""
        test = f"`{column}` {how} {literal(value)}"
        found = self.ask(**asked, sql=f"SELECT count(*) n FROM t WHERE {test}")  # noqa: S608
        right = self.ask(**asked, sql=f"SELECT int(sum(int({test}))) n FROM t")  # noqa: S608
        return found["n"][0].as_py(), right["n"][0].as_py() or 0


def literal(value: Any) -> str:
    """Return a value as a literal of Spark's SQL."""
    text = str(plain(value))
    match type(value).__name__:
        case "bool" | "int":
            return text
        case "float":
            return f"double('{value!r}')"
        case "Decimal":
            return f"{value:f}BD"
        case "date":
            return f"DATE '{text}'"
        case "datetime" | "Timestamp":
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{text}'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
    raise AssertionError("Spark has ended without an answer")
