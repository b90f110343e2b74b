"""Play each kind of work once in a container of the service image: commands, and no Airflow.

    python journey.py

Each step compares the rows with those that were written. The last line is `sound: ...`.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from airflow_provider_segtable import Table

AT = datetime(2026, 5, 4, tzinfo=UTC)
PLACE = f"{os.environ.get('DEMO_ROOT', '/lake')}/journey-{uuid4().hex[:8]}"
OPTIONS_FILE = os.environ.get("SEGTABLE_STORAGE_OPTIONS_FILE")
OPTIONS = json.loads(Path(OPTIONS_FILE).read_text()) if OPTIONS_FILE else {}
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("turn", pa.int64())])
APPENDS, ROWS = 8, 500
RACERS, RACES = 8, 40


def segtable(*words: str) -> str:
    """Run a command; it must succeed."""
    done = subprocess.run(["segtable", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"WRONG: segtable {' '.join(words)}: {done.stdout} {done.stderr}")
    return done.stdout


def made(name: str, **settings: object) -> tuple[str, Table]:
    """Make a table; return its URI, too."""
    uri = f"{PLACE}/{name}"
    return uri, Table.create(
        uri, schema=SCHEMA, time_column="at", storage_options=OPTIONS, **settings
    )


def rows(ids: Iterable[int], turn: int = 0) -> pa.Table:
    """Return rows with these ids."""
    given = list(ids)
    return pa.table({"at": [AT] * len(given), "id": given, "turn": [turn] * len(given)}, SCHEMA)


def expect(step: str, table: Table, expected: dict[int, int]) -> None:
    """Compare a table with the rows that are expected, by id; say that a step is done."""
    found = table.scan().to_arrow()
    shown = sorted(zip(found["id"].to_pylist(), found["turn"].to_pylist(), strict=True))
    if shown != sorted(expected.items()):
        raise SystemExit(f"WRONG: {step}: {len(shown)} rows, {len(expected)} expected")
    print(f"{step}: {len(shown)} rows", flush=True)


def compactions() -> None:
    """Compact appends by each kind, index them, and show an earlier version again."""
    uri, table = made(
        "facts",
        granularity="day",
        properties={"compaction.clustering": "id", "index.by_id": "bloom_filter(id)"},
    )
    expected: dict[int, int] = {}
    for turn in range(APPENDS):
        ids = range(turn * ROWS, (turn + 1) * ROWS)
        table.append(rows(ids, turn))
        expected |= dict.fromkeys(ids, turn)
    before = len(json.loads(segtable("table", "segments", uri, "--json"))["segments"])
    for kind in ("minor", "semi-major", "major"):
        version = table.history(limit=1)[0].n
        segtable("compact", uri, "--kind", kind)
        if table.history(limit=1)[0].n == version:
            raise SystemExit(f"WRONG: {kind} committed nothing")
        expect(kind, table, expected)
    after = len(json.loads(segtable("table", "segments", uri, "--json"))["segments"])
    print(f"segments: {before} before, {after} after", flush=True)
    segtable("index", "run", uri)
    found = table.scan(where="id = 7").count()
    print(f"index: {found} row of id 7", flush=True)
    version = table.history(limit=1)[0].n
    table.append(rows([-1], -1))
    segtable("delete", uri, "--where", "id < 100")
    segtable("table", "restore", uri, "--version", str(version), "--yes")
    expect("restore", table, expected)
    print(segtable("verify", "--deep", uri).splitlines()[-1], flush=True)


def upserts() -> None:
    """Upsert and delete keys, and compact them."""
    uri, table = made("keys", primary_key="id", buckets=2, granularity="all")
    table.upsert(rows(range(100), 1))
    gone = [each % 2 == 0 for each in range(50)]
    table.upsert(rows(range(50), 2).append_column("gone", pa.array(gone)), deleted="gone")
    expected = dict.fromkeys(range(50, 100), 1) | dict.fromkeys(range(1, 50, 2), 2)
    expect("upserts and deletes", table, expected)
    segtable("compact", uri, "--kind", "major")
    expect("keys compacted", table, expected)
    print(segtable("verify", "--deep", uri).splitlines()[-1], flush=True)


def races() -> None:
    """Put each of some objects by many threads at once, if it is absent: one of them may."""
    from obstore.exceptions import AlreadyExistsError
    from obstore.store import S3Store

    bucket, _, prefix = PLACE.removeprefix("s3://").partition("/")
    for turn in range(RACES):
        name, done, start = f"race-{turn}", list[str](), threading.Barrier(RACERS)

        def put(racer: str, name: str = name, done: list[str] = done) -> None:
            store = S3Store(bucket, prefix=prefix, **OPTIONS)
            start.wait()  # noqa: B023 - the thread ends in this turn
            try:
                store.put(name, racer.encode(), mode="create")
            except AlreadyExistsError:
                return
            done.append(racer)

        threads = [threading.Thread(target=put, args=(str(n),)) for n in range(RACERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = bytes(S3Store(bucket, prefix=prefix, **OPTIONS).get(name).bytes()).decode()
        if done != [found]:
            raise SystemExit(f"WRONG: {name}: put by {done}, and {found!r} is there")
    print(f"put if absent: one of {RACERS}, {RACES} times", flush=True)


if __name__ == "__main__":
    if OPTIONS:
        races()
    compactions()
    upserts()
    print("sound: every kind of work, once")
    sys.exit(0)
