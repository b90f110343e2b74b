"""What any adapter of the page's actions does: preview, confirm, run; nothing without a right.

A world is a table of small files in a lake, and a browser at its page. Its adapter acts in this
process, or by events and DAG runs of Airflow.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from httpx import Response

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.table import Table
from tests.support.shown_lake import SCHEMA, Browser

USER = "me"
TAGGED = {"name": "audit"}
BAD: Sequence[tuple[str, Mapping[str, Any], str]] = (
    ("tag", {"name": "<img src=x>"}, "'<img src=x>' is not a tag name"),
    ("tag", {}, "tag: name"),
    ("tag", {"name": "a", "days": 3}, "tag: days = 3"),
    ("tag", {"name": "a", "version": "new"}, "tag: version = 'new'"),
    ("tag", {"name": "a", "version": -1}, "tag: version = -1"),
    ("untag", {"name": "b"}, "there is no tag 'b'"),
    ("restore", {}, "version, as_of or tag"),
    ("restore", {"version": 1, "tag": "a"}, "version, as_of or tag"),
    ("restore", {"as_of": "yesterday"}, "'yesterday'"),
    ("compact", {"kind": "minor"}, "segments or an interval"),
    ("compact", {"kind": "huge", "interval": "2026-01-05/2026-01-06"}, "'huge'"),
    ("compact", {"kind": "minor", "segments": ["x"]}, "'x' is not a segment id"),
    ("compact", {"kind": "minor", "segments": []}, "compact: segments = []"),
    ("clean", {"hours": -1}, "clean: hours = -1"),
    ("clean", {"versions": 0}, "clean: versions = 0"),
    ("index", {"name": "i", "kind": "magic"}, "'magic'"),
    ("index", {"name": "i", "columns": ["none"]}, "none"),
    ("rebuild_index", {"name": "i"}, "no index 'i'"),
    ("publish", {}, "in no format"),
    ("publish", {"formats": ["csv"]}, "'csv'"),
    ("unlock", {"group": "g"}, "no lock of group 'g'"),
    ("burn", {}, "'burn'"),
)
"""Actions with arguments that are refused, and what the refusal names."""


class World(ABC):
    """A table ``name`` with four small files in one chunk, shown by a page that may change it."""

    name = "events"
    browser: Browser

    @property
    @abstractmethod
    def ports(self) -> TableContext:
        """Return the table's ports in another process."""

    @abstractmethod
    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Wait until the work of an outcome has ended, if need be by carrying it out."""

    @property
    def state(self) -> State:
        """Return the newest state."""
        return self.ports.log.load()

    def append(self, files: int = 1, word: str = "a", hour: int = 0) -> None:
        """Append small files of one hour."""
        at = datetime(2026, 1, 5, hour, 1, tzinfo=UTC)
        for _ in range(files):
            Table(self.ports).append(pa.table({"at": [at], "word": [word]}, schema=SCHEMA))

    def post(self, path: str, action: str, seal: str = "", **arguments: Any) -> Response:
        """Send an action to ``preview`` or ``run``."""
        body = {"table": self.name, "action": action, "arguments": arguments}
        return self.browser.post(f"/api/{path}", body | ({"seal": seal} if path == "run" else {}))

    def preview(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Return a preview."""
        found = self.post("preview", action, **arguments)
        assert found.status_code == 200, found.text
        shown: dict[str, Any] = found.json()["data"]
        return shown

    def run(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Preview an action, confirm it, and let its work end; return the outcome."""
        shown = self.preview(action, **arguments)
        done = self.post("run", action, shown["seal"], **arguments)
        assert done.status_code == 200, done.text
        outcome: dict[str, Any] = done.json()
        self.finish(outcome)
        return outcome

    def authors(self, n: int | None) -> str:
        """Return the name of an event's author."""
        event = self.ports.log.event(n or 0)
        assert event is not None
        return event.author.rpartition(":")[0]

    def files(self) -> int:
        """Return the number of visible files."""
        return len(self.state.timeline.visible_segments())


class ActionContract:
    """The claims that hold for each adapter; a subclass has the fixture ``world``."""

    def test_a_tag_is_one_event_of_the_user(self, world: World) -> None:
        """The preview names the version, the event its author, and the timeline has it."""
        shown = world.preview("tag", **TAGGED)
        before = world.state.n
        assert f"Version {before} " in shown["sentence"]
        assert "4 rows in 4 files" in shown["effects"][0]
        done = world.run("tag", **TAGGED)
        assert world.state.tags == {"audit": before}
        assert (done["event"], world.authors(done["event"])) == (before + 1, USER)

    def test_a_tag_is_of_the_version_that_was_shown(self, world: World) -> None:
        """Commits between preview and run change neither the right nor the version."""
        shown = world.preview("tag", **TAGGED)
        n = world.state.n
        world.append(2)
        assert world.post("run", "tag", shown["seal"], **TAGGED).status_code == 200
        assert world.state.tags == {"audit": n}

    def test_a_tag_is_removed(self, world: World) -> None:
        """The preview says what keeps the version then."""
        world.run("tag", **TAGGED)
        assert "until its retention ends" in world.preview("untag", **TAGGED)["effects"][0]
        world.run("untag", **TAGGED)
        assert world.state.tags == {}

    def test_a_restore_brings_back_what_it_says(self, world: World) -> None:
        """Rows and segments of the preview are those that are visible then."""
        n = world.state.n
        world.append(3, word="b")
        shown = world.preview("restore", version=n)
        assert "4 rows in 4 segments instead of 7 rows in 7 segments" in shown["effects"][0]
        done = world.run("restore", version=n)
        assert world.files() == 4
        assert world.authors(done["event"]) == USER

    def test_a_restore_is_refused_if_it_would_undo_what_was_not_shown(self, world: World) -> None:
        """An append to another time is not undone unseen; one to the same time is no change."""
        n = world.state.n
        world.append(1)
        shown = world.preview("restore", version=n)
        world.append(1)
        again = world.preview("restore", version=n)
        world.append(1, hour=7)
        refused = world.post("run", "restore", again["seal"], version=n)
        assert (refused.status_code, refused.json()["error"]) == (409, "Changed")
        assert "Nothing was done" in refused.json()["message"]
        assert world.files() == 7
        assert shown["seal"].rpartition(".")[2] == again["seal"].rpartition(".")[2]

    def test_a_restore_runs_once(self, world: World) -> None:
        """The same confirmation twice is one event."""
        n = world.state.n
        world.append(1)
        shown = world.preview("restore", version=n)
        first = world.post("run", "restore", shown["seal"], version=n)
        last = world.state.n
        world.post("run", "restore", shown["seal"], version=n)
        assert (first.status_code, world.state.n) == (200, last)

    def test_chosen_segments_are_compacted(self, world: World) -> None:
        """The plan of the preview is the plan that is carried out; the user requested it."""
        ids = [str(each.id) for each in world.state.timeline.visible_segments()][:3]
        shown = world.preview("compact", kind="minor", segments=ids)
        assert shown["sentence"].startswith("1 minor plan: 3 segments")
        done = world.run("compact", kind="minor", segments=ids)
        assert world.files() == 2
        assert world.authors(done["event"]) == USER
        (plan,) = world.state.plans.values()
        assert f"asked for by {USER}:" in plan.plan.reason

    def test_a_busy_table_can_be_compacted(self, world: World) -> None:
        """What is appended to the interval meanwhile is left for later."""
        wished = {"kind": "minor", "interval": "2026-01-05/2026-01-06"}
        shown = world.preview("compact", **wished)
        world.append(2)
        done = world.post("run", "compact", shown["seal"], **wished)
        assert done.status_code == 200, done.text
        world.finish(done.json())
        assert world.files() == 1 + 2

    def test_a_compaction_twice_is_one_plan(self, world: World) -> None:
        """The second run of a confirmation finds the plan of the first."""
        wished = {"kind": "minor", "interval": "2026-01-05/2026-01-06"}
        shown = world.preview("compact", **wished)
        outcomes = [world.post("run", "compact", shown["seal"], **wished) for _ in range(2)]
        assert [each.status_code for each in outcomes] == [200, 200]
        for each in outcomes:
            world.finish(each.json())
        assert (len(world.state.plans), world.files()) == (1, 1)

    def test_segments_that_were_replaced_are_not_compacted(self, world: World) -> None:
        """Another compaction in between is a conflict, and nothing is written."""
        ids = [str(each.id) for each in world.state.timeline.visible_segments()]
        shown = world.preview("compact", kind="minor", segments=ids)
        world.run("compact", kind="minor", segments=ids[:2])
        before = world.state.n
        refused = world.post("run", "compact", shown["seal"], kind="minor", segments=ids)
        assert (refused.status_code, world.state.n) == (409, before)

    def test_an_index_is_requested_and_built(self, world: World) -> None:
        """The request is an event of the user; the build indexes the files of the preview."""
        done = world.run("index", name="words", columns=["word"])
        assert world.authors(done["event"]) == USER
        assert "4 files" in world.preview("build_index", name="words")["effects"][0]
        world.run("build_index", name="words")
        assert world.state.indexes["words"].current
        again = world.post("preview", "build_index", name="words")
        assert (again.status_code, again.json()["error"]) == (400, "InvalidInput")
        old = world.state.indexes["words"].definition.id
        world.run("rebuild_index", name="words")
        assert world.state.indexes["words"].definition.id != old

    def test_a_bad_argument_is_named(self, world: World) -> None:
        """Before anything is written, by preview and run alike, with the value."""
        before = world.state.n
        for action, arguments, named in BAD:
            for path in ("preview", "run"):
                found = world.post(path, action, "1.1." + "0" * 32, **arguments)
                assert (found.status_code, action) == (400, action), found.text
                assert named in found.json()["message"]
            assert (world.state.n, action) == (before, action)

    def test_nothing_is_run_that_was_not_shown(self, world: World) -> None:
        """A run without the seal of its preview is refused."""
        before = world.state.n
        for seal in ("", "1.2.3", f"0.0.{'a' * 32}", f"99.99.{'0' * 32}"):
            found = world.post("run", "tag", seal, **TAGGED)
            assert (found.status_code, found.json()["error"], seal) == (409, "Changed", seal)
            assert (world.state.n, seal) == (before, seal)

    def test_a_seal_is_for_one_action_and_its_arguments(self, world: World) -> None:
        """The seal of one name tags no other one."""
        shown = world.preview("tag", **TAGGED)
        assert world.post("run", "tag", shown["seal"], name="other").status_code == 409
        assert world.post("run", "untag", shown["seal"], **TAGGED).status_code == 400
        assert world.state.tags == {}

    def test_a_foreign_page_runs_nothing(self, world: World) -> None:
        """Without the page's header, or from another origin, a request is refused."""
        seal = world.preview("tag", **TAGGED)["seal"]
        body = {"table": world.name, "action": "tag", "arguments": TAGGED, "seal": seal}
        forged = [
            {"X-Segtable-Page": ""},
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ]
        for headers in forged:
            assert world.browser.post("/api/run", body, headers).status_code == 403
        assert world.state.tags == {}

    def test_the_command_does_the_same(self, world: World) -> None:
        """It is one line for a shell, with each value quoted."""
        command = world.preview("tag", name="audit-1", version=2)["command"]
        assert command.startswith("segtable tag ")
        assert command.endswith(" audit-1 --version 2")

    def test_every_action_is_allowed_with_the_right(self, world: World) -> None:
        """The session names all actions; the table says which of them are allowed."""
        names = world.browser.get("/api/session").json()["data"]["actions"]
        found = world.browser.get("/api/actions", table=world.name).json()["data"]["actions"]
        assert [each["name"] for each in found] == names
        assert {each["name"] for each in found if each["allowed"]} >= {"tag", "compact", "plan"}

    def test_a_table_that_is_gone_is_not_found(self, world: World) -> None:
        """It is dropped between preview and run."""
        seal = world.preview("tag", **TAGGED)["seal"]
        drop(world.ports)
        found = world.post("run", "tag", seal, **TAGGED)
        assert found.status_code == 404
