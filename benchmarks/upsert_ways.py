"""What ``upsert_compaction.py`` measures: a base file and log files, and the ways to merge them.

1. The files are those of a table of one bucket: a base file, and logs of upserts. Four fifths of
   the logs' keys are in the base, the others are new or shared among logs; 2 % of a log's rows are
   deletes. The newest record of a key wins, by event time.
2. Every way reads the same Parquet files and writes one of zstd level 1 without deleted keys.
   deltalake has the base as a table and merges the logs, reduced to the newest record by Polars.
3. segtable runs the job of a base compaction: it also compares and writes checksums, and syncs the
   file. Its files have two hidden columns; all ways read the files that have them.
"""

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.keyed.merge_job import MergeJob
from airflow_provider_segtable.data.keyed.merging import ALWAYS
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.upsert import merge_rules

LOGS = 8
START = 1_767_225_600_000_000
ZSTD = {"compression": "zstd", "compression_level": "1"}


@dataclass(frozen=True, slots=True)
class Data:
    """The files, and what a result must have: its rows, and the sum of ``user`` in them."""

    table: Path
    base: Path
    logs: tuple[Path, ...]
    rows: int
    users: int

    @property
    def files(self) -> list[str]:
        """Return all files; the base is the first."""
        return [str(path) for path in (self.base, *self.logs)]


def records(keys: np.ndarray, chance: np.random.Generator, since: int, *, text: bool) -> pa.Table:
    """Make records of eight columns; all times differ."""
    count = len(keys)
    urls = pa.array([f"https://shop.example/p/{n:05d}?from=mail" for n in range(3000)])
    kinds = pa.array(["view", "click", "scroll", "add", "remove", "buy", "search", "login"])
    times = since + chance.permutation(count) * 1_000 + chance.integers(0, 1_000, count)
    return pa.table(
        {
            "id": pa.array([f"customer-{key:012d}" for key in keys.tolist()] if text else keys),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "user": chance.integers(0, 5_000_000, count),
            "kind": kinds.take(pa.array(chance.integers(0, 8, count))),
            "url": urls.take(pa.array(chance.integers(0, 3000, count))),
            "duration": chance.exponential(30.0, count),
            "score": chance.normal(size=count),
            "amount": pa.array(chance.integers(0, 1000, count), mask=chance.random(count) < 0.5),
        }
    )


def generate(root: Path, base: int, log: int, *, text: bool) -> Data:
    """Write the files, or find them where an earlier run has left them."""
    known = root / "data.pickle"
    if not known.exists():
        root.mkdir(parents=True, exist_ok=True)
        chance = np.random.default_rng(11)
        given = [records(np.arange(base) * 2, chance, START, text=text)]
        deleted = [np.zeros(base, bool)]
        for number in range(1, LOGS + 1):
            keys = chance.choice(base * 11 // 5, log, replace=False)
            keys = np.where(chance.random(log) < 0.8, keys // 2 * 2 % (base * 2), keys)
            since = START + base * 500 + number  # half of the base is newer than a log's first row
            given.append(records(keys, chance, since, text=text))
            deleted.append(chance.random(log) < 0.02)
        table = _table(root / "table", given, deleted)
        paths = [root / "table" / segment.path for segment in table.snapshot().segments()]
        rows, users = _expected(paths)
        known.write_bytes(
            pickle.dumps(Data(root / "table", paths[0], tuple(paths[1:]), rows, users))
        )
    found: Data = pickle.loads(known.read_bytes())  # noqa: S301  # written above
    return found


def _table(place: Path, given: list[pa.Table], deleted: list[np.ndarray]) -> Table:
    """Make a table of a base file and log files."""
    table = Table.create(
        str(place),
        schema=given[0].schema,
        time_column="at",
        granularity="all",
        primary_key="id",
        buckets=1,
        ordering="at",
        zookeeper="memory://upsert",
    )
    for rows, flags in zip(given, deleted, strict=True):
        table.upsert(rows.append_column("gone", pa.array(flags)), deleted="gone")
        if rows is given[0]:
            table.compact("semi-major")
    return table


def _expected(paths: list[Path]) -> tuple[int, int]:
    import polars as pl

    frame = pl.read_parquet(paths).sort("at").unique("id", keep="last", maintain_order=True)
    left = frame.filter(pl.col(OP) != DELETE)
    return left.height, int(left["user"].sum())


Run = Callable[[Data, Path], Path]
"""Merges into a file, or a folder of files, below a path, and returns it."""


def segtable() -> Run:
    """Return the job of a base compaction, in this process."""

    def run(data: Data, out: Path) -> Path:
        table = Table.open(str(data.table))
        state = table.state()
        inputs = tuple(table.snapshot().segments())
        job = MergeJob(
            uri=str(data.table),
            storage_options={},
            inputs=inputs,
            outputs=((inputs[0].id, inputs[0].shard),),
            created=0,
            definition=encode_definition(state.table, state.base_version),
            rules=merge_rules(state, str(data.table)),
            clustering="id",
            drop_before=ALWAYS,
        )
        (made,) = job.run()
        return (data.table / made.path).rename(out)

    return run


def spark() -> Run:
    """Return Spark's window over all rows, on a warm session of two slots."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    from airflow_provider_segtable.spark.driver.session import session

    made = session("segtable-benchmark", "local[2]", {"spark.driver.memory": "4g"})
    newest = Window.partitionBy("id").orderBy(sf.col("at").desc())

    def run(data: Data, out: Path) -> Path:
        frame = made.read.parquet(*data.files)
        ranked = frame.withColumn("rank", sf.row_number().over(newest))
        left = ranked.where((sf.col("rank") == 1) & (sf.col(OP) != DELETE)).drop("rank")
        left.write.options(compression="zstd").parquet(str(out))
        return out

    return run


def duck() -> Run:
    """Return DuckDB: the newest record of the logs, then the base without their older rows."""
    import duckdb

    query = f"""
        COPY (
            WITH reduced AS (
                SELECT * FROM read_parquet({{logs}})
                QUALIFY row_number() OVER (PARTITION BY id ORDER BY "at" DESC) = 1
            ), winners AS (
                SELECT b.* FROM read_parquet({{base}}) b LEFT JOIN reduced r USING (id)
                WHERE r.id IS NULL OR r."at" < b."at"
                UNION ALL BY NAME
                SELECT r.* FROM reduced r LEFT JOIN read_parquet({{base}}) b USING (id)
                WHERE b.id IS NULL OR b."at" < r."at"
            )
            SELECT * FROM winners WHERE {OP} <> {DELETE}
        ) TO '{{out}}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)
    """  # noqa: S608  # our own paths

    def run(data: Data, out: Path) -> Path:
        base, *logs = data.files
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2")
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(query.format(base=[base], logs=logs, out=out))
        return out

    return run


def polars() -> Run:
    """Return Polars: the newest record of the logs, then the base without their older rows."""
    import polars as pl

    def run(data: Data, out: Path) -> Path:
        base, *logs = (pl.scan_parquet(path) for path in data.files)
        reduced = pl.concat(logs).sort("at").unique("id", keep="last").collect().lazy()
        keys = reduced.select("id", newer="at")
        stay = base.join(keys, on="id", how="left", maintain_order="left")
        stay = stay.filter(pl.col("newer").is_null() | (pl.col("newer") < pl.col("at")))
        older = base.select("id", known="at")
        come = reduced.join(older, on="id", how="left")
        come = come.filter(pl.col("known").is_null() | (pl.col("known") < pl.col("at")))
        winners = pl.concat([stay.drop("newer"), come.drop("known")])
        left = winners.filter(pl.col(OP) != DELETE).collect()
        left.write_parquet(out, compression="zstd", compression_level=1)
        return out

    return run


def delta() -> Run:
    """Return deltalake's merge of the reduced logs into a table of the base; it is not sorted."""
    import polars as pl
    from deltalake import DeltaTable, WriterProperties

    def run(data: Data, out: Path) -> Path:
        logs = pl.concat([pl.read_parquet(path) for path in data.logs])
        reduced = logs.sort("at").unique("id", keep="last")
        newer = "source.at > target.at"
        merge = DeltaTable(str(out)).merge(
            reduced,
            "source.id = target.id",
            source_alias="source",
            target_alias="target",
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )
        merge = merge.when_matched_delete(f"{newer} AND source.{OP} = {DELETE}")
        merge = merge.when_matched_update_all(newer)
        merge.when_not_matched_insert_all(f"source.{OP} <> {DELETE}").execute()
        return out

    return run


WAYS = {
    "segtable": segtable,
    "DuckDB": duck,
    "Polars": polars,
    "deltalake merge": delta,
    "Spark window": spark,
}
