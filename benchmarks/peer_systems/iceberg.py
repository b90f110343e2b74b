"""Apache Iceberg: merge-on-read with deletion vectors (format version 3), ``rewrite_data_files``.

Partial progress commits each group of files by itself, so a lost race costs a group.
"""

from pathlib import Path

from pyspark.sql import DataFrame

from peer_systems.spark_system import BUCKETS, COLUMNS, SparkSystem


class System(SparkSystem):
    """Tables of a JDBC catalog, which is a SQLite file: commits are compare-and-swap there."""

    CONFLICTS = "ValidationException|CommitFailedException|(?i)conflicting|SQLITE_BUSY"

    def settings(self, lake: Path) -> dict[str, str]:
        """Return those of the quick start; the catalog always looks for the newest version."""
        lake.mkdir(exist_ok=True)
        catalog = "spark.sql.catalog.lake"
        return {
            "spark.sql.extensions": (
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            ),
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{lake}/catalog.db?busy_timeout=30000",
            f"{catalog}.warehouse": f"{lake}/warehouse",
            f"{catalog}.cache-enabled": "false",
        }

    def name(self, kind: str) -> str:
        """Return the name in the catalog."""
        return f"lake.db.{kind}"

    def create(self, kind: str) -> None:
        """Events are partitioned by day, keyed rows by a bucket of the key."""
        partitions = "day" if kind == "append" else f"bucket({BUCKETS}, id)"
        modes = ", ".join(f"'write.{v}.mode'='merge-on-read'" for v in ("delete", "merge"))
        self.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        self.sql(
            f"CREATE TABLE {self.name(kind)} ({COLUMNS}) USING iceberg "
            f"PARTITIONED BY ({partitions}) TBLPROPERTIES ('format-version'='3', {modes})"
        )

    def append(self, rows: DataFrame) -> None:
        """Append."""
        rows.writeTo(self.name("append")).append()

    def upsert(self, rows: DataFrame) -> None:
        """Merge by the key."""
        rows.createOrReplaceTempView("s")
        self.sql(
            f"MERGE INTO {self.name('keyed')} t USING s ON t.id = s.id "
            "WHEN MATCHED AND s.number > t.number THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def compact(self, kind: str) -> dict[str, int]:
        """Join small files, and apply deletes; groups that lost a race are left."""
        row = self.sql(
            f"CALL lake.system.rewrite_data_files(table => 'db.{kind}', options => map("
            "'partial-progress.enabled', 'true', 'delete-file-threshold', '1'))"
        )[0].asDict()
        return {"done": row["rewritten_data_files_count"], "lost": row["failed_data_files_count"]}

    def files(self, kind: str) -> int:
        """Count data files and delete files."""
        return int(self.one(f"SELECT count(*) FROM {self.name(kind)}.files"))
