"""A process to be killed: ``python kill_worker.py MODE NAME TABLE ZOOKEEPER FOLDER``.

``append`` appends numbered rows and notes each acknowledged commit in FOLDER/NAME.acks; ``compact``
plans and compacts in this process; ``spark`` does so in Spark tasks. All go on until FOLDER/stop.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.services.attempt import Execute, in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
CHUNKS = 2
HOUR_US = 3_600_000_000


def rows_of(commit_id: str) -> list[int]:
    """Return the row numbers that an append has, from its commit id alone."""
    name, turn = commit_id.rsplit("-", 1)
    base = (int(name.removeprefix("appender")) * 100_000 + int(turn)) * 10
    return list(range(base, base + 2 * CHUNKS))


def batch(commit_id: str) -> pa.Table:
    """Return an append's rows, spread over the chunks."""
    numbers = rows_of(commit_id)
    times = [(number % CHUNKS) * HOUR_US + number for number in numbers]
    return pa.table({"at": pa.array(times, SCHEMA.field("at").type), "row": numbers}, SCHEMA)


def append(ports: TableContext, name: str, folder: Path) -> None:
    """Append one numbered batch after another; repeat one until it is acknowledged."""
    acks = folder / f"{name}.acks"
    turn = len(acks.read_text().splitlines()) if acks.exists() else 0
    while not (folder / "stop").exists():
        commit_id = f"{name}-{turn}"
        if not tolerated(
            lambda commit_id=commit_id: Table(ports).append(  # type: ignore[misc]
                batch(commit_id), commit_id=commit_id
            )
        ):
            continue
        with acks.open("a") as file:
            file.write(f"{commit_id}\n")
        turn += 1
        time.sleep(0.2)


def maintain(ports: TableContext, folder: Path, execute: Execute) -> None:
    """Plan, and carry out whatever is pending, again and again."""
    while not (folder / "stop").exists():
        tolerated(lambda: plan_table(ports))
        tolerated(lambda: compact_pending(ports, execute))
        time.sleep(0.05)


def compact_pending(ports: TableContext, execute: Execute) -> None:
    """Carry out the pending plans."""
    pending = EventLog(ports.storage).load().pending_plans()
    compact(ports, [known.plan.id for known in pending], execute)


def tolerated(action: Callable[[], object]) -> bool:
    """Tell whether an action succeeded; typed errors are a worker's daily bread."""
    try:
        action()
    except SegtableError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        time.sleep(0.2)
        return False
    return True


def main(mode: str, name: str, uri: str, zookeeper: str, folder: Path) -> None:
    """Run one worker."""
    ports = open_context(uri, zookeeper=zookeeper, author=name)
    if mode == "append":
        append(ports, name, folder)
    elif mode == "compact":
        maintain(ports, folder, in_process(ports.files))
    else:
        from airflow_provider_segtable.spark.driver.session import session
        from airflow_provider_segtable.spark.writes.distribution import spark_execute

        spark = session("kill worker", master="local[2,4]")
        maintain(ports, folder, spark_execute(spark))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
