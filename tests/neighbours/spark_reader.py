"""Spark with Iceberg's and Delta Lake's own runtimes, as a reader of published tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.neighbours.prepare import JARS
from tests.neighbours.session import Session
from tests.property.published_readers import metadata, newest_iceberg
from tests.property.published_values import plain


@dataclass(frozen=True)
class SparkReader:
    """A session of Spark; its folder is the warehouse of the catalog ``lake``."""

    session: Session

    @classmethod
    def start(cls, folder: Path) -> "SparkReader":
        """Start the session."""
        return cls(Session.start("spark_program", folder, str(JARS), str(folder)))

    @property
    def folder(self) -> Path:
        """Return the folder."""
        return self.session.folder

    def ask(self, **asked: Any) -> pa.Table:
        """Return the rows that a request asks for, or raise ``Refused``."""
        return self.session.ask(**asked)

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
