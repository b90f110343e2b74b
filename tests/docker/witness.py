"""Write by three ways until SIGTERM, and then compare the tables with what calls acknowledged.

It runs in a container of the service image, beside everything that `play.py` does to the others:

1. appends with commit ids, each repeated until it returns;
2. upserts and deletes of few keys, each repeated until it returns;
3. rows through the log store. What a writer, or its error, names as lost or not committed was not
   acknowledged for good.

The last line that it prints is `sound: ...`, or `WRONG: ...` with exit code 1.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

import pyarrow as pa

from airflow_provider_segtable import SegtableError, Table
from airflow_provider_segtable.core.errors import TableExists

AT = datetime(2026, 5, 4, tzinfo=UTC)
ROWS = 10
KEYS = 50
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("turn", pa.int64())])
NAME = os.environ.get("DEMO_WITNESS", "witness")
"""Of this run: its tables are its own."""
LAKE = os.environ.get("DEMO_ROOT", "/lake")
OPTIONS_FILE = os.environ.get("SEGTABLE_STORAGE_OPTIONS_FILE")
OPTIONS = json.loads(Path(OPTIONS_FILE).read_text()) if OPTIONS_FILE else {}
OVER = threading.Event()
PROBLEMS: list[str] = []
WAITS: dict[str, float] = {}
"""The longest time that a write took until it was acknowledged, by way."""


def table(name: str, **settings: object) -> Table:
    """Make a table of its own, or open it."""
    uri = f"{LAKE}/{NAME}_{name}"
    while True:
        try:
            return Table.create(
                uri, schema=SCHEMA, time_column="at", storage_options=OPTIONS, **settings
            )
        except TableExists:
            return Table.open(uri, storage_options=OPTIONS)
        except SegtableError as error:
            print(f"{name}: {error}", flush=True)
            time.sleep(1)


def demo_clicks() -> Table:
    """Open the demo's table that has a log store."""
    return Table.open(f"{LAKE}/clicks", storage_options=OPTIONS)


def rows(ids: list[int], turn: int) -> pa.Table:
    """Return rows with these ids."""
    return pa.table({"at": [AT] * len(ids), "id": ids, "turn": [turn] * len(ids)}, SCHEMA)


def clicks(numbers: list[int], page: str) -> pa.Table:
    """Return rows of the demo's table; the page says whose they are."""
    at = pa.array([AT] * len(numbers), pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "number": numbers, "page": [page] * len(numbers)})


def until_acknowledged(name: str, write: Callable[[], object]) -> None:
    """Repeat a write until it returns."""
    begun_s = time.monotonic()
    while True:
        try:
            write()
        except SegtableError as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            time.sleep(0.5)
        else:
            WAITS[name] = max(WAITS.get(name, 0.0), time.monotonic() - begun_s)
            return


def append() -> None:
    """Append ids in order; each is there once."""
    target = table("appends", properties={"compaction.min_segments": "4"})
    turn = 0
    while not OVER.is_set():
        given, name = rows([turn * ROWS + n for n in range(ROWS)], turn), f"turn-{turn}"
        until_acknowledged("append", partial(target.append, given, commit_id=name))
        turn += 1
        OVER.wait(0.3)
    compare("appends", Counter(range(turn * ROWS)), ids(target))


def upsert() -> None:
    """Upsert and delete keys; each has its newest turn, or is gone."""
    target = table("upserts", primary_key="id", buckets=2, granularity="all")
    luck, newest, turn = Random(7), {}, 0
    while not OVER.is_set():
        turn += 1
        keys = luck.sample(range(KEYS), ROWS)
        gone = [luck.random() < 0.2 for _ in keys]
        given = rows(keys, turn).append_column("gone", pa.array(gone))
        until_acknowledged("upsert", partial(target.upsert, given, deleted="gone"))
        newest |= {key: None if out else turn for key, out in zip(keys, gone, strict=True)}
        OVER.wait(0.5)
    found = target.scan().to_arrow()
    shown = Counter(zip(found["id"].to_pylist(), found["turn"].to_pylist(), strict=True))
    compare("upserts", Counter((k, t) for k, t in newest.items() if t is not None), shown)


def log() -> None:
    """Append through the log store; rows that a writer names as lost are not expected."""
    target, page = demo_clicks(), f"witness-{uuid4().hex}"
    number, acknowledged, maybe = 0, set(), set()
    while not OVER.is_set():
        sent: list[int] = []
        try:
            with target.log_writer(buckets=[1], embedded=False) as writer:
                base = dict(writer.end)
                while not OVER.is_set():
                    begun_s = time.monotonic()
                    ids_ = list(range(number, number + ROWS))
                    number += ROWS
                    maybe |= set(ids_)
                    writer.append(clicks(ids_, page))
                    sent += ids_
                    WAITS["log"] = max(WAITS.get("log", 0.0), time.monotonic() - begun_s)
                    OVER.wait(0.2)
            acknowledged |= set(sent)
        except SegtableError as error:
            print(f"log: {type(error).__name__}: {str(error)[:200]}", flush=True)
            lost = {n for b, gone in writer.lost.items() for n in named(sent, base[b], gone)}
            lost |= {n for b, gone in uncommitted(error) for n in named(sent, base[b], gone)}
            acknowledged |= set(sent) - lost
            time.sleep(0.5)
    found = target.scan(where=f"page = '{page}'").to_arrow()
    shown = Counter(found["number"].to_pylist())
    missing, twice = acknowledged - shown.keys(), [n for n, many in shown.items() if many > 1]
    if missing or twice or shown.keys() - maybe:
        PROBLEMS.append(f"log store: {len(missing)} missing, {len(twice)} twice")
    print(f"log store: {len(acknowledged)} rows acknowledged, {len(shown)} found", flush=True)


def uncommitted(error: SegtableError) -> list[tuple[int, range]]:
    """Return the offsets, by bucket, that an error says are not committed.

    A service commits them later if it still has them; after its death nobody does.
    """
    found = re.findall(r"(\d+)-(\d+) of bucket (\d+)", str(error))
    return [(int(bucket), range(int(first), int(last) + 1)) for first, last, bucket in found]


def named(sent: list[int], base: int, gone: range) -> list[int]:
    """Return the ids at the offsets that a writer of one bucket names as lost."""
    return [sent[n - base] for n in gone if 0 <= n - base < len(sent)]


def ids(target: Table) -> "Counter[int]":
    """Return how often each id is in a table."""
    return Counter(target.scan().to_arrow()["id"].to_pylist())


def compare(name: str, expected: "Counter[object]", found: "Counter[object]") -> None:
    """Note what is missing, and what is there too often."""
    if expected != found:
        missing, more = expected - found, found - expected
        PROBLEMS.append(f"{name}: {missing.total()} missing, {more.total()} too many")
    print(f"{name}: {expected.total()} rows expected, {found.total()} found", flush=True)


def guarded(way: Callable[[], None]) -> Callable[[], None]:
    """Return a way that notes whatever ends it."""

    def run() -> None:
        try:
            way()
        except Exception as error:  # noqa: BLE001 - a way that ended early is a problem, too
            PROBLEMS.append(f"{way.__name__}: {type(error).__name__}: {error}")

    return run


def main() -> int:
    """Write until SIGTERM; compare; say the outcome."""
    signal.signal(signal.SIGTERM, lambda *_: OVER.set())
    threads = [threading.Thread(target=guarded(way)) for way in (append, upsert, log)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1)
    waits = ", ".join(f"{name} {s:.1f} s" for name, s in sorted(WAITS.items()))
    print(f"longest waits: {waits}")
    print(f"WRONG: {'; '.join(PROBLEMS)}" if PROBLEMS else "sound: all that was acknowledged")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
