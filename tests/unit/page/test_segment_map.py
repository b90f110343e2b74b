"""The segment map of a table with a past, its replay, and a segment in full."""

import pytest

from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.page.segment_map import segment_map
from tests.support.worked_table import WorkedTable


@pytest.fixture(scope="module")
def worked() -> WorkedTable:
    """Return a table with a past."""
    return WorkedTable()


def test_a_joined_segment_lies_above_those_that_it_replaced(worked: WorkedTable) -> None:
    """Its width is that of its 14 inputs, which are hidden on the lane below."""
    found = worked.ask("/api/map")
    joined = next(cell for cell in found["cells"] if cell["generation"])
    hidden = [cell for cell in found["cells"] if cell["state"] == "hidden"]
    lanes = {lane["index"]: lane["generation"] for lane in found["lanes"]}
    assert (found["level"], found["total"], len(hidden)) == ("segments", 18, 14)
    assert joined["left"] == hidden[0]["left"]
    assert joined["right"] == hidden[-1]["right"]
    assert {lanes[cell["lane"]] for cell in hidden} == {0}
    assert lanes[joined["lane"]] == 1
    assert joined["deleted_share"] == 0.0
    assert [cell["deleted_share"] for cell in found["cells"][14:17]] == [1.0, 1.0, 1.0]


def test_the_map_of_an_earlier_version_is_that_of_the_log_folded_to_it(worked: WorkedTable) -> None:
    """Each version that is kept can be replayed."""
    log = worked.table.ports.log
    newest = log.load()
    events = [*log.events(0)]
    for version in (1, 7, 15, 18, newest.n):
        state = fold(None, events[: version + 1])
        assert state is not None
        expected = segment_map(state, newest=newest).model_dump(mode="json")
        assert worked.ask("/api/map", version=version) == expected


def test_a_window_without_segments_is_empty(worked: WorkedTable) -> None:
    """Nothing is shown, and the whole range is still known."""
    found = worked.ask("/api/map", start="2030-01-01", end="2030-02-01")
    assert (found["cells"], found["lanes"], found["total"]) == ([], [], 0)
    assert found["whole"]["start"] == "2026-01-05T00:00:00Z"


def test_an_empty_table_has_an_empty_map() -> None:
    """There is neither a range nor a cell."""
    worked = WorkedTable()
    worked.lake.create("a/empty")
    found = worked.browser.get("/api/map", table="a/empty").json()["data"]
    assert (found["range"], found["whole"], found["cells"]) == (None, None, [])


def test_changes_of_a_range_are_the_events_that_changed_its_segments_or_rows(
    worked: WorkedTable,
) -> None:
    """Appends, the compaction and the delete; neither requests nor tags."""
    found = worked.ask("/api/map/changes")
    kinds = [each["kind"] for each in found["changes"]]
    assert kinds == ["Changed", *["Appended"] * 3, "PlanCompleted", *["Appended"] * 14]
    elsewhere = worked.ask("/api/map/changes", start="2030-01-01")
    assert elsewhere["changes"] == []
    page = worked.ask("/api/map/changes", limit=2)
    older = worked.ask("/api/map/changes", limit=2, before=page["scanned_from"])
    assert [each["n"] for each in older["changes"]] == [each["n"] for each in found["changes"][2:4]]


def test_a_hidden_segment_names_the_one_that_replaced_it(worked: WorkedTable) -> None:
    """And that one names all that it replaced, with the plan."""
    cells = worked.ask("/api/map")["cells"]
    joined = next(cell for cell in cells if cell["generation"])
    below = worked.ask("/api/segment", id=cells[0]["id"])
    above = worked.ask("/api/segment", id=joined["id"])
    assert below["why"] == "hidden: 1 newer segment of generation 1 cover its partitions"
    assert below["replaced_by"] == [joined["id"]]
    assert len(above["replaces"]) == 14
    assert above["plan"].startswith("minor-")
    assert above["why"].startswith("readers see it")


def test_a_segment_has_the_row_groups_of_its_file(worked: WorkedTable) -> None:
    """With rows, bytes, and the least and greatest value of each column."""
    cells = worked.ask("/api/map")["cells"]
    found = worked.ask("/api/segment", id=cells[-1]["id"])
    (group,) = found["row_groups"]
    words = next(each for each in group["columns"] if each["column"] == "word")
    assert (group["rows"], words["least"], words["greatest"], words["nulls"]) == (14, "a", "a", 0)


def test_a_file_that_is_gone_is_said_to_be_so() -> None:
    """The rest of the segment is shown."""
    worked = WorkedTable()
    cell = worked.ask("/api/map")["cells"][-1]
    path = worked.ask("/api/segment", id=cell["id"])["path"]
    worked.table.ports.files.delete(path)
    again = WorkedTable.__new__(WorkedTable)
    again.lake, again.table, again.browser = worked.lake, worked.table, worked.lake.browser()
    found = again.ask("/api/segment", id=cell["id"])
    assert found["row_groups"] == []
    assert path in found["trouble"]


@pytest.mark.parametrize(
    ("path", "query", "status", "message"),
    [
        ("/api/map", {"version": 900}, 404, "no event 900"),
        ("/api/map", {"start": "yesterday"}, 400, "is not a time"),
        ("/api/map", {"start": "2026-02-01", "end": "2026-01-01"}, 400, "is empty"),
        ("/api/map", {"limit": 0}, 400, "limit"),
        ("/api/segment", {"id": "<script>"}, 400, "is not a segment id"),
        ("/api/segment", {"id": "20260105T000000_20260105T010000_1_7"}, 404, "it may have been"),
    ],
)
def test_nonsense_is_refused(
    worked: WorkedTable, path: str, query: dict[str, object], status: int, message: str
) -> None:
    """With a sentence."""
    assert worked.refused(path, **query)[0] == status
    assert message in worked.refused(path, **query)[1]
