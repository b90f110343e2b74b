"""segtable: appends and upserts by Spark's data source, or by Python alone; compaction in Python.

Small tables are compacted in the process that is asked, with Spark or without.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import CommitConflict

BUCKETS = 8
KINDS = {"append": "minor", "keyed": "semi-major"}


class System:
    """Tables by their paths; ZooKeeper has the locks of appends and compactions."""

    def __init__(self, lake: Path, zookeeper: str) -> None:
        lake.mkdir(exist_ok=True)
        self.lake = lake
        self.zookeeper = zookeeper
        self.tables: dict[str, Table] = {}

    def create(self, kind: str) -> None:
        """Make a table, by the day or with a key."""
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
                ("day", pa.date32()),
                ("number", pa.int64()),
                ("amount", pa.float64()),
                ("kind", pa.string()),
            ]
        )
        keyed = {"primary_key": "id", "ordering": "number", "buckets": BUCKETS}
        Table.create(
            str(self.lake / kind),
            schema=schema,
            time_column="at",
            granularity="all" if kind == "keyed" else "day",
            **(keyed if kind == "keyed" else {}),
        )

    def write(self, verb: str, kind: str, path: str, where: str) -> None:
        """Carry out a command of the workload."""
        match verb:
            case "append":
                self.append(kind, path)
            case "upsert":
                self.upsert(kind, path)
            case _:
                self.table(kind).delete(where)

    def append(self, kind: str, path: str) -> None:
        """Append a file's rows."""
        self.table(kind).append(pq.read_table(path))

    def upsert(self, kind: str, path: str) -> None:
        """Upsert a file's rows."""
        self.table(kind).upsert(pq.read_table(path))

    def compact(self, kind: str) -> dict[str, int]:
        """Join small files; or merge the logs of each bucket with its base file."""
        self.table(kind).compact(KINDS[kind])
        return {}

    def files(self, kind: str) -> int:
        """Count the visible segments."""
        return len(self.table(kind).snapshot().segments())

    def count(self, kind: str) -> int:
        """Count the rows."""
        return self.table(kind).scan().count()

    def column(self, kind: str) -> float:
        """Read one column."""
        found = self.table(kind).scan(columns=["amount"]).to_arrow()
        return sum(chunk.to_numpy().sum() for chunk in found["amount"].chunks)

    def export(self, kind: str, into: str) -> None:
        """Write ids and numbers of all rows as Parquet."""
        found = self.table(kind).scan(columns=["id", "number"]).to_arrow()
        Path(into).mkdir(parents=True, exist_ok=True)
        pq.write_table(found, f"{into}/rows.parquet")

    def conflict(self, error: Exception) -> bool:
        """Return whether an error is a lost race."""
        return isinstance(error, CommitConflict)

    def table(self, kind: str) -> Table:
        """Return the table."""
        if kind not in self.tables:
            self.tables[kind] = Table.open(str(self.lake / kind), zookeeper=self.zookeeper)
        return self.tables[kind]


class SparkWriter(System):
    """The same; rows are written, counted and read by Spark's data source."""

    def __init__(self, lake: Path, zookeeper: str, cores: int) -> None:
        from airflow_provider_segtable.spark.driver.session import session
        from airflow_provider_segtable.spark.source.registration import register
        from peer_systems.spark_system import COMMON

        super().__init__(lake, zookeeper)
        self.spark = session("peers", f"local[{cores}]", COMMON)
        register(self.spark)

    def append(self, kind: str, path: str) -> None:
        """Append a file's rows."""
        rows = self.spark.read.parquet(path)
        writer = rows.write.format("segtable").option("zookeeper", self.zookeeper)
        writer.mode("append").save(str(self.lake / kind))

    upsert = append

    def count(self, kind: str) -> int:
        """Count the rows."""
        return self._read(kind).count()

    def column(self, kind: str) -> float:
        """Read one column."""
        return float(self._read(kind).agg({"amount": "sum"}).first()[0])

    def _read(self, kind: str) -> "object":
        return self.spark.read.format("segtable").load(str(self.lake / kind))
