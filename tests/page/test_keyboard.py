"""Everything without a mouse: each view is reached, walked through, and acted in, by keys alone."""

from typing import Any

import pytest

from tests.page.airflow import LookedAt
from tests.page.chromium import Window
from tests.page.conftest import Opening
from tests.page.lake import ORDERS

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
KEYS = {
    "o": "overview",
    "m": "map",
    "t": "timeline",
    "p": "plans",
    "i": "indexes",
    "s": "logstore",
    "d": "published",
    "l": "locks",
    "r": "runs",
}
MOST_STOPS = 400
FOCUSED = """() => {
  const each = document.activeElement;
  if (!each || each === document.body || each.tabIndex < 0) return null;
  const box = each.getBoundingClientRect();
  const name = each.getAttribute("aria-label") || each.innerText || each.labels?.[0]?.innerText
    || each.getAttribute("placeholder") || "";
  return {
    tag: each.tagName,
    name: name.trim().slice(0, 60),
    ringed: [each, each.closest("label")].some(
      (part) => part && getComputedStyle(part).outlineStyle !== "none"),
    visible: box.width > 0 && box.height > 0,
  };
}"""


def focused(page: Any) -> Any:
    """Return what has the focus: its tag, name, and whether one sees that; None if nothing has."""
    return page.evaluate(FOCUSED)


def tabbed_to(page: Any, name: str, *, by: str = "name") -> None:
    """Press Tab from the top until something with a name, or a tag, has the focus."""
    page.evaluate("document.querySelector('.skip').focus()")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        found = focused(page)
        if found and found[by] == name:
            return
    raise AssertionError(f"{name} was not reached by {MOST_STOPS} tabs")


@pytest.fixture
def window(airflow: LookedAt, reader: Opening) -> Window:
    """The start page before a user who may act; the mouse is not used."""
    made: Window = reader("operator")
    made.page.goto(airflow.lake_page)
    made.page.get_by_role("link", name=ORDERS, exact=True).wait_for()
    return made


def test_each_view_is_walked_through_by_tab(window: Window) -> None:
    """Each stop has a name and a visible focus; none holds it, and the end is reached."""
    page = window.page
    tabbed_to(page, ORDERS)
    page.keyboard.press("Enter")
    for key, view in KEYS.items():
        page.keyboard.press(key)
        page.wait_for_url(f"**/{view}" if view != "overview" else "**")
        page.locator("main:focus").wait_for()  # a view begins with the focus on its content
        window.settle()
        stops = walk(page)
        assert stops, view
        assert [each for each in stops if not each["name"]] == [], view
        assert [each for each in stops if not each["ringed"] or not each["visible"]] == [], view


def walk(page: Any) -> list[Any]:
    """Return what has the focus at each Tab, to the end of the page."""
    page.evaluate("document.querySelector('.skip').focus()")
    stops: list[Any] = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        found = focused(page)
        if found is None:
            return stops
        stops.append(found)
    return stops


def test_the_segment_map_is_read_by_arrows(window: Window) -> None:
    """A segment is chosen, its facts are shown, and Escape lets go of it."""
    page = window.page
    tabbed_to(page, ORDERS)
    page.keyboard.press("Enter")
    page.locator("main:focus").wait_for()  # keys are of the view that is there
    page.keyboard.press("m")
    page.locator("canvas").first.wait_for()
    window.settle()
    tabbed_to(page, "CANVAS", by="tag")
    page.keyboard.press("ArrowRight")
    window.wait_for_texts("What happens next, and why not")
    window.picture("keyboard-map")
    page.keyboard.press("Escape")
    page.get_by_text("What happens next, and why not").wait_for(state="detached")


def test_a_dialog_holds_the_focus_and_gives_it_back(window: Window) -> None:
    """Opened by Enter, it begins with its answer; Escape closes it, and nothing was done."""
    page = window.page
    tabbed_to(page, ORDERS)
    page.keyboard.press("Enter")
    window.wait_for_texts("Tag this version")
    tabbed_to(page, "Tag this version")
    page.keyboard.press("Enter")
    page.locator("dialog").wait_for()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') === null")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert focused(page)["name"] == "Tag this version"


def test_the_keys_are_listed(window: Window) -> None:
    """A question mark shows them all."""
    window.page.keyboard.press("?")
    window.page.locator("dialog").wait_for()
    shown = window.page.locator("dialog").inner_text()
    assert [key for key in KEYS if key not in shown] == []
    window.picture("keys")
    assert window.axe() == []
