"""Delta Lake: deletion vectors, ``MERGE``, ``OPTIMIZE``.

The open-source release has no row-level concurrency: an ``OPTIMIZE`` that finds a file changed by
another commit is refused as a whole, and the documentation says to run it again.
"""

from pathlib import Path

from pyspark.sql import DataFrame

from peer_systems.spark_system import COLUMNS, SparkSystem


class System(SparkSystem):
    """Tables by their paths; no catalog is needed."""

    CONFLICTS = "(?i)DELTA_(CONCURRENT|METADATA_CHANGED)|Concurrent\\w*Exception"

    def settings(self, lake: Path) -> dict[str, str]:
        """Return those of the quick start."""
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": f"{lake}/warehouse",
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def name(self, kind: str) -> str:
        """Return the path as a name."""
        return f"delta.`{self.lake}/{kind}`"

    def create(self, kind: str) -> None:
        """Deletion vectors are on; events are partitioned by day."""
        partitions = "PARTITIONED BY (day)" if kind == "append" else ""
        self.sql(
            f"CREATE TABLE {self.name(kind)} ({COLUMNS}) USING delta {partitions} "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )

    def append(self, rows: DataFrame) -> None:
        """Append."""
        rows.write.format("delta").mode("append").save(f"{self.lake}/append")

    def upsert(self, rows: DataFrame) -> None:
        """Merge by the key."""
        rows.createOrReplaceTempView("s")
        self.sql(
            f"MERGE INTO {self.name('keyed')} t USING s ON t.id = s.id "
            "WHEN MATCHED AND s.number > t.number THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def compact(self, kind: str) -> dict[str, int]:
        """Join small files."""
        self.sql(f"OPTIMIZE {self.name(kind)}")
        return {}

    def files(self, kind: str) -> int:
        """Count data files."""
        return int(self.sql(f"DESCRIBE DETAIL {self.name(kind)}")[0]["numFiles"])
