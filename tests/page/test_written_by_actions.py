"""Each action by its dialog: shown before, asked once, then in the timeline by its user's name.

The last module by its name: the questions are asked of a lake in which no action was taken.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.services.attempt import Attempt, begin
from airflow_provider_segtable.services.request import request
from tests.page.airflow import LookedAt
from tests.page.chromium import Window
from tests.page.conftest import Opening
from tests.page.lake import RETURNS, SENSORS
from tests.page.views import table_hash

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
USER = "operator"


@pytest.fixture
def returns(airflow: LookedAt, zookeeper: EmbeddedZooKeeper) -> Table:
    """The table that is acted on."""
    return Table.open(str(airflow.lake / RETURNS), zookeeper=zookeeper.address)


class Actor:
    """A user who acts on a table by the page."""

    def __init__(self, airflow: LookedAt, window: Window, table: str = RETURNS) -> None:
        self.airflow, self.window, self.table = airflow, window, table

    def goes(self, view: str) -> Any:
        """Go to a view, and return the page."""
        self.window.page.goto(f"{self.airflow.lake_page}{table_hash(self.table, view)}")
        self.window.page.reload()
        self.window.settle()
        return self.window.page

    def does(
        self, view: str, button: str, fields: Mapping[str, str] | None = None, *, nth: int = 0
    ) -> str:
        """Press a button, fill the dialog in, agree, and return what was done."""
        page = self.goes(view)
        page.get_by_role("button", name=button, exact=True).nth(nth).click()
        return self.agrees(fields or {})

    def agrees(self, fields: Mapping[str, str]) -> str:
        """Fill the open dialog in, look at the preview, and agree."""
        dialog = self.window.page.locator("dialog")
        for label, value in fields.items():
            field = dialog.get_by_label(label)
            if field.evaluate("each => each.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        if fields:
            dialog.get_by_role("button", name="Preview").click()
        dialog.locator(".sentence").wait_for()
        name = re.sub(r"\W+", "-", dialog.locator("h2").inner_text().lower())
        self.window.picture(f"action-{name}-1")
        assert self.window.axe() == []
        dialog.locator(".buttons .primary").click()
        done = dialog.locator(".notice").first
        done.wait_for()
        self.window.picture(f"action-{name}-2")
        return str(done.inner_text())

    def follows(self) -> str:
        """Follow the dialog's link to the event; return that event's line, and its picture."""
        page = self.window.page
        page.locator("dialog a[href*=event]").click()
        line = page.locator("tr.selected")
        line.wait_for()
        return str(line.inner_text())


@pytest.fixture
def actor(airflow: LookedAt, reader: Opening) -> Actor:
    """A user who may trigger DAGs."""
    return Actor(airflow, reader(USER))


def run_of(text: str) -> tuple[str, str]:
    """Return DAG and run of an outcome, or of a link to a run."""
    found = re.search(r"dags/([^/]+)/runs/([^/?]+)", text)
    assert found is not None, text
    return found[1], found[2]


def test_a_version_is_tagged_restored_and_its_tag_removed(actor: Actor, returns: Table) -> None:
    """Events in the user's name."""
    before = returns.state().n
    assert "reviewed" in actor.does("overview", "Tag this version", {"Name": "reviewed"})
    assert USER in actor.follows()
    page = actor.goes("overview")
    page.get_by_role("row", name="reviewed").get_by_role("button", name="Remove").click()
    actor.agrees({})
    assert USER in actor.follows()
    assert "reviewed" not in returns.state().tags
    page = actor.goes("timeline")
    page.get_by_role("button", name=str(before - 6), exact=True).click()
    page.get_by_role("button", name="Restore this version").click()
    actor.agrees({})
    assert USER in actor.follows()
    actor.window.picture("timeline-after-restore")


def test_an_index_is_requested_and_built_again(actor: Actor, returns: Table) -> None:
    """A new index, and an old one anew; a DAG run builds what is lacking."""
    fields = {"Name": "countries", "Kind": "bloom_filter", "Columns": "country"}
    actor.does("indexes", "Request an index", fields)
    assert USER in actor.follows()
    assert "countries" in returns.state().indexes
    actor.does("indexes", "Build what it lacks")
    dag_id, run_id = linked_run(actor)
    assert triggered_by(actor.airflow, dag_id, run_id) == USER
    assert actor.airflow.wait_run(dag_id, run_id, timeout_s=400).state == "success"
    page = actor.goes("timeline")
    assert "segtable_index__lake" in page.locator("table.data").inner_text()
    actor.does("indexes", "Rebuild", nth=0)


def test_a_time_is_compacted_by_a_dag_run(actor: Actor) -> None:
    """The request has the user's name; a DAG run carries it out. Both are in the timeline."""
    actor.table = SENSORS
    actor.does("plans", "Compact", {"Kind": "major"})
    dag_id, run_id = linked_run(actor)
    assert dag_id == "segtable_major__lake"
    assert actor.airflow.wait_run(dag_id, run_id, timeout_s=400).state == "success"
    page = actor.goes("timeline")
    lines = page.locator("table.data tbody tr").all_inner_texts()
    assert any(USER in each and "major" in each for each in lines)
    assert any(dag_id in each for each in lines)
    actor.window.picture("timeline-after-compaction")


@pytest.mark.parametrize(
    ("view", "button", "dag"),
    [
        ("plans", "Plan now", "segtable_planner__lake"),
        ("overview", "Clean", "segtable_upkeep__lake"),
        ("published", "Publish now", "segtable_upkeep__lake"),
    ],
)
def test_a_dag_run_is_triggered_in_the_users_name(
    actor: Actor, view: str, button: str, dag: str
) -> None:
    """The dialog names the run, and Airflow knows who triggered it."""
    actor.does(view, button)
    dag_id, run_id = linked_run(actor)
    assert dag_id == dag
    assert triggered_by(actor.airflow, dag_id, run_id) == USER


def test_a_lock_is_taken_away(actor: Actor, returns: Table) -> None:
    """A worker hangs: the user takes its lock, and the plan's event says so."""
    ports = replace(returns.ports, author="hangs-1:7")
    whole = Interval.parse("2026-03-01/2026-04-01")
    asked = request(ports, "major", interval=whole)
    held = begin(ports, asked[0], ports.log.load(), wait_s=30)
    assert isinstance(held, Attempt)
    assert "was released" in actor.does("locks", "Unlock")
    assert USER in actor.follows()


def test_who_may_only_look_finds_no_button(airflow: LookedAt, reader: Opening) -> None:
    """A viewer sees the views; nothing to press, and the server refuses what is sent anyway."""
    viewer = Actor(airflow, reader("viewer"))
    page = viewer.goes("overview")
    assert page.get_by_role("button", name="Tag this version").count() == 0
    refused = page.evaluate(
        """async (table) => {
          const headers = {"X-Segtable-Page": "1", "Content-Type": "application/json"};
          const body = JSON.stringify({table, action: "tag", arguments: {name: "mine"}});
          const answer = await fetch("api/preview", {method: "POST", headers, body});
          return [answer.status, (await answer.json()).message];
        }""",
        RETURNS,
    )
    assert refused[0] == 403
    viewer.window.expected.append("403")


def linked_run(actor: Actor) -> tuple[str, str]:
    """Return DAG and run of the open dialog's link."""
    return run_of(actor.window.page.locator("dialog a[href*='/runs/']").get_attribute("href"))


def triggered_by(airflow: LookedAt, dag_id: str, run_id: str) -> str:
    """Return the user who triggered a run."""
    where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
    return str(airflow._ask(where)["triggering_user_name"])
