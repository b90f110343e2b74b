"""What the systems that are written to by Spark SQL share. Only PySpark is imported here.

A system says how its session is set up (``settings``), how a table is made, written, deleted from
and compacted, and which errors are lost races (``CONFLICTS``); everything else is the same for all.
"""

import re
from abc import ABC, abstractmethod
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, at TIMESTAMP, day DATE, number BIGINT, amount DOUBLE, kind STRING"
BUCKETS = 8
MEMORY = "2g"
COMMON = {
    "spark.driver.memory": MEMORY,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}


class SparkSystem(ABC):
    """One system, in this process's session."""

    CONFLICTS = ""
    """Matches the errors of a commit that lost a race."""

    def __init__(self, lake: Path, jars: Path, cores: int) -> None:
        found = ",".join(map(str, sorted(jars.glob("*.jar"))))
        settings = {**COMMON, "spark.jars": found, **self.settings(lake)}
        builder = SparkSession.builder.master(f"local[{cores}]").appName("peers")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.lake = lake
        self.spark = builder.getOrCreate()

    @abstractmethod
    def settings(self, lake: Path) -> dict[str, str]:
        """Return the settings of a session."""

    @abstractmethod
    def create(self, kind: str) -> None:
        """Make an empty table, ``append`` or ``keyed``."""

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Append rows to the append table."""

    @abstractmethod
    def upsert(self, rows: DataFrame) -> None:
        """Upsert rows into the keyed table; of a key the highest number wins."""

    @abstractmethod
    def compact(self, kind: str) -> dict[str, int]:
        """Compact the table; return the files that lost a race, if the system goes on without."""

    @abstractmethod
    def files(self, kind: str) -> int:
        """Return the number of files of the newest version, those of deletes if they are listed."""

    @abstractmethod
    def name(self, kind: str) -> str:
        """Return the table's name in SQL."""

    def delete(self, kind: str, where: str) -> None:
        """Delete the rows that match."""
        self.sql(f"DELETE FROM {self.name(kind)} WHERE {where}")

    def write(self, verb: str, kind: str, path: str, where: str) -> None:
        """Carry out a command of the workload."""
        match verb:
            case "append":
                self.append(self.spark.read.parquet(path))
            case "upsert":
                self.upsert(self.spark.read.parquet(path))
            case _:
                self.delete(kind, where)

    def count(self, kind: str) -> int:
        """Count the rows."""
        return int(self.one(f"SELECT count(*) FROM {self.name(kind)}"))

    def column(self, kind: str) -> float:
        """Read one column."""
        return float(self.one(f"SELECT sum(amount) FROM {self.name(kind)}"))

    def export(self, kind: str, into: str) -> None:
        """Write ids and numbers of all rows as Parquet."""
        found = self.spark.sql(f"SELECT id, number FROM {self.name(kind)}")
        found.write.mode("overwrite").parquet(into)

    def conflict(self, error: Exception) -> bool:
        """Return whether an error, or what caused it, is a lost race."""
        texts, cause = [str(error)], getattr(error, "_origin", None)
        while cause is not None:
            texts.append(cause.toString())
            cause = cause.getCause()
        return any(re.search(self.CONFLICTS, text) for text in texts)

    def sql(self, text: str) -> list:
        """Run a statement; return its rows."""
        return self.spark.sql(text).collect()

    def one(self, text: str) -> object:
        """Return the only value of a query."""
        return self.sql(text)[0][0]
