"""Repair of primary-key tables: what the files say of each record is enough."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.job import Done, Job
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.local import SystemClock

AT_US = 1_356_998_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("text", pa.string()),
        ("gone", pa.bool_()),
    ]
)
DAY_US = 86_400_000_000
Change = Callable[[Table], Any]


def upserted(first: int, seq: int, *, gone: bool = False) -> Change:
    """Return a change that writes four keys."""
    rows = [
        {
            "key": first + at,
            "at": AT_US + (first + at) % 3 * DAY_US,
            "seq": seq,
            "text": f"{first}.{seq}",
            "gone": gone,
        }
        for at in range(4)
    ]
    return lambda table: table.upsert(pa.Table.from_pylist(rows, SCHEMA), deleted="gone")


def compacted(kind: str, **options: Any) -> Change:
    """Return a compaction."""
    return lambda table: table.compact(kind, **options)


def cleaned(table: Table) -> None:
    """Delete all that the newest version does not need."""
    clean(table.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))


def divided(beside: Change, **options: Any) -> Change:
    """Return a major compaction beside which another change completes."""

    def change(table: Table) -> None:
        (known,) = request(table.ports, "major", **options)

        def execute(jobs: Sequence[Job]) -> Iterator[Done]:
            done = [*in_process()(jobs)]
            if all(isinstance(each.value[0], Segment) for each in done):
                beside(table)
            yield from done

        (result,) = compact(table.ports, [known.plan.id], execute)
        assert result.ended is Ended.COMPLETED

    return change


HISTORIES = {
    "log files": [upserted(0, 5), upserted(2, 3), upserted(1, 7, gone=True)],
    "a base": [upserted(0, 5), upserted(3, 6), compacted("semi-major"), upserted(5, 1, gone=True)],
    "log compaction": [
        *(upserted(0, 2), upserted(1, 9), compacted("semi-major")),
        *(upserted(2, 4), upserted(0, 7, gone=True), compacted("minor"), upserted(3, 1)),
    ],
    "other buckets": [upserted(0, 5), upserted(2, 3), compacted("major", buckets=5)],
    "fewer buckets": [upserted(0, 5), upserted(3, 6), compacted("major", buckets=1)],
    "upserts to other buckets": [
        *(upserted(0, 5), upserted(2, 3), compacted("semi-major"), upserted(1, 7)),
        *(compacted("major", buckets=5), upserted(1, 8, gone=True), upserted(2, 9)),
    ],
    "base files in other buckets": [
        *(upserted(0, 5), compacted("major", buckets=5), upserted(1, 8), upserted(3, 6)),
        *(compacted("semi-major"), upserted(1, 9, gone=True)),
    ],
    "other buckets twice": [
        *(upserted(0, 5), compacted("major", buckets=5), upserted(1, 8), compacted("semi-major")),
        *(upserted(2, 9), compacted("major", buckets=3), upserted(0, 7, gone=True)),
    ],
    "other buckets and back": [
        *(upserted(0, 5), compacted("major", buckets=5), upserted(1, 8)),
        *(compacted("major", buckets=2), upserted(3, 9)),
    ],
    "other buckets, cleaned": [
        *(upserted(0, 5), upserted(2, 3), compacted("major", buckets=5), upserted(1, 8), cleaned),
    ],
    "a log file that was divided": [
        *(upserted(0, 5), divided(upserted(1, 7), buckets=5), upserted(3, 6)),
    ],
    "days": [upserted(0, 5), compacted("major", granularity="day", buckets=3), upserted(1, 8)],
    "a late record": [upserted(0, 5, gone=True), compacted("semi-major"), upserted(0, 4)],
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty table with a primary key."""
    made = Table.create(
        str(tmp_path / "t"),
        schema=SCHEMA.remove(4),
        time_column="at",
        granularity="all",
        primary_key="key",
        buckets=2,
        ordering="seq",
    )
    coordinator = MemoryCoordinator(SystemClock(), MemoryService())
    return Table(replace(made.ports, optional_coordinator=coordinator))


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return what readers see."""
    rows: list[dict[str, Any]] = table.scan().to_arrow().sort_by("key").to_pylist()
    return rows


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("lost", ["all of the log", "the last event"])
def test_a_lost_log_is_rebuilt_from_files(table: Table, history: str, lost: str) -> None:
    """The rows are those of before, whatever order the files get; and work goes on."""
    for change in HISTORIES[history]:
        change(table)
    cut = table.state().overrides
    before, log = rows_of(table), Path(table.ports.uri.removeprefix("file://"), "_segtable")
    if lost == "the last event":
        events = sorted((log / "timeline").glob("*.json"))
        events[-1].write_text("torn")
    else:
        rmtree(log)
    plan = plan_repair(table.ports)
    assert not plan.blocking
    repair(table.ports, plan)
    assert not plan_repair(table.ports).needed
    assert rows_of(table) == before
    assert table.verify(deep=True, all_versions=True).sound
    assert table.state().overrides == cut
    compact(table.ports, [known.plan.id for known in table.state().pending_plans()], in_process())
    upserted(0, 8)(table)
    after = rows_of(table)
    table.compact("semi-major")
    assert rows_of(table) == after
    assert {row["text"] for row in after if row["key"] in (0, 3)} >= {"0.8"}


def test_a_tombstone_outlives_a_repair(table: Table) -> None:
    """The completion time of a record is lost with the log: it counts from the repair on."""
    upserted(0, 5, gone=True)(table)
    rmtree(Path(table.ports.uri.removeprefix("file://"), "_segtable"))
    repair(table.ports, plan_repair(table.ports))
    table.compact("semi-major")
    upserted(0, 4)(table)
    assert rows_of(table) == []


def uncommitted(table: Table) -> dict[Path, bytes]:
    """Return the files of a major compaction that was killed before its commit."""
    (known,) = request(table.ports, "major", buckets=5)
    data = Path(table.ports.uri.removeprefix("file://"), "data")
    before, found = {*data.glob("**/*.parquet")}, dict[Path, bytes]()

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        done = [*in_process()(jobs)]
        made = {*data.glob("**/*.parquet")} - before
        found.update({path: path.read_bytes() for path in made})
        yield from (replace(each, error="killed") if made else each for each in done)

    (result,) = compact(table.ports, [known.plan.id], execute)
    assert result.ended is not Ended.COMPLETED
    return found


@pytest.mark.parametrize("late", [True, False])
def test_an_uncommitted_version_stands_only_with_all_log_files(table: Table, *, late: bool) -> None:
    """If log files came after it was written, it is left out: no row is lost either way."""
    upserted(0, 5)(table)
    files = uncommitted(table)
    if late:
        upserted(2, 9)(table)
    before = rows_of(table)
    for path, data in files.items():
        path.write_bytes(data)
    rmtree(Path(table.ports.uri.removeprefix("file://"), "_segtable"))
    plan = plan_repair(table.ports)
    assert not plan.blocking
    repair(table.ports, plan)
    assert rows_of(table) == before
    assert table.verify(deep=True).sound
    assert bool(table.state().overrides) is not late
