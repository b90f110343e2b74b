"""``segtable ui``: the page of real folders on loopback, with and without a token."""

import getpass
import os
import shlex
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.cli.commands.ui_command import _listening, _page
from airflow_provider_segtable.core.errors import InvalidInput, NotATable
from airflow_provider_segtable.core.secret import Secret, SecretOptions
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.page.rights import COOKIE
from airflow_provider_segtable.page.sources import sources_at
from tests.support.shown_lake import SCHEMA, Browser

FLEET = '[fleet]\nname = "lake"\n[groups.raw]\ntables = ["raw/*"]\n'


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables below a root, and one below another."""
    for name in ("one/raw/a", "one/b", "two/c"):
        Table.create(str(tmp_path / name), schema=SCHEMA, time_column="at")
    return tmp_path


def browser(*roots: Path, fleet: Path | None = None, token: Secret | None = None) -> Browser:
    given = [str(root) for root in roots]
    return Browser(_page(given, str(fleet) if fleet else None, None, {}, token))  # type: ignore[arg-type]


def names(asking: Browser) -> list[str]:
    lines = asking.get("/api/fleet", sort="table").json()["data"]["lines"]
    return [line["table"] for line in lines]


def test_all_tables_below_a_root_are_shown(lake: Path) -> None:
    """By their paths below it."""
    assert names(browser(lake / "one")) == ["b", "raw/a"]


def test_tables_of_several_roots_are_told_apart_by_the_roots_names(lake: Path) -> None:
    """Each name begins with the last part of its root; a second one like it gets a number."""
    assert names(browser(lake / "one", lake / "two")) == ["one/b", "one/raw/a", "two/c"]
    found = sources_at([str(lake / "one"), str(lake / "one")])
    assert list(found) == ["one", "one-1"]


def test_a_root_may_be_one_table(lake: Path) -> None:
    """It is the only one that is shown, and no other of its folder can be opened."""
    asking = browser(lake / "one" / "b")
    assert names(asking) == ["b"]
    assert asking.get("/api/table", table="raw/a").status_code == 404


def test_a_folder_that_is_not_there_is_refused(lake: Path) -> None:
    """An empty page would not say that the name is wrong."""
    with pytest.raises(InvalidInput, match="there is no folder"):
        browser(lake / "three")


def test_a_fleet_file_says_which_tables(lake: Path) -> None:
    """Its root, or by default its folder, is where their names begin."""
    (lake / "one" / "fleet.toml").write_text(FLEET)
    asking = browser(fleet=lake / "one" / "fleet.toml")
    assert names(asking) == ["raw/a"]
    assert asking.get("/api/session").json()["data"]["fleet"] == "lake"


def test_several_roots_for_one_fleet_file_are_refused(lake: Path) -> None:
    """Names of tables would mean two places."""
    (lake / "fleet.toml").write_text(FLEET)
    with pytest.raises(InvalidInput, match="2 roots given"):
        browser(lake / "one", lake / "two", fleet=lake / "fleet.toml")


def test_the_printed_address_gives_the_token_to_the_browser(lake: Path) -> None:
    """As a cookie that scripts cannot read; the address of the page does not have it any more."""
    asking = browser(lake, token=Secret("let-me-in"))
    assert asking.get("/").status_code == 401
    assert asking.get("/", token="wrong").status_code == 401
    entered = asking.get("/", token="let-me-in")
    cookie = entered.headers["set-cookie"]
    assert (entered.status_code, entered.headers["location"]) == (303, "./")
    assert cookie.startswith(f"{COOKIE}=let-me-in; HttpOnly; Path=/; SameSite=strict")
    asking.cookies[COOKIE] = "let-me-in"
    assert asking.get("/").status_code == 200


def test_a_table_is_changed_with_the_token_alone(lake: Path) -> None:
    """A tag is one event, whose author is the user of this machine; without a token, none."""
    body = {"table": "b", "action": "tag", "arguments": {"name": "audit"}}
    assert browser(lake / "one").post("/api/preview", body).status_code == 403
    asking = browser(lake / "one", token=Secret("let-me-in"))
    asking.cookies[COOKIE] = "let-me-in"
    shown = asking.post("/api/preview", body).json()["data"]
    assert asking.post("/api/run", {**body, "seal": shown["seal"]}).status_code == 200
    log = Table.open(str(lake / "one" / "b")).ports.log
    event = log.event(1)
    assert log.load().tags == {"audit": 0}
    assert event is not None
    assert event.author.startswith(f"{getpass.getuser()}:")


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("plan", {}),
        ("compact", {"kind": "minor", "interval": "2026-01-05/2026-01-06"}),
        ("clean", {"hours": 2, "versions": 3, "orphan_hours": 100}),
        ("tag", {"name": "audit"}),
        ("untag", {"name": "known"}),
        ("restore", {"version": 1}),
        ("restore", {"tag": "known", "columns": True}),
        ("index", {"name": "words", "kind": "bloom_filter", "columns": ["word"]}),
        ("build_index", {"name": "known"}),
        ("rebuild_index", {"name": "known"}),
        ("publish", {"formats": ["delta"], "full": True}),
    ],
)
def test_the_command_of_a_preview_is_one(
    lake: Path, monkeypatch: pytest.MonkeyPatch, action: str, arguments: dict[str, Any]
) -> None:
    """It is taken as it stands, and does the same as the action."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid.uuid4().hex}")
    table = Table.open(str(lake / "one" / "b"), zookeeper=os.environ["SEGTABLE_ZOOKEEPER"])
    for minute in range(2):
        at = [datetime(2026, 1, 5, 0, minute, tzinfo=UTC)]
        table.append(pa.table({"at": at, "word": ["a"]}, schema=SCHEMA))
    table.tag("known", version=1)
    table.create_index("known", columns=["word"])
    asking = browser(lake / "one", token=Secret("let-me-in"))
    asking.cookies[COOKIE] = "let-me-in"
    body = {"table": "b", "action": action, "arguments": arguments}
    words = shlex.split(asking.post("/api/preview", body).json()["data"]["command"])
    assert words[0] == "segtable"
    done = CliRunner().invoke(app, words[1:], input="y\n")
    assert done.exit_code == 0, done.output


def test_a_port_that_is_taken_names_the_way_out() -> None:
    """Another one, or any that is free."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(InvalidInput, match="--port 0 for any that is free"):
            _listening(other.getsockname()[1])


def test_it_listens_on_loopback_alone() -> None:
    """No other machine can reach it."""
    with _listening(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_source_shows_no_credential() -> None:
    """Its label and its texts hide what the options have, and where ZooKeeper is."""
    options = SecretOptions({"secret_access_key": "key-of-the-store"})
    (source,) = sources_at(["memory://ui-lake/x"], storage_options=options).values()
    assert source.safe("403 for key-of-the-store") == "403 for ***"
    assert source.safe("none answers at zk://zk1:2181/lake (10 s)") == "none answers at *** (10 s)"
    assert "key-of-the-store" not in repr(source)
    with pytest.raises(NotATable):
        source.opening("none").log.load()
    source.close()
