"""Apache Iceberg: merge-on-read with deletion vectors (format version 3), ``rewrite_data_files``.

Partial progress commits each group of files by itself, so a lost race costs a group.
"""

from pathlib import Path

from pyspark.sql import DataFrame

from peer_systems.spark_system import BUCKETS, COLUMNS, SparkSystem


class System(SparkSystem):
    """Tables of a JDBC catalog, which is a SQLite file: commits are compare-and-swap there."""

    CONFLICTS = "ValidationException|CommitFailedException|[Cc]onflicting|SQLITE_BUSY"

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
        """Join small files, and apply deletes; groups whose commit lost a race are left.

        The procedure does not count those: they are the files that it had to rewrite, and did not.
        """
        wanted = self._paths(kind, "n >= 5")
        row = self.sql(
            f"CALL lake.system.rewrite_data_files(table => 'db.{kind}', options => map("
            "'partial-progress.enabled', 'true', 'delete-file-threshold', '1'))"
        )[0].asDict()
        left = wanted & self._paths(kind, "n > 0")
        return {"done": row["rewritten_data_files_count"], "lost": len(left)}

    def _paths(self, kind: str, where: str) -> set[str]:
        """Return data files; ``n`` is how many their partition has, of which 5 are rewritten."""
        counted = "count(*) OVER (PARTITION BY partition) n"
        files = f"SELECT file_path, {counted} FROM {self.name(kind)}.data_files"
        return {row[0] for row in self.sql(f"SELECT file_path FROM ({files}) WHERE {where}")}

    def files(self, kind: str) -> int:
        """Count data files and delete files."""
        return int(self.one(f"SELECT count(*) FROM {self.name(kind)}.files"))
