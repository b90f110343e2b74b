"""The page's border: rights, headers, errors, and nothing that should not be seen."""

from collections.abc import Mapping

import pytest
from fastapi import APIRouter

from airflow_provider_segtable.page import app as page
from airflow_provider_segtable.page.answer import Answer, NotSetUp
from airflow_provider_segtable.page.guarding import POLICY
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.rights import COOKIE, OnLoopback
from airflow_provider_segtable.page.sources import Source
from tests.support.clock import FakeClock
from tests.support.shown_lake import Browser, ShownLake


def test_every_response_has_a_strict_policy() -> None:
    """Pages, answers and errors have the same headers."""
    asking = ShownLake().browser()
    for path in ("/", "/api/session", "/api/nothing", "/lake.svg"):
        headers = asking.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "SAMEORIGIN"
    assert "unsafe" not in POLICY


def test_a_session_says_who_looks_at_what() -> None:
    """Without a token nothing can be changed."""
    answer = ShownLake().browser().get("/api/session").json()
    assert answer["data"] == {
        "user": "me",
        "authenticated": False,
        "read_only": True,
        "package_version": answer["data"]["package_version"],
        "fleet": None,
        "places": ["memory://lake"],
        "actions": [],
        "airflow": False,
    }


def test_a_file_is_sent_once() -> None:
    """A file that the browser has is not sent again."""
    asking = ShownLake().browser()
    first = asking.get("/")
    again = asking.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert first.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("name", ["__init__.py", "..%2fapp.py", "page.map", "openapi.json", "docs"])
def test_nothing_but_the_named_files_is_served(name: str) -> None:
    """Neither sources nor the description of the API."""
    found = ShownLake().browser().get(f"/{name}")
    assert found.status_code == 404
    assert set(found.json()) == {"error", "message", "way_out"}


@pytest.mark.parametrize("path", ["/", "/api/session", "/lake.svg", "/api/nothing"])
def test_another_host_is_refused(path: str) -> None:
    """A foreign name that resolves to loopback reads nothing."""
    found = ShownLake().browser(host="http://lake.example").get(path)
    assert found.status_code == (404 if path == "/api/nothing" else 403)


def test_a_token_is_needed_if_there_is_one() -> None:
    """Without the cookie no route answers, files included."""
    asking = ShownLake().browser(token="let-me-in")
    assert [asking.get(each).status_code for each in ("/", "/api/session")] == [401, 401]
    asking.cookies[COOKIE] = "let-me-in"
    assert asking.get("/api/session").json()["data"]["authenticated"] is True


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"Content-Type": "application/json"}, "X-Segtable-Page is missing"),
        ({"X-Segtable-Page": "1", "Content-Type": "text/plain"}, "not application/json"),
        ({"X-Segtable-Page": "1", "Sec-Fetch-Site": "cross-site"}, "another page"),
        ({"X-Segtable-Page": "1", "Origin": "https://evil.example"}, "another page"),
        ({"X-Segtable-Page": "1", "Content-Length": "300000"}, "longer than 262,144 bytes"),
    ],
)
def test_a_forged_post_is_refused(headers: dict[str, str], reason: str) -> None:
    """A foreign page cannot post, whatever cookies the browser sends."""
    given = {"Content-Type": "application/json", **headers}
    found = ShownLake().browser().request("POST", "/api/run", content="{}", headers=given)
    assert found.status_code == 403
    assert reason in found.json()["message"]


def _failing(lake: Lake) -> APIRouter:
    router = APIRouter()

    def fails(seen: Seen) -> str:
        raise RuntimeError(f"of {seen.ports.uri}")

    @router.get("/api/version")
    async def version(table: str) -> Answer[int]:
        return await lake.answer(table, lambda seen: seen.state.n)

    @router.get("/api/fails")
    async def failing(table: str) -> Answer[str]:
        return await lake.answer(table, fails)

    return router


@pytest.fixture
def with_routes(monkeypatch: pytest.MonkeyPatch) -> ShownLake:
    """A lake of one table, with a route that answers and one that fails."""
    monkeypatch.setattr(page, "VIEWS", (_failing,))
    return ShownLake("events")


def test_an_unknown_table_is_not_found(with_routes: ShownLake) -> None:
    """The error has the kind, the message, and the way out."""
    found = with_routes.browser().get("/api/version", table="other")
    assert (found.status_code, found.json()["error"]) == (404, "NotATable")


def test_a_fault_of_the_page_shows_no_text(with_routes: ShownLake) -> None:
    """What is no error of segtable is logged, and not shown."""
    found = with_routes.browser().get("/api/fails", table="events")
    assert found.status_code == 500
    assert "memory://" not in found.text


def test_a_missing_argument_is_named(with_routes: ShownLake) -> None:
    """A wrong request says what is wrong."""
    found = with_routes.browser().get("/api/version")
    assert (found.status_code, found.json()["message"]) == (400, "table: Field required")


def test_no_error_shows_a_credential(with_routes: ShownLake) -> None:
    """The store's own message is shown without its credentials."""
    with_routes.store.fault = "403 Forbidden for key-of-the-store"
    found = with_routes.browser().get("/api/version", table="events")
    assert found.status_code == 503
    assert "key-of-the-store" not in found.text


def test_a_page_without_a_place_says_so_in_its_session() -> None:
    """Other answers are errors with the same way out."""

    def missing() -> Mapping[str, Source]:
        raise NotSetUp("there is no connection: add one")

    lake = Lake(missing, FakeClock())
    asking = Browser(page.page_app(lake, OnLoopback("me")))
    session = asking.get("/api/session").json()
    assert (session["data"]["places"], session["late"]) == ([], "there is no connection: add one")
    found = asking.get("/api/fleet")
    assert (found.status_code, found.json()["error"]) == (503, "NotSetUp")


@pytest.mark.parametrize("opens", ["document", "iframe"])
def test_a_refused_page_is_a_sentence_where_people_open_it(opens: str) -> None:
    """A frame of Airflow shows no JSON; scripts get it as before."""
    asking = ShownLake().browser(token="let-me-in")
    found = asking.get("/", headers={"Sec-Fetch-Dest": opens})
    assert found.status_code == 401
    assert found.headers["content-type"].startswith("text/html")
    assert "<p>Log in again</p>" in found.text
    assert asking.get("/api/session", headers={"Sec-Fetch-Dest": "empty"}).json()["error"]
