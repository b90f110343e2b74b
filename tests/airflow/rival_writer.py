"""A process beside others: ``python rival_writer.py TABLE ZOOKEEPER FIRST_DAY DAYS``.

It appends and compacts until its standard input is closed. Each append has a row of each of the
days; its event and its rows are a line of JSON on standard output.
"""

import json
import random
import select
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from airflow_provider_segtable.library.table import Table

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("source", pa.string()),
        pa.field("n", pa.int64()),
    ]
)
PAUSE_S = 0.3
APPENDS_PER_COMPACTION = 4


def main(uri: str, zookeeper: str, first: str, days: int) -> None:
    """Append and compact until nobody listens."""
    table, chance = Table.open(uri, zookeeper=zookeeper), random.Random(uri)
    begin, turn = datetime.fromisoformat(first).replace(tzinfo=UTC), 0
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        turn += 1
        minutes = [day * 1440 + chance.randrange(1440) for day in range(days)]
        rows = [(begin + timedelta(minutes=each), "rival", turn) for each in minutes]
        columns = [list(column) for column in zip(*rows, strict=True)]
        n = table.append(pa.table(columns, schema=SCHEMA)).n
        told = json.dumps([n, [(str(at), source, i) for at, source, i in rows]])
        sys.stdout.write(f"{told}\n")
        if turn % APPENDS_PER_COMPACTION == 0:
            table.compact()
    sys.stdout.flush()
    table.ports.coordinator.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
