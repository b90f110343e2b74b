"""Indexes, conditions explained, log store, publications and locks, as the page shows them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.page.held_locks import NO_COORDINATOR, REST_S, LockReader
from airflow_provider_segtable.page.index_view import LagPoint, _thinned
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.page.sources import all_below_the_root
from tests.support.shown_lake import SCHEMA
from tests.support.worked_table import NAME, WorkedTable


@pytest.fixture(scope="module")
def worked() -> WorkedTable:
    """Return a table with a past."""
    return WorkedTable()


def test_an_index_says_which_intervals_it_lacks_and_how_it_lagged(worked: WorkedTable) -> None:
    """It was requested over 14 files, so it lacks their hour until it is built."""
    (index,) = worked.ask("/api/indexes")["indexes"]
    assert (index["name"], index["kind"], index["status"]) == ("words", "column_stats", "building")
    assert [gap["interval"] for gap in index["lacking"]] == [
        "2026-01-05T00:00:00Z/2026-01-05T01:00:00Z"
    ]
    assert index["files"] == 4
    assert index["history"][-1]["version"] == worked.table.state().n
    assert [each["version"] for each in index["history"]] == sorted(
        each["version"] for each in index["history"]
    )
    assert index["lag_seconds"] > 0


def test_an_index_that_was_built_lacks_nothing() -> None:
    """And its history has a point with a lag, and a later one without."""
    worked = WorkedTable()
    worked.ask("/api/indexes")
    worked.table.run_index("words")
    (index,) = worked.ask("/api/indexes")["indexes"]
    assert (index["lacking"], index["current"], index["lag_seconds"]) == ([], True, 0.0)
    lags = [each["lag_seconds"] for each in index["history"]]
    assert lags[-1] == 0.0 < max(lags)


def test_a_history_is_thinned_and_keeps_the_newest() -> None:
    """Every other point goes until there are few enough."""
    points = [LagPoint(at="", version=n, lag_seconds=0.0, gaps=0) for n in range(999)]
    thinned = _thinned(points)
    assert len(thinned) <= 200
    assert thinned[-1].version == 998


def test_a_condition_shows_which_files_are_opened_and_why_others_are_not() -> None:
    """Files of another hour are left out by their event times, and each is counted once."""
    worked = WorkedTable()
    rows = pa.table({"at": [datetime(2026, 1, 7, tzinfo=UTC)], "word": ["c"]}, schema=SCHEMA)
    Table(worked.table.ports).append(rows)
    found = worked.ask("/api/explain", where="at >= '2026-01-06'")
    assert (found["files"], found["files_opened"], found["opened_total"]) == (5, 1, 1)
    assert found["left_out_total"] == 4
    assert {each["left_out_by"] for each in found["left_out"]} <= {"event_times", "time_chunks"}
    chunks = {each["interval"]: each for each in found["chunks"]}
    assert [each["opened"] for each in chunks.values()] == [0, 1]
    assert sum(each["files"] for each in chunks.values()) == 5
    assert found["bytes_read"] <= found["bytes"]


def test_savings_compare_the_read_without_and_with_indexes() -> None:
    """A built index of bounds leaves out the files with other words."""
    worked = WorkedTable()
    worked.lake.append(NAME, 16, word="c")
    worked.table.run_index("words")
    found = worked.ask("/api/explain", where="word = 'zebra'")
    without, with_index = found["savings"]
    assert (without["indexes"], with_index["indexes"]) == ([], ["words"])
    assert with_index["files_opened"] == 0 < without["files_opened"]
    assert {each["index"] for each in found["left_out"]} == {"words"}


@pytest.mark.parametrize("where", ["nope = 1", "word =", "word = 'a'; drop table x"])
def test_a_condition_that_cannot_be_read_is_refused(worked: WorkedTable, where: str) -> None:
    """With the error that a scan would have."""
    assert worked.refused("/api/explain", where=where)[0] == 400


def test_a_table_without_log_store_or_publication_says_so(worked: WorkedTable) -> None:
    """The lists are empty, and nothing is wrong."""
    store = worked.ask("/api/log_store")
    assert (store["has"], store["buckets"], store["trouble"]) == (False, [], "")
    assert worked.ask("/api/published")["formats"] == []


def test_a_consumer_has_its_lag_in_events_and_seconds() -> None:
    """By the first event after its position that changed rows."""
    worked = WorkedTable()
    worked.table.advance_consumer("report", version=3)
    worked.lake.clock.advance(600)
    (consumer,) = worked.ask("/api/log_store")["consumers"]
    assert (consumer["name"], consumer["version"]) == ("report", 3)
    assert consumer["behind_events"] == worked.table.state().n - 3
    assert consumer["behind_seconds"] > 600
    worked.table.advance_consumer("report")
    (consumer,) = worked.ask("/api/log_store")["consumers"]
    assert (consumer["behind_events"], consumer["behind_seconds"]) == (0, 0.0)


def test_a_published_format_says_how_far_it_is_behind() -> None:
    """Delta Lake shows an event; a later append is one event behind."""
    worked = WorkedTable()
    worked.table.publish(formats="delta")
    (fresh,) = worked.ask("/api/published")["formats"]
    worked.lake.append(NAME, 1)
    (late,) = worked.ask("/api/published")["formats"]
    assert (fresh["format"], fresh["lag_events"]) == ("delta", 0)
    assert (late["event"], late["lag_events"]) == (fresh["event"], 1)
    assert late["sentence"].endswith("1 event behind; it is switched off")


def test_a_lock_names_its_holder_and_its_places() -> None:
    """Held ones and places in the queue are apart."""
    worked = WorkedTable()
    ports, state = worked.table.ports, worked.table.state()
    held = _request(state.table.table_id, "g1", state)
    lease = ports.coordinator.acquire(held, wait_s=0)
    found = worked.ask("/api/locks")
    lease.release()
    (lock,) = found["held"]
    assert (lock["group"], lock["state"], lock["segments"]) == ("g1", "held", 1)
    assert lock["places"][0].startswith("2026-01-05T00:00:00Z")
    assert (found["trouble"], found["waiting"]) == ("", [])


def _request(table: str, group: str, state: Any) -> LockRequest:
    segment = next(iter(state.timeline.visible_segments()))
    return LockRequest(
        table=table, group=group, purpose="minor-x", holder="me", segments=frozenset({segment.id})
    )


class _Away:
    """A coordinator that does not answer, and counts."""

    address = "zk:2181"

    def __init__(self) -> None:
        self.asked = 0

    def progress(self, table: str) -> Any:
        """Fail."""
        self.asked += 1
        raise CoordinatorUnavailable(f"{table}: no answer from zk:2181")


def test_a_coordinator_that_is_away_is_asked_now_and_then() -> None:
    """The page says so, and does not wait for it at each look."""
    worked = WorkedTable()
    away, clock = _Away(), worked.lake.clock
    seen = Seen(
        name=NAME,
        own_name=NAME,
        ports=_with(worked.table.ports, away),
        state=worked.table.state(),
        at=0,
        fleet=all_below_the_root(),
    )
    reader = LockReader()
    assert "no answer" in reader.read(seen).trouble
    assert "no answer" in reader.read(seen).trouble
    assert away.asked == 1
    clock.advance(REST_S + 1)
    reader.read(seen)
    assert away.asked == 2


def test_a_page_without_coordinator_says_that_it_sees_no_locks() -> None:
    """Reading needs none."""
    worked = WorkedTable()
    seen = Seen(
        name=NAME,
        own_name=NAME,
        ports=_with(worked.table.ports, None),
        state=worked.table.state(),
        at=0,
        fleet=all_below_the_root(),
    )
    assert LockReader().read(seen).trouble == NO_COORDINATOR


def _with(ports: Any, coordinator: Any) -> Any:
    return replace(ports, optional_coordinator=coordinator)
