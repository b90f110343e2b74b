"""A table: where its settings come from, who reads it, what the doctor finds, how it grew."""

from typing import Any

import pytest

from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, RenameColumn
from airflow_provider_segtable.page import table_view
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.table.dropping import drop as drop_table
from airflow_provider_segtable.table.table import Table
from tests.support.shown_lake import ShownLake

FILE = """
[fleet]
name = "lake"
[properties]
compaction.min_segments = 4
retention.hours = 48
[groups.events]
tables = ["events"]
objective = {files_read = 3}
"""


@pytest.fixture
def made() -> ShownLake:
    """A table of five small files, in a group with an aim of three."""
    lake = ShownLake(fleet=read_fleet(FILE, "fleet.toml"))
    lake.create("events", {"compaction.min_segments": "5"})
    lake.append("events", 5)
    return lake


def shown(made: ShownLake) -> dict[str, Any]:
    found = made.browser().get("/api/table", table="events")
    assert found.status_code == 200, found.text
    return dict(found.json()["data"])


def test_it_has_the_sizes_of_the_newest_version(made: ShownLake) -> None:
    """From summaries: files, rows, and which chunk has most small files."""
    table = shown(made)
    assert table["counts"]["segments"] == table["counts"]["rows"] == 5
    assert table["counts"]["worst_interval"] == "2026-01-05T00:00:00Z/2026-01-05T01:00:00Z"
    assert (table["group"], table["kind"], table["granularity"]) == ("events", "append", "hour")


def test_a_setting_says_what_gives_it(made: ShownLake) -> None:
    """The table's own wins over the file's, which wins over the default."""
    found = {each["name"]: each for each in shown(made)["properties"]}
    own, filed = found["compaction.min_segments"], found["retention.hours"]
    assert (own["value"], own["origin"]) == ("5", "the table, creation")
    assert own["over"][0] == {"value": "4", "origin": "fleet.toml:5 all tables"}
    assert (filed["value"], filed["origin"]) == ("48", "fleet.toml:6 all tables")
    assert filed["default"] != "48"
    assert found["compaction.max_plans"]["origin"] == "default"
    assert found["compaction.max_plans"]["over"] == []


def test_an_aim_is_beside_what_readers_meet(made: ShownLake) -> None:
    """Whether it is missed, with both numbers."""
    (aim,) = shown(made)["aims"]
    assert aim == {
        "name": "files_read",
        "found": 5.0,
        "aim": 3.0,
        "missed": True,
        "sentence": "a day is read from 5 files, of 3 at most",
    }


def test_columns_have_their_history(made: ShownLake) -> None:
    """Dropped ones are shown, too, after those that are there."""
    table = Table(made.tables["events"])
    table.alter(columns=[RenameColumn(name="word", new="text")])
    table.alter(columns=[AddColumn(name="note", type="string")])
    table.alter(columns=[DropColumn(name="note")])
    columns = {each["name"]: each for each in shown(made)["columns"]}
    assert list(columns) == ["at", "text", "note"]
    assert columns["text"]["changes"] == [{"schema_number": 1, "change": "renamed from word"}]
    assert columns["note"]["dropped"] is True
    assert [each["change"] for each in columns["note"]["changes"]] == [
        "added as note: string",
        "dropped",
    ]


def test_readers_are_tags_and_consumers(made: ShownLake) -> None:
    """A consumer's lag is the age of the first change that it has not read."""
    table = Table(made.tables["events"])
    table.tag("before")
    table.advance_consumer("report")
    made.append("events")
    made.clock.advance(90)
    readers = shown(made)["readers"]
    assert readers["tags"] == [{"name": "before", "version": 5}]
    (consumer,) = readers["consumers"]
    assert (consumer["name"], consumer["lag_seconds"], consumer["lost"]) == ("report", 90.0, False)


def test_the_doctors_findings_have_the_way_out(made: ShownLake) -> None:
    """It is asked once a minute at most."""
    made.clock.advance(3 * 86_400)
    health = shown(made)["health"]
    assert health["examined"] == "by the doctor"
    codes = [each["code"] for each in health["findings"]]
    assert codes == ["not-compacted"]
    assert "segtable compact memory://lake/events --all" in health["findings"][0]["do"]
    made.store.requests.clear()
    made.clock.advance(30)
    shown(made)
    assert not any(path.startswith("list data") for path in made.store.requests)


def test_a_doctor_that_does_not_answer_in_time_is_not_waited_for(
    made: ShownLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings of a glance are shown meanwhile, and the table without delay."""
    monkeypatch.setattr(table_view, "EXAMINED_WITHIN_S", 0.05)
    made.store.hangs_at = "list data"
    made.store.gate.clear()
    health = shown(made)["health"]
    assert health["examined"] == "at a glance"
    assert health["late"] == "memory://lake has not answered within 0.05 s"
    made.store.gate.set()
    waited = made.browser().get("/api/health", table="events").json()["data"]
    assert waited["examined"] == "by the doctor"


def test_a_large_table_is_not_examined_for_a_page(
    made: ShownLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor would look into each chunk: a glance has to do."""
    monkeypatch.setattr(table_view, "MOST_EXAMINED", 4)
    health = shown(made)["health"]
    assert (health["examined"], health["late"]) == ("at a glance", "")


def test_growth_is_a_point_a_version(made: ShownLake) -> None:
    """Ascending, up to the newest."""
    points = made.browser().get("/api/growth", table="events").json()["data"]["points"]
    assert [each["version"] for each in points] == list(range(6))
    assert points[-1]["files"] == points[-1]["small"] == 5


def test_a_dropped_table_is_gone(made: ShownLake) -> None:
    """The error says who dropped it, and when."""
    shown(made)
    drop_table(made.tables["events"])
    made.clock.advance(2)
    found = made.browser().get("/api/table", table="events")
    assert (found.status_code, found.json()["error"]) == (404, "TableGone")


def test_texts_of_a_table_are_only_texts(made: ShownLake) -> None:
    """Names with markup come as they are, in JSON, which no browser takes for a page."""
    table = Table(made.tables["events"])
    table.tag("a.b-c")
    table.alter(columns=[RenameColumn(name="word", new="<img src=x onerror=alert(1)>")])
    found = made.browser().get("/api/table", table="events")
    assert found.headers["content-type"] == "application/json"
    assert found.headers["x-content-type-options"] == "nosniff"
    names = [each["name"] for each in found.json()["data"]["columns"]]
    assert "<img src=x onerror=alert(1)>" in names
