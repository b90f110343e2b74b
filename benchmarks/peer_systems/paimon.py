"""Apache Paimon: write-only append and primary-key tables, compacted by ``sys.compact``."""

from pathlib import Path

from pyspark.sql import DataFrame

from peer_systems.spark_system import BUCKETS, COLUMNS, SparkSystem


class System(SparkSystem):
    """Tables of a file-system catalog.

    A commit renames a file if there is none of that name; on a local disk that is no single step
    for two processes. A lost commit would show in the rows.
    """

    CONFLICTS = "(?i)conflict"

    def settings(self, lake: Path) -> dict[str, str]:
        """Return those of the quick start."""
        catalog = "spark.sql.catalog.paimon"
        return {
            catalog: "org.apache.paimon.spark.SparkCatalog",
            f"{catalog}.warehouse": f"file:{lake}/warehouse",
            "spark.sql.extensions": (
                "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
            ),
        }

    def name(self, kind: str) -> str:
        """Return the name in the catalog."""
        return f"paimon.db.{kind}"

    def create(self, kind: str) -> None:
        """Events are partitioned by day and have deletion vectors; keys are in buckets."""
        options = {"write-only": "true"}
        partitions = "PARTITIONED BY (day)" if kind == "append" else ""
        if kind == "append":
            options |= {"bucket": "-1", "deletion-vectors.enabled": "true"}
        else:
            options |= {"primary-key": "id", "bucket": str(BUCKETS), "sequence.field": "number"}
        given = ", ".join(f"'{name}'='{value}'" for name, value in options.items())
        self.sql("CREATE DATABASE IF NOT EXISTS paimon.db")
        self.sql(f"CREATE TABLE {self.name(kind)} ({COLUMNS}) {partitions} TBLPROPERTIES ({given})")

    def append(self, rows: DataFrame) -> None:
        """Append."""
        rows.writeTo(self.name("append")).append()

    def upsert(self, rows: DataFrame) -> None:
        """Insert, which is an upsert there."""
        rows.createOrReplaceTempView("s")
        self.sql(f"INSERT INTO {self.name('keyed')} SELECT * FROM s")

    def compact(self, kind: str) -> dict[str, int]:
        """Compact all partitions or buckets."""
        self.sql(f"CALL paimon.sys.compact(table => 'db.{kind}')")
        return {}

    def files(self, kind: str) -> int:
        """Count the files of the newest snapshot."""
        return int(self.one(f"SELECT count(*) FROM paimon.db.`{kind}$files`"))
