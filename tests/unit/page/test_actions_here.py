"""The actions of a page that acts in its own process."""

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.log.author import task_of
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.page.action_kind import author_named
from airflow_provider_segtable.page.actions_here import MOST_WAITING, ActionsHere
from airflow_provider_segtable.page.app import page_app
from airflow_provider_segtable.page.lake import Limits
from airflow_provider_segtable.page.rights import COOKIE, OnLoopback
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.services.attempt import begin
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from tests.support.action_contract import TAGGED, USER, ActionContract, World
from tests.support.shown_lake import Browser, ShownLake

TOKEN = "let-me-in"


class Here(World):
    """A table in memory; plans are carried out by a thread of the page."""

    def __init__(self, limits: Limits | None = None, fleet: Fleet | None = None) -> None:
        self.made = ShownLake(self.name, limits=limits, fleet=fleet)
        self.actions = ActionsHere()
        app = page_app(self.made.lake, OnLoopback(USER, Secret(TOKEN)), self.actions)
        self.browser = Browser(app, cookies={COOKIE: TOKEN})
        self.append(4)

    @property
    def ports(self) -> TableContext:
        """Return the table's ports."""
        return self.made.tables[self.name]

    def ended(self) -> State:
        """Return the newest state once the page answers: its only thread has ended its work."""
        while self.post("preview", "tag", name="later").status_code == 503:
            pass
        return self.state

    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Wait for the only thread that works."""
        del outcome
        self.actions.work.submit(lambda: None).result(20)


@pytest.fixture
def world() -> Here:
    """A table of four files, and a user with the token."""
    return Here()


class TestHere(ActionContract):
    """The contract."""


# Cleaning
def aged(world: Here) -> None:
    """Hide four files by a compaction, and let two days and more versions pass."""
    ids = [str(each.id) for each in world.state.timeline.visible_segments()]
    world.run("compact", kind="minor", segments=ids)
    world.made.clock.advance(48 * 3600)
    world.append(12)


def test_a_cleaning_deletes_what_it_says(world: Here) -> None:
    """Files and bytes of the preview are those that are gone then."""
    aged(world)
    shown = world.preview("clean")
    assert "4 data files deleted" in shown["effects"]
    before = len(world.state.timeline)
    done = world.run("clean")
    size = shown["sentence"].rpartition("; ")[2].removesuffix(" are freed.")
    assert size in done["sentence"]
    assert len(world.state.timeline) == before - 4
    assert world.preview("clean")["effects"] == ["There is nothing to delete."]


def test_a_busy_table_can_be_cleaned(world: Here) -> None:
    """However long a user thinks, and whatever is committed, the cleaning is the one shown."""
    aged(world)
    seal = world.preview("clean", versions=3)["seal"]
    kept = world.preview("clean", versions=3)["sentence"]
    world.made.clock.advance(3600 * 30)
    world.append(20)
    assert world.preview("clean", versions=3)["sentence"] != kept
    done = world.post("run", "clean", seal, versions=3)
    assert done.status_code == 200, done.text
    assert f"from {world.state.retained_from} on" in kept


def test_a_cleaning_that_would_delete_more_is_refused(world: Here) -> None:
    """Since the preview a tag was removed, which kept files."""
    world.run("tag", name="audit")
    aged(world)
    seal = world.preview("clean")["seal"]
    world.run("untag", name="audit")
    refused = world.post("run", "clean", seal)
    assert (refused.status_code, refused.json()["error"]) == (409, "Changed")
    assert "4 data files deleted" in world.preview("clean")["effects"]


def test_the_command_has_the_retention(world: Here) -> None:
    """Values that are not the table's own are options."""
    command = world.preview("clean", hours=2, versions=5)["command"]
    assert command.endswith(" --retention-hours 2 --retention-versions 5")


# Plans
def test_the_planner_requests_what_it_says(world: Here) -> None:
    """Kinds, segments and bytes of the preview are those of the requested plans."""
    world.append(20)
    shown = world.preview("plan")
    world.run("plan")
    (known,) = world.state.pending_plans()
    assert shown["sentence"] == "The planner finds 1 plan worthwhile now."
    assert shown["effects"][0].startswith(f"1 {known.plan.kind} plan: {len(known.plan.inputs)} seg")
    assert known.author.startswith(f"{USER}:")


def test_a_planner_that_finds_nothing_says_why(world: Here) -> None:
    """The reasons of what it leaves alone."""
    shown = world.preview("plan")
    assert shown["sentence"] == "The planner finds 0 plans worthwhile now."
    assert shown["effects"][0].startswith("left alone: ")


def test_the_fleet_gives_the_settings() -> None:
    """A planner by the page plans by the fleet's file, too."""
    text = "[properties]\ncompaction.min_segments = 3\n[groups.all]\ntables = ['**']\n"
    world = Here(fleet=read_fleet(text, "fleet.toml"))
    assert world.preview("plan")["sentence"] == "The planner finds 1 plan worthwhile now."


def test_too_much_work_is_left_to_the_next_worker(world: Here) -> None:
    """The plans are requested all the same."""
    gate = threading.Event()
    for _ in range(MOST_WAITING + 1):
        world.actions.work.submit(gate.wait)
    shown = world.preview("compact", kind="minor", interval="2026-01-05/2026-01-06")
    wished = {"kind": "minor", "interval": "2026-01-05/2026-01-06"}
    done = world.post("run", "compact", shown["seal"], **wished).json()
    gate.set()
    assert "`segtable compact` carries them out" in done["sentence"]
    assert len(world.state.pending_plans()) == 1


# Publishing
def test_a_table_is_published(world: Here) -> None:
    """The preview says that nothing is published yet, the outcome how many files are now."""
    shown = world.preview("publish", formats=["delta"])
    assert shown["effects"] == ["delta: nothing is published yet, so all files are named"]
    done = world.run("publish", formats=["delta"])
    assert done["sentence"] == "delta: event 4 was published, 4 files changed, 0 gone"
    world.append(1)
    behind = world.preview("publish", formats=["delta"])["effects"][0]
    assert behind == "delta: event 4 is published, 1 event behind"


# Locks
def held(world: Here, holder: str = "hangs:1") -> None:
    """Hold a lock of the first plan, which is in flight."""
    ports = replace(world.ports, author=holder)
    asked = request(ports, "minor", interval=Interval.parse("2026-01-05/2026-01-06"))
    begin(ports, asked[0], ports.log.load(), wait_s=0)


def test_a_lock_is_released(world: Here) -> None:
    """The holder cannot commit any more; the event that its plan waits again is the user's."""
    held(world)
    (lock,) = world.ports.coordinator.locks(world.state.table.table_id)
    shown = world.preview("unlock", group=lock.group)
    assert shown["sentence"] == f"hangs:1 loses its lock for {lock.purpose}."
    done = world.run("unlock", group=lock.group)
    assert world.authors(done["event"]) == USER
    assert not world.ports.coordinator.locks(world.state.table.table_id)
    (known,) = world.state.pending_plans()
    assert (known.status, known.yields) == (PlanStatus.REQUESTED, 1)
    assert f"released by {USER}:" in known.note


def test_a_lock_of_another_holder_is_not_released(world: Here) -> None:
    """The one that was shown has ended, and another worker has a lock of this name."""
    held(world)
    (lock,) = world.ports.coordinator.locks(world.state.table.table_id)
    seal = world.preview("unlock", group=lock.group)["seal"]
    coordinator, table = world.ports.coordinator, world.state.table.table_id
    coordinator.break_lock(table, lock.group)
    world.made.clock.advance(5)
    coordinator.acquire(
        LockRequest(table=table, group=lock.group, purpose="other", holder="works:2"), wait_s=0
    )
    assert world.post("run", "unlock", seal, group=lock.group).status_code == 409
    assert len(coordinator.locks(table)) == 1


def test_without_zookeeper_locks_are_unknown_and_tags_are_not(world: Here) -> None:
    """The message names ZooKeeper; what needs none works."""
    ports = world.made.tables[world.name]
    world.made.tables[world.name] = replace(ports, optional_coordinator=None)
    found = world.post("preview", "unlock", group="g")
    assert (found.status_code, found.json()["error"]) == (503, "CoordinatorUnavailable")
    world.run("tag", **TAGGED)
    assert world.state.tags == {"audit": 4}


# Rights
def test_a_page_without_a_token_changes_nothing(world: Here) -> None:
    """Preview and run are refused alike, and the session says so."""
    reading = Browser(page_app(world.made.lake, OnLoopback(USER)))
    body = {"table": world.name, "action": "tag", "arguments": TAGGED}
    for path, more in (("preview", {}), ("run", {"seal": "1.1." + "0" * 32})):
        found = reading.post(f"/api/{path}", {**body, **more})
        assert (found.status_code, found.json()["error"]) == (403, "Refused")
        assert "read-only" in found.json()["message"]
    session = reading.get("/api/session").json()["data"]
    assert (session["read_only"], session["actions"]) == (True, [])
    assert reading.get("/api/actions", table=world.name).json()["data"] == {"actions": []}
    assert world.state.n == 4


def test_a_wrong_token_is_refused(world: Here) -> None:
    """As any other request."""
    world.browser.cookies[COOKIE] = "guessed"
    assert world.post("run", "tag", "", **TAGGED).status_code == 401


def test_a_table_outside_of_the_lake_is_not_found(world: Here) -> None:
    """Its name leads out of the root."""
    body = {"table": "../other", "action": "tag", "arguments": TAGGED}
    assert world.browser.post("/api/preview", body).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"table": "events", "action": "tag", "arguments": TAGGED, "more": 1},
        {"table": "events", "action": "tag", "arguments": {"name": {"a": 1}}},
        {"table": "events", "action": "tag", "arguments": {str(n): n for n in range(17)}},
        {"table": "", "action": "tag"},
        {"action": "tag"},
        [],
    ],
)
def test_another_body_is_refused(world: Here, body: Any) -> None:
    """With 400, and the name of what does not fit."""
    found = world.browser.post("/api/run", body)
    assert (found.status_code, found.json()["error"]) == (400, "InvalidInput")


@pytest.mark.parametrize(
    ("user", "author"),
    [
        ("analyst", "analyst:abcdef"),
        ("First Last", "First_Last:abcdef"),
        ("a dag/run/task", "a_dag_run_task:abcdef"),
        ("<b>analyst</b>\n", "_b_analyst_b_:abcdef"),
        ("analyst@example.org", "analyst@example.org:abcdef"),
        ("", "unknown:abcdef"),
        ("x" * 500, f"{'x' * 80}:abcdef"),
    ],
)
def test_a_user_is_an_author(user: str, author: str) -> None:
    """A name is no task, and no more than one word."""
    assert author_named(user, "abcdef0123") == author
    assert task_of(author) == ""


# A slow store, and two at once
def test_a_run_that_takes_too_long_goes_on() -> None:
    """The answer says that it may have been done; the timeline has it later."""
    slow = Here(Limits(limit_s=0.3, threads=1))
    seal = slow.preview("tag", **TAGGED)["seal"]
    slow.made.store.gate.clear()
    found = slow.post("run", "tag", seal, **TAGGED)
    slow.made.store.gate.set()
    assert (found.status_code, found.json()["error"]) == (503, "Unanswered")
    assert "look at the timeline" in found.json()["message"]
    assert slow.ended().tags == {"audit": 4}


def test_a_confirmation_that_is_sent_twice_at_once_counts_once(world: Here) -> None:
    """A double click restores once."""
    world.append(1)
    seal, before = world.preview("restore", version=4)["seal"], world.state.n
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(world.post, "run", "restore", seal, version=4) for _ in range(4)]
        codes = {each.result().status_code for each in sent}
    assert codes <= {200, 409}
    assert (200 in codes, world.state.n) == (True, before + 1)


def test_no_credential_is_in_a_preview(world: Here) -> None:
    """Texts of the table and of the store are shown without them."""
    shown = world.preview("tag", name="key-of-the-store")
    assert "key-of-the-store" not in json.dumps(shown)
