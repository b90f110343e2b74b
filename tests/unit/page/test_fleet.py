"""The list of tables: the worst first, from looks in the background, without keeping any state."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.page.fleet_watch import Fleetwide
from airflow_provider_segtable.page.lake import Limits
from airflow_provider_segtable.page.sources import within
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
from airflow_provider_segtable.table.table import Table
from tests.support.shown_lake import ShownLake

FILE = """
[fleet]
name = "lake"
[properties]
compaction.min_segments = 4
[groups.a]
tables = ["a/*"]
objective = {files_read = 3}
[groups.b]
tables = ["b/*"]
"""


def fleet() -> Fleet:
    return read_fleet(FILE, "fleet.toml")


@pytest.fixture
def made() -> ShownLake:
    """Three tables; ``a/busy`` has five files of a day, of an aim of three."""
    lake = ShownLake("a/busy", "a/calm", "b/other", fleet=fleet())
    lake.append("a/busy", 5)
    lake.append("b/other", 2)
    return lake


def lines(made: ShownLake, **query: Any) -> list[dict[str, Any]]:
    found = made.browser().get("/api/fleet", **query).json()["data"]["lines"]
    return list(found)


def test_the_worst_table_is_the_first_line(made: ShownLake) -> None:
    """It says the worst thing in a sentence, and what begins next."""
    worst, *rest = lines(made)
    assert (worst["table"], worst["group"], worst["health"]) == ("a/busy", "a", "ill")
    assert worst["reason"] == worst["misses"][0] == "a day is read from 5 files, of 3 at most"
    assert (worst["files"], worst["rows"], worst["small_files"], worst["offers"]) == (5, 5, 5, 1)
    assert worst["next_plan"] == "minor of 5 Jan 00:00 to 01:00: 5 files to 1"
    assert worst["next_when"] == "at the planner's next run"
    assert {each["health"] for each in rest} == {"ok"}
    assert rest[0]["objective"] is True or rest[1]["objective"] is True


def test_a_table_that_cannot_be_read_comes_first(made: ShownLake) -> None:
    """Its error is shown without credentials, and the other tables are as they were."""
    made.faults["b/other"] = "403 with key-of-the-store"
    first = lines(made)[0]
    assert (first["table"], first["health"]) == ("b/other", "ill")
    assert first["error"] == "StorageError: 403 with ***"


def test_sums_are_of_all_tables(made: ShownLake) -> None:
    """A search and a limit change the lines, and no sum."""
    found = made.browser().get("/api/fleet", search="B/", limit=1).json()["data"]
    assert [each["table"] for each in found["lines"]] == ["b/other"]
    assert (found["total"], found["ill"], found["missed"]) == (1, 1, 1)
    assert found["totals"]["tables"] == 3
    assert found["totals"]["files"] == 7


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"sort": "table"}, ["a/busy", "a/calm", "b/other"]),
        ({"sort": "table", "descending": "true"}, ["b/other", "a/calm", "a/busy"]),
        ({"sort": "files"}, ["a/busy", "b/other", "a/calm"]),
        ({"sort": "files", "descending": "false"}, ["a/calm", "b/other", "a/busy"]),
        ({"sort": "table", "offset": 1, "limit": 1}, ["a/calm"]),
        ({"sort": "consumer"}, ["a/busy", "a/calm", "b/other"]),
    ],
)
def test_lines_are_sorted_and_paged(
    made: ShownLake, query: dict[str, Any], names: list[str]
) -> None:
    """Each order has a direction of its own, which a reader may turn."""
    assert [each["table"] for each in lines(made, **query)] == names


def test_an_unknown_order_is_refused(made: ShownLake) -> None:
    """The error names the argument."""
    found = made.browser().get("/api/fleet", sort="luck")
    assert (found.status_code, found.json()["message"].partition(":")[0]) == (400, "sort")


def test_a_new_event_changes_the_line_and_its_history(made: ShownLake) -> None:
    """A pass looks at the table again, and the sparkline has one more point."""
    before = {each["table"]: each for each in lines(made)}["b/other"]
    made.append("b/other")
    made.clock.advance(10)
    after = {each["table"]: each for each in settled(made)}["b/other"]
    assert (before["version"], after["version"]) == (2, 3)
    assert after["spark"]["files"] == [0, 1, 2, 3]


def settled(made: ShownLake) -> list[dict[str, Any]]:
    """Return the lines once a pass that begins now has ended."""
    lines(made)
    waited(made)
    made.clock.advance(2)
    return lines(made)


def waited(made: ShownLake) -> Fleetwide:
    """Wait for the pass that is under way."""
    (side,) = made.lake._sides.values()
    if side.watch._pass is not None:
        side.watch._pass.result(timeout=10)
    return side.watch.known()


def test_unchanged_tables_cost_no_request(made: ShownLake) -> None:
    """Only the one of which nothing was announced is asked for its next event."""
    lines(made)
    waited(made)
    made.store.requests.clear()
    made.clock.advance(10)
    lines(made)
    waited(made)
    assert dict(made.store.requests) == {f"read {event_path(1)}": 1}


def test_a_pass_waits_until_the_last_one_is_long_ago(made: ShownLake) -> None:
    """Readers that poll begin no pass each."""
    lines(made)
    waited(made)
    made.store.requests.clear()
    for _ in range(5):
        lines(made)
    assert not made.store.requests


def test_a_pass_that_fails_by_an_error_of_no_kind_is_said_and_keeps_its_pause(
    made: ShownLake,
) -> None:
    """Readers that poll do not repeat it at once, and its text has no credential."""
    begun = list[Instant]()

    def find(_: object, now: Instant) -> FoundTables:
        begun.append(now)
        raise RuntimeError("no thread for key-of-the-store")

    made.source = replace(made.source, find=find)
    for _ in range(3):
        lines(made)
        waited(made)
    assert len(begun) == 1
    made.clock.advance(2)
    assert made.browser().get("/api/fleet").json()["late"] == "RuntimeError: no thread for ***"


def test_while_a_store_hangs_the_list_is_the_last_known(made: ShownLake) -> None:
    """It has its age, and says for how long the store has been read."""
    lines(made)
    waited(made)
    made.store.gate.clear()
    made.clock.advance(40)
    lines(made)
    made.clock.advance(20)
    late = made.browser().get("/api/fleet").json()
    made.store.gate.set()
    assert len(late["data"]["lines"]) == 3
    assert late["late"] == "memory://lake has been read for 20 s"
    assert late["age_seconds"] >= 60


def test_before_the_first_pass_has_ended_tables_are_unknown() -> None:
    """The list does not wait for them, and says how many were looked at."""
    made = ShownLake("a/busy", "a/calm", fleet=fleet(), limits=Limits(first_s=0.05))
    made.store.gate.clear()
    first = made.browser().get("/api/fleet").json()
    made.store.gate.set()
    assert {each["health"] for each in first["data"]["lines"]} == {"unknown"}
    assert first["late"] == "0 of 2 tables were looked at so far"


def test_no_state_is_kept_of_the_tables_of_the_list(made: ShownLake) -> None:
    """What is kept of a table is its look, which does not grow with it."""
    lines(made)
    assert made.lake.states.names() == ()


def test_changes_are_the_newest_known_versions(made: ShownLake) -> None:
    """Only those since a time are sent; of the table that is looked at, the newest."""
    asking = made.browser()
    lines(made)
    waited(made)
    every = asking.get("/api/fleet/changes").json()
    assert every["data"]["heads"] == {"a/busy": 5, "a/calm": 0, "b/other": 2}
    made.append("b/other")
    assert asking.get("/api/fleet/changes", since="2999").json()["data"]["heads"] == {}
    one = asking.get("/api/fleet/changes", since="2999", table="b/other").json()
    assert one["data"]["heads"] == {"b/other": 3}


def test_a_consumer_that_lags_is_shown(made: ShownLake) -> None:
    """Its lag is the age of the first change that it has not read."""
    table = Table(made.tables["b/other"])
    table.advance_consumer("report")
    made.append("b/other")
    made.clock.advance(120)
    line = {each["table"]: each for each in lines(made)}["b/other"]
    assert line["lags"]["consumer"] == 120.0
    assert line["lags"]["index"] is None


def test_a_table_that_cannot_be_read_any_more_keeps_its_last_sizes(made: ShownLake) -> None:
    """Until it can: then the error is gone."""
    lines(made)
    waited(made)
    made.append("b/other")
    made.faults["b/other"] = "away"
    made.clock.advance(1801)
    broken = {each["table"]: each for each in settled(made)}["b/other"]
    assert (broken["error"], broken["health"], broken["files"]) == ("StorageError: away", "ill", 2)
    del made.faults["b/other"]
    made.clock.advance(60)
    well = {each["table"]: each for each in settled(made)}["b/other"]
    assert (well["error"], well["health"], well["files"]) == (None, "ok", 3)


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("s3://lake/a/b/_segtable/x.json is no event", "_segtable/x.json is no event"),
        ("/data/a/b/data/1.parquet is missing", "data/1.parquet is missing"),
        ("s3://lake/a/bc/x is missing", "s3://lake/a/bc/x is missing"),
    ],
)
def test_a_sentence_about_a_table_leaves_its_place_out(sentence: str, short: str) -> None:
    """Paths in it begin below the table."""
    assert within(sentence, "a/b") == short
