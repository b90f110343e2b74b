"""Where something is wrong the page says so in the window, and nothing else suffers."""

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.page.lake import Limits
from tests.page.airflow import LookedAt
from tests.page.chromium import Window
from tests.page.conftest import Opening
from tests.page.lake import MARKUP, ORDERS, SCHEMA
from tests.page.serving import served, served_by_command
from tests.page.views import OF_TABLE, table_hash
from tests.support.shown_lake import ShownLake

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
READERS = 100
FOREIGN = """<!doctype html><title>another page</title><script>
const about = JSON.stringify({table: "%s", action: "tag", arguments: {name: "forged"}, seal: "1"});
const tries = [
  {method: "POST", body: about, headers: {"Content-Type": "application/json"}},
  {method: "POST", body: about, headers: {"X-Segtable-Page": "1"}},
  {method: "POST", body: about, mode: "no-cors"},
  {method: "GET"},
];
Promise.allSettled(tries.map((each) =>
  fetch("%s", {...each, credentials: "include"}).then((answer) => answer.text())
)).then((all) => { document.title = JSON.stringify(all.map((each) => each.value ?? null)); });
</script>"""


# ---- rights -------------------------------------------------------------------------------------


def test_a_user_without_the_right_reads_why(airflow: LookedAt, opened: Opening) -> None:
    """Airflow knows the user; the page is refused as a whole, in words."""
    token = airflow.signed("viewer", role=None)
    window: Window = opened(cookies=airflow.cookies(token))
    window.expected.append("403")
    window.page.goto(airflow.lake_page)
    shown = window.page.locator("body").inner_text()
    assert "Forbidden" in shown
    assert "Ask the one who runs this page" in shown
    window.picture("no-right")
    assert window.axe() == []


def test_an_expired_session_is_said_where_the_page_is_open(
    airflow: LookedAt, reader: Opening
) -> None:
    """What is shown stays, and says that it is old; another view says that a login is missing."""
    window: Window = reader("viewer")
    window.expected += ["401", "403"]
    page = window.page
    page.goto(airflow.lake_page)
    window.settle()
    window.context.clear_cookies()
    window.context.add_cookies(airflow.cookies(airflow.signed("viewer", lasts_s=-60)))
    page.get_by_role("link", name=ORDERS, exact=True).click()
    page.get_by_text("log in again").first.wait_for()
    window.picture("session-expired")
    assert window.axe() == []


def test_another_page_cannot_use_a_users_session(airflow: LookedAt, reader: Opening) -> None:
    """It neither reads an answer nor changes anything, and cannot show the page in a frame."""
    window: Window = reader("admin")
    window.expected += [
        "CORS",
        "net::ERR_FAILED",
        "NotSameOrigin",
        "403",
        "400",
        "frame-ancestors",
        "X-Frame",
    ]
    foreign = FOREIGN % (ORDERS, f"{airflow.lake_page}api/run")
    with served(_one_document(foreign)) as address:
        window.page.goto(address)
        window.page.wait_for_url(address)
        window.page.get_by_text("").first.wait_for(state="attached")
        while window.page.title() == "another page":
            window.page.wait_for_timeout(50)
        read = window.page.title()
    assert "sentence" not in read
    assert "seal" not in read
    assert asked(airflow, "api/table", table=ORDERS)["readers"]["tags"] == []


def _one_document(text: str) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - ASGI's
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    return app


def asked(airflow: LookedAt, path: str, **query: str) -> Any:
    """Return the data of an answer."""
    answer = httpx.get(
        f"{airflow.lake_page}{path}",
        params=query,
        headers={"Authorization": f"Bearer {airflow.token}"},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()["data"]


# ---- tables -------------------------------------------------------------------------------------


def test_markup_in_names_and_authors_is_text(airflow: LookedAt, reader: Opening) -> None:
    """Each view shows it as it is written; no script runs, nothing is loaded."""
    window: Window = reader("viewer")
    window.page.on("dialog", lambda each: window.complaints.append(f"dialog: {each.message}"))
    for view in OF_TABLE:
        window.page.goto(f"{airflow.lake_page}{table_hash(MARKUP, view)}")
        window.settle()
        assert "<img src=x onerror=alert(1)>" in window.page.locator("header.top").inner_text()
        assert "Lake" in window.page.title()
        assert window.page.locator("img").count() == 0
    window.page.goto(f"{airflow.lake_page}{table_hash(MARKUP, 'timeline')}")
    window.page.get_by_text("<script>document.title='owned'</script>").first.wait_for()
    window.picture("markup")


def test_a_table_that_is_gone_is_said(airflow: LookedAt, reader: Opening) -> None:
    """Its name is in the message, and the fleet is a click away."""
    window: Window = reader("viewer")
    window.expected.append("404")
    window.page.goto(f"{airflow.lake_page}{table_hash('sales/gone')}")
    window.page.get_by_text("holds no segtable table").first.wait_for()
    window.picture("gone")
    assert window.axe() == []
    window.page.get_by_role("link", name="Fleet").first.click()
    window.page.get_by_role("link", name=ORDERS, exact=True).wait_for()


def test_a_table_that_is_dropped_while_it_is_shown(
    opened: Opening, tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """The open view says so by itself."""
    place = str(tmp_path / "flights")
    Table.create(place, schema=SCHEMA, time_column="at", zookeeper=zookeeper.address)
    window: Window = opened()
    window.expected += ["404", "ERR_CONNECTION_REFUSED"]
    with served_by_command(tmp_path, zookeeper.address) as address:
        window.page.goto(f"{address}{table_hash('flights')}")
        window.settle()
        Table.drop(place, zookeeper=zookeeper.address)
        window.page.get_by_text(re.compile("no segtable table|was dropped")).first.wait_for()
        window.picture("dropped")


@pytest.fixture
def hanging() -> Iterator[ShownLake]:
    """A lake whose store can hang; it lets go at the end."""
    made = ShownLake("flights", "orders", limits=Limits(limit_s=1.0))
    for name in ("flights", "orders"):
        made.append(name, 3)
    yield made
    made.store.gate.set()


def test_a_store_that_hangs_leaves_what_was_known(hanging: ShownLake, opened: Opening) -> None:
    """With its age and the reason; unknown tables say that the store does not answer."""
    window: Window = opened()
    window.expected.append("503")
    with served(hanging.page()) as address:
        window.page.goto(f"{address}{table_hash('flights')}")
        window.settle()
        hanging.store.gate.clear()
        hanging.clock.advance(60)
        window.page.reload()
        window.wait_for_texts("not answered within", "Growth", "event time")
        window.picture("store-hangs")
        begun = time.monotonic()
        assert httpx.get(f"{address}api/session", trust_env=False).status_code == httpx.codes.OK
        assert time.monotonic() - begun < 5
        window.page.evaluate("location.hash = '#/table/orders/overview'")
        window.page.get_by_text("not answered within").first.wait_for()
        window.picture("store-hangs-unknown")
        assert window.axe() == []


def test_without_zookeeper_locks_are_unknown_and_the_rest_is_shown(
    lake: Path, opened: Opening, tmp_path: Path
) -> None:
    """``segtable ui``, whose ZooKeeper ends: tables are read from their store as before."""
    window: Window = opened()
    window.expected += ["503", "ERR_CONNECTION_REFUSED"]  # the page outlives the command
    with (
        EmbeddedZooKeeper(tmp_path) as zookeeper,
        served_by_command(lake, zookeeper.address) as address,
    ):
        window.page.goto(address)
        window.page.get_by_role("link", name=ORDERS, exact=True).wait_for()
        zookeeper.stop()
        window.page.goto(f"{address}{table_hash(ORDERS, 'locks')}")
        window.page.reload()
        window.page.get_by_text("ZooKeeper").first.wait_for()
        window.picture("zookeeper-away")
        for view in ("overview", "map", "plans"):
            window.page.goto(f"{address}{table_hash(ORDERS, view)}")
            window.settle()
            assert window.page.locator("main .failed").count() == 0


# ---- many ---------------------------------------------------------------------------------------


def test_a_hundred_readers_at_once_are_answered(airflow: LookedAt) -> None:
    """Each gets the same answer, and Airflow's own API answers beside them."""
    login = {"Authorization": f"Bearer {airflow.token}"}
    limits = httpx.Limits(max_connections=READERS + 1)

    async def all_at_once() -> tuple[list[httpx.Response], float]:
        async with httpx.AsyncClient(
            headers=login, timeout=120, limits=limits, trust_env=False
        ) as client:
            paths = ("api/table", "api/plans", "api/map", "api/timeline")
            readers = [
                client.get(f"{airflow.lake_page}{paths[n % 4]}", params={"table": ORDERS})
                for n in range(READERS)
            ]
            beside = _timed(client, f"{airflow.base}/api/v2/version")
            *answers, seconds = await asyncio.gather(*readers, beside)
            return answers, seconds  # type: ignore[return-value]

    with ThreadPoolExecutor() as pool:  # Playwright has a loop in this thread
        answers, seconds = pool.submit(lambda: asyncio.run(all_at_once())).result()
    assert {each.status_code for each in answers} == {httpx.codes.OK}
    assert {each.json()["late"] for each in answers} == {""}
    assert len({each.json()["version"] for each in answers}) == 1
    assert seconds < 20


async def _timed(client: httpx.AsyncClient, address: str) -> float:
    begun = time.monotonic()
    answer = await client.get(address)
    assert answer.status_code == httpx.codes.OK
    return time.monotonic() - begun
