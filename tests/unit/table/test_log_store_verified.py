"""Verify of tables with a log store, and damage that is planted there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log.events import encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log_store import manifest
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.data.file_offsets import FileOffsets
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.log_store import checkpointing
from airflow_provider_segtable.table.table import Table
from tests.unit.table.logged import Logged
from tests.unit.table.test_windows import compacted

Patch = pytest.MonkeyPatch


@pytest.fixture
def logged(table: Table) -> Logged:
    """A table with checkpoints of two buckets."""
    made = Logged(table)
    made.begin(0, 4)
    made.checkpoint(b0=3, b4=2)
    made.checkpoint(b0=4)
    return made


def codes(table: Table, **scope: bool) -> list[str]:
    """Return what verify finds."""
    findings = verify(table.ports, **scope).findings
    assert all(each.severity is Severity.CRITICAL for each in findings)
    return [each.code for each in findings]


def test_a_sound_log_store_gives_no_finding(logged: Logged) -> None:
    """After compactions, a restore, and new epochs, in every file and version."""
    before = logged.table.state().n
    logged.checkpoint(b4=5)
    compacted(logged.table, "minor")
    logged.table.restore(version=before)
    logged.begin(0, 4)
    logged.checkpoint(b0=2, b4=2)
    assert codes(logged.table, all_versions=True, deep=True) == []


def test_other_offsets_in_a_footer_are_found(logged: Logged, monkeypatch: Patch) -> None:
    """A deep verify reads the footers of all committed ranges."""
    right = checkpointing.encode_offsets

    def shifted(some: Sequence[FileOffsets], starts: Any) -> dict[bytes, bytes]:
        moved = [replace(each, offsets=each.offsets + 1) for each in some]  # type: ignore[operator]
        return right(moved, starts)

    monkeypatch.setattr(checkpointing, "encode_offsets", shifted)
    logged.checkpoint(b0=2)
    assert codes(logged.table) == []
    assert codes(logged.table, deep=True) == ["wrong-log-offsets"]


def test_a_lost_file_of_a_range_is_found_after_its_compaction(logged: Logged) -> None:
    """Although no scan needs it any more, readers of offsets do."""
    event = logged.table.ports.log.event(logged.table.state().n)
    assert event is not None
    assert isinstance(event.action, Appended)
    path = event.action.segments[0].path
    compacted(logged.table, "minor")
    files: Any = logged.table.ports.files
    del files.store[path]
    assert "wrong-log-offsets" in codes(logged.table, all_versions=True)


def test_a_range_that_does_not_follow_is_found(logged: Logged) -> None:
    """Each begins at the end of the one before."""
    state = logged.table.state()
    event = logged.table.ports.log.event(state.n)
    assert event is not None
    assert isinstance(event.action, Appended)
    (last,) = event.action.log
    torn = replace(event, action=replace(event.action, log=(replace(last, start=5),)))
    logged.table.ports.storage.replace(event_path(event.n), encode(torn))
    assert codes(logged.table) == ["misplaced-log-range"]


def test_a_waypoint_beside_its_range_is_found(logged: Logged, monkeypatch: Patch) -> None:
    """Readers would look for the range in other events."""
    right = manifest.BucketManifest.extended
    monkeypatch.setattr(
        manifest.BucketManifest, "extended", lambda known, new, n: right(known, new, n + 1)
    )
    logged.checkpoint(b4=1)
    assert "misplaced-log-range" in codes(logged.table)
