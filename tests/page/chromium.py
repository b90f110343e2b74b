"""A real Chromium that looks at the page, and complains of everything that it complains of.

1. ``Window`` is one reader: a browser context of its own, with a width, a theme and a user.
2. It keeps what a reader should never cause: errors of scripts, messages of errors on the console,
   among them refusals of the content policy, and requests that left this machine. ``clean`` is
   asked at the end of each test.
3. ``axe`` returns the serious and critical findings of axe-core in all frames.
4. Pictures are build products, below ``build/page``.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / "build" / "browser"
PICTURES = ROOT / "build" / "page"
AXE = FETCHED / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, NARROW = 1280, 390
SERIOUS = ("serious", "critical")
PATIENCE_MS = 60_000


class BrowserMissing(Exception):
    """Something that ``make test-page`` fetches is not there."""


def executable() -> str:
    """Return the path of Chromium.

    Raises:
        BrowserMissing: there is none.
    """
    given = os.environ.get("SEGTABLE_CHROMIUM", "")
    found = given or next((path for name in NAMES if (path := shutil.which(name))), "")
    if not found:
        raise BrowserMissing("there is no Chromium: apt-get install chromium")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """Run a browser during a block.

    Raises:
        BrowserMissing: Chromium, Playwright or axe-core is not there.
    """
    if not AXE.exists():
        raise BrowserMissing(f"{AXE.relative_to(ROOT)} is not there: run make test-page")
    sys.path.append(str(FETCHED / "python"))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Window:
    """A reader before the page; see the module.

    Attributes:
        browser: Playwright's.
        width: of the view, in pixels.
        theme: of the system: ``light`` or ``dark``.
        cookies: of a user, as Playwright takes them.
    """

    browser: Any
    width: int = WIDE
    theme: str = "light"
    cookies: Sequence[dict[str, str]] = ()
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open it."""
        self.context = self.browser.new_context(
            viewport={"width": self.width, "height": 844 if self.width < 600 else 900},
            color_scheme=self.theme,
            reduced_motion="reduce",
            has_touch=self.width < 600,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_cookies(list(self.cookies))
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self._heard)
        self.page.on("request", self._sent)

    def close(self) -> None:
        """Close it."""
        self.context.close()

    def clean(self) -> list[str]:
        """Return what it complained of, apart from what a test expects."""
        return [
            each
            for each in self.complaints
            if not any(expected in each for expected in self.expected)
        ]

    def settle(self) -> None:
        """Wait until the views show their answers."""
        self.page.wait_for_load_state("networkidle")
        for frame in self.page.frames:
            while frame.locator(".skeleton").count():
                frame.locator(".skeleton").first.wait_for(state="detached")

    def wait_for_texts(self, *texts: str) -> None:
        """Wait until all of some texts are in the view.

        Raises:
            TimeoutError: they are not; has the view's text.
        """
        until = time.monotonic() + PATIENCE_MS / 1000
        while True:
            shown = " ".join(self.page.locator("main").inner_text().split())
            lacking = [each for each in texts if each not in shown]
            if not lacking:
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{lacking} is not in: {shown}")
            self.page.wait_for_timeout(100)

    def axe(self) -> list[str]:
        """Return the serious findings of axe-core in the page and its frames, a line each."""
        found = []
        for frame in self.page.frames:
            frame.evaluate(f"(() => {{ {AXE.read_text()} }})()")
            result = frame.evaluate(_RUN_AXE)
            found += [each for each in result if each.split(" ", 1)[0] in SERIOUS]
        return found

    def picture(self, name: str, *, whole: bool = False, most: int = 0) -> Path:
        """Write a picture of the view; return its path.

        Args:
            name: of the picture.
            whole: also of what is below the window.
            most: height in pixels; 0: all of it.
        """
        path = PICTURES / f"{name}-{self.theme}-{self.width}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        clip = {"x": 0, "y": 0, "width": self.width, "height": most} if most else None
        self.page.screenshot(path=path, full_page=whole, clip=clip)
        return path

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _sent(self, request: Any) -> None:
        host = urlsplit(request.url).hostname
        if host not in (None, "localhost", "127.0.0.1"):
            self.complaints.append(f"a request left this machine: {request.url}")


_RUN_AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"], iframes: false });
  return found.violations.map((each) =>
    `${each.impact} ${each.id}: ${each.nodes.length} times ${each.nodes[0].html.slice(0, 160)}`
    + ` | ${(each.nodes[0].failureSummary || "").slice(0, 240)}`);
}"""
