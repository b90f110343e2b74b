"""The page in Airflow: its own users and rights guard it, and configuration names its tables."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.page.answer import NotSetUp
from airflow_provider_segtable.ui import lake_page
from airflow_provider_segtable.ui.lake_page import sources
from airflow_provider_segtable.ui.lazy_page import LazyPage, made
from airflow_provider_segtable.ui.plugin import SegtablePlugin, address
from tests.support.shown_lake import Browser

from .conftest import CONNECTION, SCHEMA

pytestmark = [pytest.mark.airflow]
FLEET = """
[fleet]
name = "lake"
[groups.flights]
tables = ["flights"]
objective = {files_read = 1}
"""
FILES = ("", "api/session", "api/fleet", "api/fleet/changes", "api/table", "lake.svg")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with a table of two files, which the default connection names."""
    root = tmp_path_factory.mktemp("lake")
    table = Table.create(
        str(root / "flights"),
        schema=SCHEMA,
        time_column="time_hour",
        zookeeper="memory://page",
    )
    for row in range(2):
        times = [datetime(2026, 1, 5, row, tzinfo=UTC)]
        table.append(pa.table({"time_hour": times, "row": [row]}, schema=SCHEMA))
    secret = {"secret_access_key": "key-of-the-store"}
    given = {"conn_type": "segtable", "host": str(root), "extra": {"storage_options": secret}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECTION, json.dumps(given))
        patch.delenv("SEGTABLE_FLEET", raising=False)
        yield root


@pytest.fixture(scope="module")
def airflow(lake: Path, airflow_db: None) -> Any:  # noqa: ARG001  # they have to be there
    """Return Airflow's API server, with its own users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0" * 64)
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        yield create_app(apps="core")


def browser(airflow: Any, role: str | None, *, cookie: bool = True) -> Browser:
    """Return the browser of a user with a role."""
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="analyst", role=role))
    return Browser(airflow, cookies={"_token": token} if cookie else {})


def test_a_viewer_sees_the_tables_below_the_connections_root(airflow: Any, lake: Path) -> None:
    """The cookie of Airflow's own page is enough."""
    asking = browser(airflow, "VIEWER")
    session = asking.get("/segtable/api/session").json()["data"]
    assert (session["user"], session["authenticated"], session["airflow"]) == (
        "analyst",
        True,
        True,
    )
    assert session["places"] == [str(lake)]
    lines = asking.get("/segtable/api/fleet").json()["data"]["lines"]
    assert [(line["table"], line["files"], line["rows"]) for line in lines] == [("flights", 2, 2)]
    shown = asking.get("/segtable/api/table", table="flights")
    assert shown.json()["data"]["counts"]["segments"] == 2
    assert "key-of-the-store" not in shown.text


@pytest.mark.parametrize("path", FILES)
def test_nobody_sees_anything_without_a_login(airflow: Any, path: str) -> None:
    """Files are refused as well as answers, and a token that is none."""
    unknown = Browser(airflow).get(f"/segtable/{path}", table="flights")
    forged = Browser(airflow, cookies={"_token": "e30.e30.e30"}).get(f"/segtable/{path}")
    assert (unknown.status_code, forged.status_code) == (401, 403)
    assert set(unknown.json()) == {"error", "message", "way_out"}


@pytest.mark.parametrize("path", FILES)
def test_a_user_without_the_right_sees_nothing(airflow: Any, path: str) -> None:
    """Airflow's own rule decides: a user without a role may see no plugin's page."""
    found = browser(airflow, None).get(f"/segtable/{path}", table="flights")
    assert found.status_code == 403


def test_a_page_that_cannot_be_made_refuses_everything(caplog: pytest.LogCaptureFixture) -> None:
    """If Airflow's check is not where it was, nothing is shown."""

    def broken() -> Any:
        raise ImportError("requires_access_view has moved")

    found = Browser(LazyPage(broken)).get("/api/session")
    assert (found.status_code, found.json()["error"]) == (403, "Refused")
    assert "requires_access_view has moved" in caplog.text


def test_the_page_is_made_at_the_first_request() -> None:
    """Once, and in no process that only loads the plugin."""
    pages = []

    def counted() -> Any:
        pages.append(made())
        return pages[-1]

    page = LazyPage(counted)
    assert not pages
    assert [Browser(page).get("/").status_code for _ in range(2)] == [401, 401]
    assert len(pages) == 1


def test_loading_the_plugin_imports_nothing_of_the_page() -> None:
    """Each task of Airflow loads plugins: the page costs them nothing."""
    heavy = ("fastapi", "pyarrow", "airflow_provider_segtable.page")
    program = (
        "import sys; before = {*sys.modules}; import airflow_provider_segtable.ui.plugin; "
        f"print([name for name in {heavy} if name in {{*sys.modules}} - before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import airflow.plugins_manager; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_fleet_file_gives_groups_and_objectives(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that the DAGs of the fleet read; readers do not learn where it is stored."""
    (tmp_path / "fleet.toml").write_text(FLEET)
    monkeypatch.setenv("SEGTABLE_FLEET", str(tmp_path / "fleet.toml"))
    (source,) = sources().values()
    assert (source.label, source.fleet.name, source.fleet.source) == (
        str(lake),
        "lake",
        "fleet.toml",
    )


def test_several_connections_are_shown_side_by_side(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of tables begin with the connection's."""
    monkeypatch.setenv("AIRFLOW__SEGTABLE__PAGE_CONNECTIONS", "segtable_default, other")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "segtable", "host": "/else"}))
    assert {name: each.label for name, each in sources().items()} == {
        "segtable_default": str(lake),
        "other": "/else",
    }


def test_a_missing_connection_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to define it."""
    monkeypatch.setenv("AIRFLOW__SEGTABLE__PAGE_CONNECTIONS", "absent")
    with pytest.raises(NotSetUp, match="AIRFLOW_CONN_ABSENT"):
        sources()


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("http://127.0.0.1:8080", "/segtable/lake.svg"),
        ("https://lake.example/team/a/", "/team/a/segtable/lake.svg"),
        ("/a", "/a/segtable/lake.svg"),
        ("", "/segtable/lake.svg"),
    ],
)
def test_addresses_are_below_airflows_own(
    base: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow may live below a sub-path."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert address("lake.svg") == found


def test_airflow_knows_the_view(airflow: Any) -> None:
    """Its own answer about plugins, which its page draws the navigation from, has the view."""
    found = browser(airflow, "ADMIN").get("/api/v2/plugins", limit=1000).json()["plugins"]
    (view,) = next(each for each in found if each["name"] == "segtable")["external_views"]
    assert (view["name"], view["destination"], view["url_route"]) == ("Lake", "nav", "segtable")


def test_the_navigation_has_the_lake() -> None:
    """One view in a frame, and one app below a prefix that is not Airflow's own."""
    (view,), (app,) = SegtablePlugin.external_views, SegtablePlugin.fastapi_apps
    assert (view["name"], view["destination"], view["url_route"]) == ("Lake", "nav", "segtable")
    assert view["href"].endswith(f"{app['url_prefix']}/")
    assert lake_page.SECTION == "segtable"
