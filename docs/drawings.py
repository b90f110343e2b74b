"""Draw the pictures of docs/concepts.md as SVG: ``make pictures``.

1. A drawing is a list of shapes on a card. Colours are classes of one style sheet, light or dark as
   the reader's system is; the card keeps text readable on either page.
2. A box is a segment. Its colour is its state: visible, hidden behind others, or being written.
3. Time runs from left to right.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "images"
STYLE = """
.card{fill:#fff;stroke:#d5dbe1}
text{font:13px system-ui,sans-serif;fill:#26323b}
.note{font-size:12px;fill:#5b6770}.head{font-weight:600}.mid{text-anchor:middle}.end{text-anchor:end}
.visible{fill:#c8e9e4;stroke:#00796b}.hidden{fill:#f1f3f5;stroke:#9aa5ae;stroke-dasharray:4 3}
.writing{fill:#ffe3d3;stroke:#d84315}.lock{fill:none;stroke:#d84315;stroke-width:2}
.line{stroke:#7a868f;fill:none}.strong{stroke:#00796b;stroke-width:2;fill:none}
.warm{stroke:#d84315;stroke-width:2;fill:none}.point{fill:#7a868f}.band{fill:#f4f7f9;stroke:none}
@media(prefers-color-scheme:dark){
.card{fill:#1f252b;stroke:#3a444d}text{fill:#e3e9ee}.note{fill:#a9b4bd}
.visible{fill:#0d4a43;stroke:#4db6ac}.hidden{fill:#2a3138;stroke:#7a868f}
.writing{fill:#5a2a17;stroke:#ff8a65}.lock{stroke:#ff8a65}.line{stroke:#8b97a1}
.strong{stroke:#4db6ac}.warm{stroke:#ff8a65}.point{fill:#8b97a1}.band{fill:#262d34}}
"""
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="point"/></marker>'
)
"""The head of an arrow."""


@dataclass(slots=True)
class Drawing:
    """Shapes on a card of a width and a height."""

    width: int
    height: int
    about: str
    shapes: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words from x on, or acorner it with the class ``mid``."""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def box(
        self, at: tuple[float, float, float, float], kind: str, words: str = "", *, corner: int = 4
    ) -> None:
        """Draw a box at (x, y, width, height) with words in its middle."""
        x, y, width, height = at
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner}" '
            f'class="{kind}"/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words, "mid")

    def arrow(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """Draw a line with a head at its end."""
        (x, y), (u, v) = start, end
        self.shapes.append(
            f'<path d="M{x:g} {y:g}L{u:g} {v:g}" class="{kind}" marker-end="url(#head)"/>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """Draw a line."""
        (x, y), (u, v) = start, end
        self.shapes.append(f'<path d="M{x:g} {y:g}L{u:g} {v:g}" class="{kind}"/>')

    def legend(self, y: float, entries: Iterable[tuple[str, str]]) -> None:
        """Explain the colours in one row."""
        x = 24.0
        for kind, words in entries:
            self.box((x, y - 11, 18, 14), kind)
            self.text(x + 25, y, words, "note")
            x += 50 + 6.8 * len(words)

    def svg(self) -> str:
        """Return the drawing as a document."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        card = f'x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"'
        lines = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"',
            f' aria-label="{escape(self.about)}">',
            f"<style>{STYLE}</style>",
            f"<defs>{HEAD}</defs>",
            f'<rect {card} class="card"/>',
            *self.shapes,
            "</svg>",
        )
        return "\n".join([*lines, ""])


STATES = (("visible", "visible"), ("hidden", "overshadowed"), ("writing", "being written"))


def overshadowing() -> Drawing:
    """Draw a chunk before, while and after a minor compaction writes one segment for three."""
    drawing = Drawing(720, 312, "A compacted segment hides the three that it was made of.")
    steps = (
        ("1. Appends wrote segments 0 to 4", "visible", False),
        ("2. A compaction writes [1, 4)", "visible", True),
        ("3. Its commit hides 1, 2 and 3", "hidden", True),
    )
    for n, (title, inner, output) in enumerate(steps):
        y = 40 + n * 80
        drawing.text(24, y + 22, title, "head")
        for partition in range(5):
            kind = inner if 1 <= partition <= 3 else "visible"
            drawing.box((300 + partition * 80, y + 18, 72, 30), kind, f"{partition}")
        if output:
            last = n == len(steps) - 1
            kind = "visible" if last else "writing"
            drawing.box((380, y - 18, 232, 30), kind, "[1, 4)  minor version 1")
    drawing.legend(288, STATES)
    return drawing


def completion_time() -> Drawing:
    """Draw two appends of which the first to begin is the last to commit."""
    drawing = Drawing(720, 272, "The log orders changes by when they end, not by when they begin.")
    for y, name, start, end in ((50, "append A", 120, 500), (100, "append B", 200, 330)):
        drawing.text(24, y + 20, name, "head")
        drawing.box((start, y, end - start, 30), "writing", "writes files")
        drawing.arrow((end, y + 15), (end, 172), "line")
    drawing.text(24, 196, "log", "head")
    drawing.line((100, 192), (696, 192), "strong")
    for x, number, words in ((330, "5", "B commits"), (500, "6", "A commits")):
        drawing.box((x - 16, 176, 32, 32), "visible", number)
        drawing.text(x, 228, words, "mid note")
    drawing.line((415, 36), (415, 212), "warm")
    drawing.text(423, 44, "a reader stops here: version 5", "note")
    drawing.text(
        24,
        256,
        "The reader's next window begins after 5. So it has A, though A began before B.",
        "note",
    )
    return drawing


def segment_locks() -> Drawing:
    """Draw a compaction's lock on segments beside appends, which take new ids."""
    drawing = Drawing(720, 250, "A compaction locks its segments; appends take new ids beside it.")
    drawing.text(24, 36, "one time chunk", "head")
    for partition in range(7):
        kind = "visible" if partition < 5 else "writing"
        drawing.box((40 + partition * 92, 96, 80, 34), kind, str(partition))
    drawing.box((124, 82, 280, 62), "lock")
    drawing.text(264, 70, "EXCLUSIVE: a compaction of 1, 2, 3", "mid")
    drawing.box((492, 82, 188, 62), "lock")
    drawing.text(586, 70, "APPEND: a lock each", "mid")
    drawing.text(586, 164, "new ids of two writers", "mid note")
    drawing.text(264, 164, "released by the commit, or by death", "mid note")
    drawing.text(
        24,
        200,
        "The locks do not touch, so neither side waits. A lock never decides: the "
        "log admits a commit or refuses it.",
        "note",
    )
    drawing.legend(230, (STATES[0], STATES[2], ("lock", "locked")))
    return drawing


def slices() -> Drawing:
    """Draw a bucket of a primary-key table: a base, log files, and what a late one lies above."""
    drawing = Drawing(
        720, 300, "A file slice: a base, and the log files that ended after its plan."
    )
    drawing.text(24, 34, "one bucket of one time chunk", "head")
    rows = (
        (70, "log file", (110, 60), "hidden"),
        (70, "log file", (180, 60), "hidden"),
        (70, "", (250, 90), ""),
        (70, "log file", (520, 60), "visible"),
    )
    for y, words, (x, width), kind in rows:
        if kind:
            drawing.box((x, y, width, 30), kind, words)
    drawing.line((290, 50), (290, 212), "warm")
    drawing.text(296, 58, "compaction planned", "note")
    drawing.box((290, 160, 190, 34), "visible", "base: both, merged")
    drawing.text(24, 182, "compaction", "note")
    drawing.text(24, 90, "upserts", "note")
    drawing.box((236, 112, 160, 30), "visible", "slow log file")
    drawing.text(402, 132, "began before the plan, ended after it:", "note")
    drawing.text(402, 147, "above the base", "note")
    drawing.arrow((100, 222), (696, 222), "line")
    drawing.text(650, 240, "time", "note")
    drawing.text(
        24,
        258,
        "The slice is the base with the two log files above it. A reader merges them by key.",
        "note",
    )
    drawing.legend(284, STATES[:2])
    return drawing


def catch_up() -> Drawing:
    """Draw an index that is built over old files while writers feed it with new ones."""
    drawing = Drawing(720, 290, "An index is built backwards while new commits feed it.")
    drawing.text(24, 40, "files", "head")
    for n in range(10):
        kind = "visible" if n >= 5 else ("visible" if n < 3 else "hidden")
        drawing.box((110 + n * 58, 24, 50, 28), kind, str(n))
    drawing.line((397, 16), (397, 196), "warm")
    drawing.text(404, 92, "index requested: each commit from here on", "note")
    drawing.text(404, 108, "brings the entries of its files", "note")
    drawing.text(24, 146, "index", "head")
    drawing.box((110, 128, 166, 30), "visible", "built")
    drawing.box((284, 128, 108, 30), "hidden", "gap")
    drawing.box((400, 128, 282, 30), "visible", "fed by writers")
    drawing.arrow((276, 176), (390, 176), "strong")
    drawing.text(110, 181, "a run builds piece by piece", "note")
    drawing.text(
        24,
        222,
        "A scan opens files of the gap without asking the index. Once the gap is "
        "closed, the index has caught up.",
        "note",
    )
    drawing.text(
        24,
        240,
        "If the build pauses or dies, the gap stays as it is, and the next run goes on.",
        "note",
    )
    drawing.legend(270, (("visible", "has entries"), ("hidden", "lacks entries")))
    return drawing


DRAWINGS = {
    "overshadowing": overshadowing,
    "completion-time": completion_time,
    "segment-locks": segment_locks,
    "slices": slices,
    "catch-up": catch_up,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())
