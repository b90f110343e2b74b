"""The timeline: pages of events, plans as bars, and an event in full."""

import pytest

from airflow_provider_segtable.core.log.event import Stamp
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.page.event_list import ENTRIES, event_in_full
from airflow_provider_segtable.page.event_shelf import EventShelf, digest_of
from airflow_provider_segtable.page.plan_bars import bar_of
from tests.support.builders import BASE, after, created, first, minor_plan
from tests.support.worked_table import AUTHOR, WorkedTable


@pytest.fixture(scope="module")
def worked() -> WorkedTable:
    """Return a table with a past."""
    return WorkedTable()


def test_pages_follow_each_other_without_gap_or_overlap(worked: WorkedTable) -> None:
    """From the newest event to the first."""
    numbers: list[int] = []
    before: int | None = None
    while True:
        query = {} if before is None else {"before": before}
        page = worked.ask("/api/timeline", limit=5, **query)
        assert len(page["events"]) <= 5
        numbers += [each["n"] for each in page["events"]]
        before = page["before"]
        if before is None:
            break
    assert numbers == [*range(page["newest"], -1, -1)]
    assert page["total"] == len(numbers)


def test_an_event_says_how_rows_and_files_changed(worked: WorkedTable) -> None:
    """An append adds, a delete deletes, a compaction moves."""
    events = {each["n"]: each for each in worked.ask("/api/timeline", limit=100)["events"]}
    deleted = next(each for each in events.values() if each["kind"] == "Changed")
    moved = next(
        each for each in events.values() if each["plans"] and each["kind"] == "PlanCompleted"
    )
    assert (events[1]["rows_added"], events[1]["files_added"], events[1]["moved"]) == (1, 1, False)
    assert (deleted["rows_added"], deleted["rows_deleted"]) == (0, 3)
    assert (moved["rows_added"], moved["rows_deleted"], moved["moved"]) == (0, 0, True)
    assert (moved["files_removed"], moved["files_added"]) == (14, 1)
    assert moved["bytes_removed"] > moved["bytes_added"] > 0
    assert events[deleted["n"]]["tags"] == ["monday"]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ({"kind": "Changed"}, {"Changed"}),
        ({"search": "MINOR-"}, {"PlanRequested", "PlanInflight", "PlanCompleted"}),
        ({"kind": "Appended", "search": "minor-"}, set()),
    ],
)
def test_a_filter_leaves_events_of_a_kind_or_with_a_text(
    worked: WorkedTable, query: dict[str, str], kinds: set[str]
) -> None:
    """In the sentence, the author, the commit or the plan, whatever the case."""
    found = worked.ask("/api/timeline", **query)
    assert {each["kind"] for each in found["events"]} == kinds
    assert found["before"] is None


def test_a_plan_is_a_bar_from_its_request_to_its_end(worked: WorkedTable) -> None:
    """With the bytes and files that its run read and wrote."""
    (bar,) = worked.ask("/api/timeline")["plans"]
    assert bar["requested"] < bar["inflight"] < bar["completed"]
    assert (bar["kind"], bar["status"]) == ("minor", "completed")
    assert (bar["files_read"], bar["files_written"]) == (14, 1)


def test_a_page_has_the_plans_of_its_time(worked: WorkedTable) -> None:
    """No plan was requested before the first appends."""
    assert worked.ask("/api/timeline", before=5)["plans"] == []


def test_a_task_is_named_with_its_run() -> None:
    """The author of an event that a task made is its DAG, run and task."""
    state = after(created(), Appended(segments=(first(0), first(1))))
    plan = minor_plan([first(0), first(1)])
    at = Stamp(n=2, time=BASE + 5, commit="c", author=AUTHOR)
    bar = bar_of(PlanState.requested(plan, at))
    assert bar.task is not None
    assert bar.task.model_dump() == {
        "dag_id": "lake_minor",
        "run_id": "manual__2026-01-01T00:00:00+00:00",
        "task_id": "compact",
    }
    assert bar.completed is None
    assert state.n == 1


def test_an_event_in_full_is_its_json_with_long_lists_cut() -> None:
    """The number of entries that were left out is said."""
    segments = tuple(first(n) for n in range(ENTRIES + 50))
    event = Event(
        n=1, time=BASE + 1, commit="c", author="<b>me</b>", action=Appended(segments=segments)
    )
    found = event_in_full(event, created())
    assert found.body["author"] == "<b>me</b>"
    assert found.cut == 50
    assert len(found.body["action"]["segments"]) == ENTRIES
    assert found.touches == ["2013-01-01T00:00:00Z/2013-02-01T00:00:00Z"]


def test_an_event_that_is_not_there_is_refused_with_those_that_are(worked: WorkedTable) -> None:
    """Neither a later one nor a negative number."""
    for n in (900, -1):
        status, message = worked.refused("/api/event", n=n)
        assert (status, "choose one of these" in message) == (404, True)


def test_a_shelf_reads_an_event_once(worked: WorkedTable) -> None:
    """A second look, also at a longer stretch, reads only what is new."""
    log, shelf = worked.table.ports.log, EventShelf()
    first_look = shelf.between(log, "t", 3, 9)
    again = shelf.between(log, "t", 1, 9)
    assert [each.n for each in first_look] == [*range(3, 9)]
    assert again[2:] == first_look
    assert all(a is b for a, b in zip(again[2:], first_look, strict=True))


def test_the_completion_of_a_forgotten_plan_has_unknown_files() -> None:
    """None is not zero."""
    action = PlanCompleted(plan_id="minor-x", attempt="a", segments=(first(0),))
    event = Event(n=1, time=BASE + 1, commit="c", author="me", action=action)
    found = event_in_full(event, created()).line
    assert (found.files_added, found.files_removed, found.bytes_removed) == (1, None, None)
    assert digest_of(event).moved
