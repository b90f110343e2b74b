"""Draw the four panels of ``fleet_beside_homemade.py`` as an SVG picture, a line for each way.

1. A colour is a table format, and a dashed line its second way; light or dark as the reader's
   system is (``docs.drawings``).
2. All panels have the same minutes. Each has a scale of its own, which begins at zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docs.drawings import Drawing

WIDTH, HEIGHT = 880, 620
WIDE, HIGH = 350, 190
LEFTS, TOPS = (70, 500), (52, 310)
LINES = (("strong", ""), ("strong", "6 4"), ("warm", ""), ("warm", "6 4"))
STEPS = (1, 2, 2.5, 5, 10)
ABOUT = "Files that a reader opens, bytes rewritten and processor time, over an hour, for each way."


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: its title, and for each way a value a minute."""

    title: str
    lines: Sequence[Sequence[float]]


def drawn(panels: Sequence[Panel], titles: Sequence[str], note: str) -> str:
    """Return the picture of four panels, with the ways' titles and a note below."""
    drawing = Drawing(WIDTH, HEIGHT, ABOUT)
    for number, panel in enumerate(panels):
        _panel(drawing, panel, LEFTS[number % 2], TOPS[number // 2])
    for number, title in enumerate(titles):
        x, y = 40 + 430 * (number % 2), HEIGHT - 62 + 20 * (number // 2)
        _line(drawing, number, [(x, y - 4), (x + 44, y - 4)])
        drawing.text(x + 52, y, title)
    drawing.text(40, HEIGHT - 14, note, "note")
    return drawing.svg()


def _panel(drawing: Drawing, panel: Panel, left: int, top: int) -> None:
    minutes = len(panel.lines[0])
    step = _step(max(max(line) for line in panel.lines) / 4)
    scale = 4 * step
    drawing.text(left, top - 14, panel.title, "head")
    for quarter in range(5):
        y = top + HIGH * (1 - quarter / 4)
        drawing.shapes.append(f'<path d="M{left} {y:g}h{WIDE}" class="line" opacity="0.3"/>')
        drawing.text(left - 8, y + 4, f"{quarter * step:g}", "note end")
        x, minute = left + WIDE * quarter / 4, minutes * quarter / 4
        drawing.text(x, top + HIGH + 18, f"{minute:g}", "note mid")
    drawing.text(left + WIDE / 2, top + HIGH + 34, "simulated minutes", "note mid")
    for number, values in enumerate(panel.lines):
        places = [
            (left + WIDE * (minute + 1) / minutes, top + HIGH * (1 - value / scale))
            for minute, value in enumerate(values)
        ]
        _line(drawing, number, places)


def _step(least: float) -> float:
    """Return a round number that is at least this."""
    power = 10 ** math.floor(math.log10(max(least, 1e-9)))
    return next(each * power for each in STEPS if each * power >= least)


def _line(drawing: Drawing, number: int, places: Sequence[tuple[float, float]]) -> None:
    kind, dashes = LINES[number]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawing.shapes.append(
        f'<polyline points="{points}" class="{kind}" stroke-dasharray="{dashes or "none"}"/>'
    )
