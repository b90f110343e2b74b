"""Plans of reads are what reads do: they name the files that are opened, and the bytes read."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.reads.selection import PrunedBy
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Interval
from airflow_provider_segtable.data.parquet import segment_scan
from airflow_provider_segtable.table.scan import Scan
from tests.property.test_keyed_tables import FIRST_US, GONE, KEYS, batch, keyed_table
from tests.property.test_reads import (
    HOURS,
    SCHEMA,
    drawn_table,
    expression,
    small_groups,
    sql,
)
from tests.unit.table.conftest import rows
from tests.watched_files import WatchedFiles, watched

__all__ = ["small_groups"]  # a fixture of all tests here

TABLES = 4
READS = 10
NOT_HERE = {PrunedBy.ROOTS, PrunedBy.BASE_ONLY, PrunedBy.BUCKETS, PrunedBy.FATES}
"""Steps that only reads of roots, and of primary-key tables, have."""
INDEXES = {PrunedBy.COLUMN_STATS, PrunedBy.BLOOM_FILTER}
"""Steps by indexes, which ``test_index_reads.py`` has."""


@pytest.fixture(autouse=True)
def large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files stand for large ones: small ones of a disk are loaded whole."""
    monkeypatch.setattr(segment_scan, "SMALL_FILE", 0)


def check(scan: Scan, files: WatchedFiles, case: str) -> set[PrunedBy]:
    """Compare the plan of a scan with what the scan does; return the steps that saved bytes."""
    files.opened.clear()
    plan = scan.explain()
    explained = {*files.opened}
    files.opened.clear()
    found = scan.to_arrow().num_rows
    assert {*files.opened} <= explained, case  # what the plan computed of files is kept
    named = {s.path: s.footer for s in scan.state.timeline.segments() if s.footer}
    opened = files.opened.keys() & named.keys()
    assert {file.path for file in plan.files} == opened, case
    for file in plan.files:
        footer = named[file.path]
        assert footer is not None
        body = files.body_bytes(file.path, footer.start)
        needed = sum(group.column_bytes for group in file.groups if group.read)
        assert (body == 0) is (needed == 0), f"{case}: {file.path}"
        assert needed <= body <= footer.start, f"{case}: {file.path}"
    assert found <= sum(file.facts["rows_read"] for file in plan.files), case
    for one, other in pairwise(plan.steps):
        files_alike = (one.after.files, one.after.bytes) == (other.before.files, other.before.bytes)
        assert files_alike, f"{case}: {one} {other}"
    assert plan.read.bytes == sum(file.facts["bytes_read"] for file in plan.files), case
    return {step.by for step in plan.steps if step.after.bytes < step.before.bytes}


def test_a_scan_opens_what_its_plan_names() -> None:
    """Over any history, condition, interval, version, window and columns; and every step saves."""
    saved: set[PrunedBy] = set()
    for seed in range(TABLES):
        draw = Random(seed)
        table, files = watched(drawn_table(draw))
        table.append(rows(range(90, 98)))
        table.delete("row >= 94")  # all rows of some row groups
        newest = table.state().n
        for _ in range(READS):
            start = draw.randrange(HOURS) * HOUR_US + draw.randrange(3)
            hour = Interval(start, start + 1 + draw.randrange(HOUR_US))
            asked: dict[str, Any] = {
                "columns": draw.sample(SCHEMA.names, draw.randrange(5)),
                "where": draw.choice((None, sql(draw), sql(draw), expression(draw))),
                "interval": draw.choice((None, hour)),
                "version": draw.choice((newest, draw.randrange(1, newest + 1))),
            }
            if draw.random() < 0.3:
                asked["since_version"] = draw.randrange(asked["version"])
            scan = table.scan(checked=False, **asked)
            saved |= check(scan, files, f"seed {seed}: {asked}")
    assert saved == {*PrunedBy} - NOT_HERE - INDEXES


def test_a_merging_scan_opens_what_its_plan_names(tmp_path: Path) -> None:
    """Of primary-key tables, whatever was upserted and compacted, as above."""
    saved: set[PrunedBy] = set()
    for seed in range(1, 4):
        draw = Random(seed)
        kind = PrimaryKey(key=("key",), buckets=2, ordering="seq")
        table, files = watched(keyed_table(str(tmp_path / str(seed)), kind))
        for turn in range(8):
            keys = draw.sample(range(KEYS), 5)
            given = [{"key": key, "seq": turn, "text": "v", GONE: key == turn} for key in keys]
            table.upsert(batch(given), deleted=GONE)
            if turn in (3, 5):
                table.compact(("minor", "semi-major")[turn == 5])
        newest = table.state().n
        for _ in range(READS):
            asked: dict[str, Any] = {
                "columns": draw.sample(["at", "key", "seq", "text"], draw.randrange(5)),
                "where": draw.choice(
                    (
                        None,
                        "key < 3",
                        "key = 3",
                        "seq > 4",
                        "at < timestamp '2013-01-02'",
                        "text = 'v' and key > 30",
                    )
                ),
                "interval": draw.choice((None, Interval(FIRST_US, FIRST_US + DAY_US))),
                "version": draw.choice((newest, draw.randrange(1, newest + 1))),
            }
            how = draw.random()
            if how < 0.3:
                asked["since_version"] = draw.randrange(asked["version"])
            elif how < 0.6:
                asked["base_only"] = True
            scan = table.scan(checked=False, **asked)
            saved |= check(scan, files, f"seed {seed}: {asked}")
    assert saved == {*PrunedBy} - {PrunedBy.ROOTS} - INDEXES
