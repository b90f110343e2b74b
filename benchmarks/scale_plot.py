"""Draw the costs of ``scale.py`` against the size of a table as an SVG picture.

1. Both scales of a panel are logarithmic, by powers of ten. A line is a family of tables.
2. The slope of a line is that of the least squares through its logarithms: 0 is flat, and 1 is
   proportional to the number of segments.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docs.drawings import Drawing

WIDTH = 880
WIDE, HIGH = 350, 150
LEFTS = (80, 500)
FIRST, STEP = 52, 228
KINDS = ("strong", "warm")
TITLES = {
    "open_s": "open a table: s",
    "append_s": "first append of a process: s",
    "checkpoint_s": "write a checkpoint after a commit: s",
    "written_kib": "bytes of that checkpoint: KiB",
    "replan_s": "plan after a commit: s",
    "plan_s": "first plan of a table: s",
    "anew_s": "first plan of a process: s",
    "clean_s": "clean after a commit: s",
    "verify_s": "verify after a commit: s",
    "scan_s": "find the files of one chunk: s",
    "peak_mib": "peak memory of all that: MiB",
}
PUBLISHED = {
    "publish_s": "publish a commit: s",
    "load_s": "load what is published: s",
}
"""Panels against the number of published files: the first line is Delta, the second Iceberg."""
ABOUT = "Costs of a table against its number of segments, on logarithmic scales, with slopes."


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: its title, and for each family pairs of segments and cost."""

    title: str
    lines: Sequence[Sequence[tuple[int, float]]]


def slope(line: Sequence[tuple[int, float]]) -> float:
    """Return the exponent of the power of the size that fits a line best; 0 for one point."""
    points = [(math.log(size), math.log(max(cost, 1e-9))) for size, cost in line]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((u - x) ** 2 for u, _ in points)
    return sum((u - x) * (v - y) for u, v in points) / spread if spread else 0.0


def drawn(panels: Sequence[Panel], titles: Sequence[str]) -> str:
    """Return the picture of panels, two in a row, with the families' titles below."""
    rows = (len(panels) + 1) // 2
    height = FIRST + STEP * rows + 20
    drawing = Drawing(WIDTH, height, ABOUT)
    for number, panel in enumerate(panels):
        _panel(drawing, panel, LEFTS[number % 2], FIRST + STEP * (number // 2))
    for number, title in enumerate(titles):
        x = 80 + 300 * number
        drawing.line((x, height - 24), (x + 44, height - 24), KINDS[number])
        drawing.text(x + 52, height - 20, title)
    return drawing.svg()


def _panel(drawing: Drawing, panel: Panel, left: int, top: int) -> None:
    sizes = [size for line in panel.lines for size, _ in line]
    costs = [cost for line in panel.lines for _, cost in line]
    low, high = _powers(sizes)
    least, most = _powers(costs)
    slopes = ", ".join(f"{slope(line):.2f}" for line in panel.lines)
    drawing.text(left, top - 14, f"{panel.title} (slopes {slopes})", "head")
    for power in range(least, most + 1):
        y = top + HIGH * (1 - (power - least) / (most - least))
        drawing.shapes.append(f'<path d="M{left} {y:g}h{WIDE}" class="line" opacity="0.3"/>')
        drawing.text(left - 8, y + 4, f"{10.0**power:g}", "note end")
    for power in range(low, high + 1):
        x = left + WIDE * (power - low) / (high - low)
        drawing.text(x, top + HIGH + 18, f"10^{power}", "note mid")
    drawing.text(left + WIDE / 2, top + HIGH + 34, "segments", "note mid")
    for kind, line in zip(KINDS, panel.lines, strict=False):
        places = [
            (
                left + WIDE * (math.log10(size) - low) / (high - low),
                top + HIGH * (1 - (math.log10(max(cost, 1e-9)) - least) / (most - least)),
            )
            for size, cost in line
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawing.shapes.append(f'<polyline points="{points}" class="{kind}"/>')


def _powers(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around values; they differ."""
    low = math.floor(math.log10(max(min(values), 1e-9)) + 1e-9)
    high = math.ceil(math.log10(max([*values, 1e-9])) - 1e-9)
    return low, max(high, low + 1)
