"""Apache Hudi: merge-on-read tables.

*append*: small files by bulk inserts, then clustering, under optimistic concurrency control: Hudi
has no other that goes with clustering. *keyed*: a bucket index with non-blocking concurrency
control, compaction by its procedure. Both take locks of a file, as writers are two processes.
"""

from pathlib import Path

from pyspark.sql import DataFrame

from peer_systems.spark_system import BUCKETS, COLUMNS, SparkSystem

LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
SHARED = {
    "hoodie.write.lock.provider": LOCK,
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline": "false",
}
OPTIONS = {
    "append": {
        **SHARED,
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.bulkinsert.sort.mode": "NONE",
        "hoodie.clustering.plan.strategy.small.file.limit": str(300 << 20),
        "hoodie.clustering.plan.strategy.max.num.groups": "100",
    },
    "keyed": {
        **SHARED,
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "number",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
    },
}


class System(SparkSystem):
    """Tables by their paths, with a name in each session for SQL."""

    CONFLICTS = (
        "HoodieWriteConflict|HoodieClusteringUpdate|[Cc]onflict|Not allowed to update the cluster"
    )

    def settings(self, lake: Path) -> dict[str, str]:
        """Return those of the quick start."""
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.warehouse.dir": f"{lake}/warehouse",
        }

    def name(self, kind: str) -> str:
        """Return the name of this session for the table."""
        if not self.spark.catalog.tableExists(kind):
            self.sql(f"CREATE TABLE {kind} USING hudi LOCATION '{self.lake}/{kind}'")
        self.sql(f"REFRESH TABLE {kind}")
        return kind

    def create(self, kind: str) -> None:
        """Make the table, with its settings."""
        keys = "" if kind == "append" else "primaryKey = 'id', preCombineField = 'number', "
        partitions = "PARTITIONED BY (day)" if kind == "append" else ""
        self.sql(
            f"CREATE TABLE {kind} ({COLUMNS}) USING hudi {partitions} "
            f"TBLPROPERTIES ({keys} type = 'mor') LOCATION '{self.lake}/{kind}'"
        )

    def append(self, rows: DataFrame) -> None:
        """Write files by bulk insert."""
        self._write("append", rows)

    def upsert(self, rows: DataFrame) -> None:
        """Write logs into buckets."""
        self._write("keyed", rows)

    def _write(self, kind: str, rows: DataFrame) -> None:
        options = {**OPTIONS[kind], "hoodie.table.name": kind}
        rows.write.format("hudi").options(**options).mode("append").save(f"{self.lake}/{kind}")

    def delete(self, kind: str, where: str) -> None:
        """Delete by SQL, with the same settings."""
        self._set(kind)
        super().delete(kind, where)

    def compact(self, kind: str) -> dict[str, int]:
        """Cluster or compact: plan and carry out."""
        what = "run_clustering" if kind == "append" else "run_compaction"
        options = ",".join(f"{name}={value}" for name, value in OPTIONS[kind].items())
        plan = f"op => 'scheduleAndExecute', path => '{self.lake}/{kind}'"
        self.sql(f"CALL {what}({plan}, options => '{options}')")
        return {}

    def files(self, kind: str) -> int:
        """Count base files and logs of the newest file slices."""
        self.name(kind)
        found = self.sql(f"CALL show_fsview_latest(table => '{kind}', limit => 100000)")
        return sum((row["data_file_size"] > 0) + row["num_delta_files"] for row in found)

    def _set(self, kind: str) -> None:
        for name in {name for options in OPTIONS.values() for name in options}:
            self.spark.conf.unset(name)
        for name, value in OPTIONS[kind].items():
            if name != "hoodie.datasource.write.operation":
                self.spark.conf.set(name, value)
