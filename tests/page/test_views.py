"""Each view in Airflow, light and dark, wide and narrow: drawn within its width, accessible."""

import re

import pytest

from tests.page.airflow import LookedAt
from tests.page.chromium import NARROW, WIDE, Window
from tests.page.conftest import Opening
from tests.page.lake import ORDERS
from tests.page.views import HASHES

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
SHAPES = [(theme, width) for theme in ("light", "dark") for width in (WIDE, NARROW)]


@pytest.mark.parametrize(("theme", "width"), SHAPES)
def test_each_view_fits_and_has_no_serious_finding(
    airflow: LookedAt, reader: Opening, theme: str, width: int
) -> None:
    """Roles, names and contrasts by axe-core; nothing is wider than the window."""
    window: Window = reader(theme=theme, width=width)
    found = {}
    for name, place in HASHES.items():
        window.page.goto("about:blank")
        window.page.goto(f"{airflow.lake_page}{place}")
        window.settle()
        window.picture(name, whole=True)
        wider = window.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        found[name] = window.axe() + ([f"{wider} pixels too wide"] if wider > 0 else [])
    assert {name: each for name, each in found.items() if each} == {}


def test_airflows_navigation_leads_to_it_and_its_theme_is_followed(
    airflow: LookedAt, opened: Opening
) -> None:
    """A user logs in, finds Lake in the navigation, and switches Airflow to dark."""
    window: Window = opened()
    window.expected.append("/ui/config")  # Airflow's own login page asks for it
    page = window.page
    page.goto(f"{airflow.base}/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill("admin")
    page.get_by_role("button", name=re.compile("sign in|log in", re.IGNORECASE)).click()
    page.get_by_role("link", name="Lake").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name=ORDERS).wait_for()
    window.picture("in-airflow")
    assert theme_of(window) == "light"
    page.get_by_role("button", name="User").click()
    page.get_by_text("Appearance").click()
    page.get_by_text("Dark Mode").click()
    frame.locator("html[data-theme=dark]").wait_for(state="attached")
    page.keyboard.press("Escape")
    window.picture("in-airflow-dark")


def theme_of(window: Window) -> str:
    """Return the theme of the page in Airflow's frame."""
    (_, inner) = window.page.frames
    return str(inner.evaluate("document.documentElement.dataset.theme"))
