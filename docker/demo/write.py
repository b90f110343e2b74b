"""Write for as long as it runs: clicks through the log store, and upserts of accounts.

    python write.py [SECONDS]

Each line says how much was written. After an error that passes it writes on; rows that a call did
not acknowledge are written again under other numbers, so `number` grows and is never used twice.
"""

import sys
import time
from datetime import UTC, datetime
from itertools import count
from random import Random

import pyarrow as pa
import tables

from airflow_provider_segtable import SegtableError, Table
from airflow_provider_segtable.library.log_writer import TableLogWriter

CLICKS_A_SECOND, ACCOUNTS, UPSERTS_EVERY_S = 20, 1000, 5
PAGES = ("/", "/help", "/price", "/cart")
LUCK = Random()


def main(seconds: float) -> None:
    """Write until the time is over."""
    end_s = time.monotonic() + seconds
    clicks, accounts = tables.opened(tables.CLICKS), tables.opened(tables.ACCOUNTS)
    numbers = count(int(time.time() * 1000) * 1000)
    while time.monotonic() < end_s:
        try:
            with clicks.log_writer(buckets=[0]) as log:  # bucket 1 is free for another writer
                write(log, accounts, numbers, end_s)
        except SegtableError as error:
            print(f"again in a second: {type(error).__name__}: {error}", flush=True)
            time.sleep(1)


def write(log: TableLogWriter, accounts: Table, numbers: "count[int]", end_s: float) -> None:
    """Append clicks every second, and upsert accounts now and then."""
    written, upserted_s = 0, 0.0
    while time.monotonic() < end_s:
        log.append(clicks(numbers))
        written += CLICKS_A_SECOND
        if time.monotonic() - upserted_s > UPSERTS_EVERY_S:
            upserted_s = time.monotonic()
            done = accounts.upsert(upserts(), deleted="gone")
            print(f"{written} clicks; accounts: version {done.n}", flush=True)
        time.sleep(1)


def clicks(numbers: "count[int]") -> pa.Table:
    """Return a second's clicks."""
    now = datetime.now(UTC)
    return pa.table(
        {
            "at": [now] * CLICKS_A_SECOND,
            "number": [next(numbers) for _ in range(CLICKS_A_SECOND)],
            "page": LUCK.choices(PAGES, k=CLICKS_A_SECOND),
        },
        schema=tables.SCHEMAS[tables.CLICKS],
    )


def upserts() -> pa.Table:
    """Return changes of a fifth of the accounts; one in twenty is closed."""
    keys = LUCK.sample(range(ACCOUNTS), ACCOUNTS // 5)
    now = datetime.now(UTC)
    changed = int(now.timestamp() * 1e6)
    return pa.table(
        {
            "at": pa.array([now] * len(keys), tables.AT.type),
            "id": keys,
            "changed": [changed] * len(keys),
            "balance": [LUCK.randrange(10_000) for _ in keys],
            "gone": [LUCK.random() < 0.05 for _ in keys],
        }
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else float("inf"))
