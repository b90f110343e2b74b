"""A newcomer's questions, each answered by looking, in at most three clicks from the start page.

The answers are written down in docs/guides/page.md, with pictures that ``make page-pictures`` takes
here: their names are those of the tests.
"""

import os
from collections.abc import Callable
from shutil import copyfile
from typing import Any

import pytest

from tests.page.airflow import LookedAt
from tests.page.chromium import ROOT, Window
from tests.page.conftest import Opening
from tests.page.lake import ORDERS, RETURNS

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
MOST_CLICKS = 3
MOST_BYTES = 150_000
GUIDE = os.environ.get("SEGTABLE_PICTURES", "")
"""Where pictures for documents are written, below the repository; without it there are none."""


class Newcomer:
    """Looks, and clicks; clicks are counted."""

    def __init__(self, airflow: LookedAt, window: Window) -> None:
        self.window, self.clicks = window, 0
        window.page.goto(airflow.lake_page)
        window.settle()

    def clicks_on(self, role: str, name: str) -> None:
        """Click on a thing with a name."""
        self.window.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]
        self.window.settle()
        self.clicks += 1

    def clicks_at(self, place: Any, *, across: float, down: float) -> None:
        """Click into a picture."""
        box = place.bounding_box()
        place.click(position={"x": box["width"] * across, "y": box["height"] * down})
        self.window.settle()
        self.clicks += 1

    def sees(self, *texts: str) -> None:
        """Wait until the view shows texts, after three clicks at most."""
        assert self.clicks <= MOST_CLICKS
        self.window.wait_for_texts(*texts)

    def takes(self, name: str, *, down_to: str = "", most: int = 900) -> None:
        """Take a picture of the view, for the guide as well if it asks for one."""
        page = self.window.page
        if down_to:
            end = page.locator(down_to).last.bounding_box()
            most = int(end["y"] + end["height"] + page.evaluate("scrollY") + 16)
        path = self.window.picture(f"newcomer-{name}", whole=True, most=most)
        assert path.stat().st_size < MOST_BYTES
        if GUIDE:
            target = ROOT / GUIDE
            target.mkdir(parents=True, exist_ok=True)
            copyfile(path, target / f"page-{name}.png")


Coming = Callable[[], Newcomer]


@pytest.fixture
def newcomer(airflow: LookedAt, reader: Opening) -> Newcomer:
    """Someone before the start page."""
    return Newcomer(airflow, reader("viewer"))


def test_which_tables_are_ill_and_why(newcomer: Newcomer) -> None:
    """The start page: the worst come first, with the reason in a sentence."""
    newcomer.sees("a day is read from 101 files, of 40 at most", "is not an event")
    newcomer.takes("fleet", down_to="table.data")


def test_why_3_march_is_slow(newcomer: Newcomer) -> None:
    """The segment map shows its files; a click on the day says why nobody tidies it."""
    newcomer.clicks_on("link", ORDERS)
    newcomer.clicks_on("link", "Segment map")
    newcomer.clicks_at(newcomer.window.page.locator("canvas").first, across=9.5 / 17, down=0.9)
    newcomer.sees("2026-03-03", "101 101 small", "11520 min before the latest event time")
    newcomer.window.page.mouse.move(4, 4)  # no tip over the picture
    newcomer.takes("map", most=1010)


def test_what_will_happen_next_and_when(newcomer: Newcomer) -> None:
    """In the fleet for each table; in a table with what is left alone, and the number for it."""
    newcomer.sees("at the planner's next run")
    newcomer.clicks_on("link", ORDERS)
    newcomer.clicks_on("link", "Plans and reasons")
    newcomer.sees("Would begin now", "compaction.skip_offset_minutes")
    newcomer.takes("plans")


def test_who_changed_yesterdays_rows(newcomer: Newcomer) -> None:
    """Events that change rows, with their authors and conditions."""
    newcomer.clicks_on("link", ORDERS)
    newcomer.clicks_on("link", "Timeline")
    newcomer.window.page.get_by_label("Kind").select_option("Changed")
    newcomer.clicks += 1
    newcomer.window.settle()
    newcomer.window.page.get_by_text("customer < 40").first.wait_for()
    newcomer.sees("admin", "where customer < 40", "nightly_fix")
    newcomer.takes("timeline", down_to="table.data")


def test_is_the_index_caught_up(newcomer: Newcomer) -> None:
    """How much it lacks, and since when."""
    newcomer.clicks_on("link", ORDERS)
    newcomer.clicks_on("link", "Indexes")
    newcomer.sees("by_customer", "up to date", "by_country", "lacks")
    newcomer.takes("indexes")


def test_can_i_drop_this(newcomer: Newcomer) -> None:
    """Who would miss it, as far as the log knows, and what lists the rest."""
    newcomer.clicks_on("link", RETURNS)
    newcomer.sees("Who would miss it", "1 consumer of its changes: bi", "1 tag: quarter-end")
    newcomer.sees("published as delta", "segtable table drop", "--dry-run")


def test_what_did_maintenance_cost_this_week_and_bring(newcomer: Newcomer) -> None:
    """Work, bytes and files, by day, by owner and by kind, over the whole fleet."""
    newcomer.clicks_on("link", "Runs")
    newcomer.sees("fewer to open", "segtable_minor__lake", "By day", "By kind")
    newcomer.takes("runs")
