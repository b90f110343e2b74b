"""What the stress run changes: who deletes and updates which rows, and what must be left.

1. Changer k works on the rows of appender k, append by append, as they are acknowledged. A commit
   id says which: ``deleter1-7`` takes every tenth row of ``appender1-7`` away; ``updater1-7``
   counts others of its rows once, and the *contested* rows, which every updater counts.
2. So the final table is a function of the commit ids that landed; and in every version each append
   is there as a whole, its delete and its update are done as a whole, and all contested rows have
   been counted equally often.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table

ROWS = 1_500
APPENDS = 100_000
EVERY = 10
DELETED, UPDATED = 0, 5
"""Which of every ten rows of an append go, and which are counted."""
CONTESTED = range(8)
"""Rows of the first append, ``appender0-0``, which is made before the run begins."""
FIRST = "appender0-0"
SHORT = Retention(hours=0.005, versions=5, orphan_hours=6)
LOOK_EVERY_S = 6.0

Counts = dict[int, int]
Numbers = npt.NDArray[np.int64]


def rows_of(commit_id: str) -> range:
    """Return the row numbers that an append has, from its commit id alone."""
    name, turn = commit_id.rsplit("-", 1)
    first = (int(name.removeprefix("appender")) * APPENDS + int(turn)) * ROWS
    return range(first, first + ROWS)


def touched(commit_id: str) -> range:
    """Return which rows of its append a delete or update changes."""
    rows = rows_of(_append_of(commit_id))
    return rows[DELETED if commit_id.startswith("deleter") else UPDATED :: EVERY]


def expected(commits: Iterable[str]) -> tuple[Numbers, Numbers]:
    """Return the row numbers that must be there, in order, and how often each was counted."""
    landed = set(commits)
    appended = sorted((c for c in landed if c.startswith("appender")), key=lambda c: rows_of(c)[0])
    rows = np.concatenate([np.asarray(rows_of(c)) for c in appended])
    counts = np.zeros(len(rows), np.int64)
    kept = np.ones(len(rows), np.bool_)
    for commit in landed:
        if commit.startswith("deleter"):
            kept[np.searchsorted(rows, np.asarray(touched(commit)))] = False
        elif commit.startswith("updater"):
            counts[np.searchsorted(rows, np.asarray(touched(commit)))] += 1
            counts[np.searchsorted(rows, np.asarray(CONTESTED))] += 1
    return rows[kept], counts[kept]


def torn(rows: Numbers, counts: Numbers) -> list[str]:
    """Return what no version may look like."""
    wrong = []
    if len(np.unique(rows)) != len(rows):
        wrong.append("rows are doubled")
    contested = counts[np.isin(rows, np.asarray(CONTESTED))]
    if len(set(contested.tolist())) > 1:
        wrong.append(f"contested rows were counted {contested.tolist()} times")
    appends, sizes = np.unique(rows // ROWS, return_counts=True)
    whole = np.isin(sizes, (ROWS, ROWS - len(range(DELETED, ROWS, EVERY))))
    wrong += [
        f"append {n} has {size} rows"
        for n, size in zip(appends[~whole], sizes[~whole], strict=True)
    ]
    plain = ~np.isin(rows, np.asarray(CONTESTED))
    counted = np.bincount(np.searchsorted(appends, rows[plain] // ROWS), weights=counts[plain])
    odd = ~np.isin(counted, (0, len(range(UPDATED, ROWS, EVERY))))
    return wrong + [f"append {n} was updated in part" for n in appends[odd]]


def read(snapshot: Snapshot) -> tuple[Numbers, Numbers]:
    """Return the row numbers of a version, in order, and their counts."""
    table = snapshot.to_arrow(columns=["row", "count"]).sort_by("row")
    return table.column("row").to_numpy(), table.column("count").to_numpy()


def change_once(ports: TableContext, commit_id: str) -> None:
    """Do what a commit id says."""
    some = pc.field("row").isin(pa.array(touched(commit_id), pa.int64()))
    if commit_id.startswith("deleter"):
        Table(ports).delete(some, commit_id=commit_id)
        return
    contested = pc.field("row").isin(pa.array(CONTESTED, pa.int64()))
    one_more = pc.field("count") + pc.scalar(1)
    Table(ports).update({"count": one_more}, some | contested, commit_id=commit_id)


def ready(commit_id: str, folder: Path) -> bool:
    """Tell whether the append that a change is of was acknowledged."""
    name, turn = _append_of(commit_id).rsplit("-", 1)
    acks = folder / f"{name}.acks"
    return acks.exists() and len(acks.read_text().splitlines()) > int(turn)


def tend(
    ports: TableContext, folder: Path, tolerated: Callable[[Callable[[], object]], bool]
) -> None:
    """Clean with a short retention, and look at some kept version, again and again."""
    turn = 0
    while not (folder / "stop").exists():
        turn += 1
        tolerated(partial(clean, ports, retention=SHORT))
        tolerated(partial(_look, ports, folder, turn))
        time.sleep(LOOK_EVERY_S)


def _look(ports: TableContext, folder: Path, turn: int) -> None:
    head = EventLog(ports.storage).load()
    n = head.retained_from + turn * 7 % (head.n - head.retained_from + 1)
    try:
        wrong = torn(*read(Table(ports).snapshot(version=n)))
    except NotFound as gone:
        if EventLog(ports.storage).load().keeps(n):
            wrong = [f"is kept, but not whole: {gone}"]
        else:
            sys.stderr.write(f"version {n} expired while it was read\n")
            return
    with (folder / "cleaner.looks").open("a") as file:
        file.write(json.dumps({"version": n, "wrong": wrong[:5]}) + "\n")


def _append_of(commit_id: str) -> str:
    return "appender" + commit_id.removeprefix("deleter").removeprefix("updater")
