"""Runs of a table and of the fleet, with their sums."""

from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.page.run_view import runs_of, since_of, table_runs
from tests.support.shown_lake import ShownLake
from tests.support.worked_table import NAME, WorkedTable


def test_a_run_has_its_files_work_and_gain() -> None:
    """14 files became one."""
    (run,) = WorkedTable().ask("/api/runs")["runs"]
    assert (run["kind"], run["inputs"], run["outputs"], run["files_removed"]) == (
        "minor",
        14,
        1,
        13,
    )
    assert (run["gain"], run["table"], run["day"]) == (1.0, NAME, "2026-01-01")
    assert run["bytes_read"] > run["bytes_written"] > 0


def test_sums_by_day_owner_and_kind_are_those_of_all_runs() -> None:
    """Days without runs are there, too."""
    found = WorkedTable().ask("/api/runs", days=3)
    assert [each["name"] for each in found["by_day"]] == ["2025-12-30", "2025-12-31", "2026-01-01"]
    for sums in (found["by_day"], found["by_owner"], found["by_kind"]):
        for name in ("runs", "inputs", "outputs", "bytes_read", "bytes_saved", "files_removed"):
            assert sum(each[name] for each in sums) == found["all"][name]
    assert found["all"]["runs"] == found["total"] == 1


def test_all_runs_are_summed_up_and_the_newest_are_listed() -> None:
    """A limit cuts the list, not the sums."""
    worked = WorkedTable()
    worked.table.run_index("words")
    found = worked.ask("/api/runs", limit=1)
    assert [each["kind"] for each in found["runs"]] == ["index"]
    assert found["total"] == 2


def test_a_run_counts_in_the_days_that_are_asked_for() -> None:
    """A run of an earlier day does not."""
    state = WorkedTable().table.state()
    now = state.time + 2 * DAY_US
    today = table_runs(state, NAME, since_of(now, 1), 10)
    three = table_runs(state, NAME, since_of(now, 3), 10)
    assert runs_of([today], now, 1, limit=10).total == 0
    assert runs_of([three], now, 3, limit=10).total == 1
    assert since_of(parse_instant("2026-01-03T12:00:00"), 3) == parse_instant("2026-01-01")


def test_the_runs_of_the_fleet_are_those_of_its_tables() -> None:
    """All tables answered, so none is missing; a second look gives the same."""
    worked = WorkedTable()
    worked.lake.create("b/other")
    browser = worked.lake.browser()
    browser.get("/api/fleet")
    found = browser.get("/api/runs").json()["data"]
    assert found["total"] == 1
    assert [each["table"] for each in found["runs"]] == [NAME]
    assert found["missing"] == []
    again = browser.get("/api/runs").json()["data"]
    assert again["total"] == 1


def test_a_table_that_cannot_be_read_is_missing_without_credentials() -> None:
    """Its reason hides those of the store, as each other error of the page does."""
    made = ShownLake("a/busy")
    browser = made.browser()
    browser.get("/api/fleet")
    made.store.fault = "403 for key-of-the-store"
    found = browser.get("/api/runs").json()["data"]
    assert found["missing"] == ["a/busy: 403 for ***"]


def test_a_fleet_without_tables_has_no_runs() -> None:
    """Nothing is waited for."""
    found = ShownLake().browser().get("/api/runs").json()["data"]
    assert (found["total"], found["runs"]) == (0, [])
