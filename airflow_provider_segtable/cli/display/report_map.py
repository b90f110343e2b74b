"""The segment map of a report, as SVG without script.

1. Time goes across (``time_axis``), lanes up: newer versions and generations lie above older ones.
2. Readers see full colours. Hidden segments are pale, those on standby are hatched, tombstones are
   crossed.
3. A rectangle has its numbers as custom properties: ``--s`` sorted, ``--d`` deleted, ``--g`` the
   generation, ``--z`` small files and ``--a`` age, each 0 to 1. The style sheet colours by one of
   them, which radio buttons before the map choose. Versions count as generations, too: how often
   rows were rewritten at least.
4. Chunks are drawn as high as their bytes over their width, so that area is by bytes; those of one
   time and lane stand on each other, the visible ones below. Segments are as wide as their bytes
   inside their time chunk.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from airflow_provider_segtable.cli.display.drawing import short_interval, short_time
from airflow_provider_segtable.cli.display.markup import Markup, element
from airflow_provider_segtable.cli.display.time_axis import TimeAxis
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.shapes import (
    LanePlace,
    Shape,
    Shapes,
    lane_words,
)

WIDTH, LEFT, RIGHT = 1080.0, 124.0, 12.0
HIGHEST, LOWEST = 34.0, 7.0
HEIGHT = 300.0
"""About the height of all lanes together."""
CHUNK_LANE = 90.0
LEAST = 2.0
WORDS = {
    GroupState.VISIBLE: "visible",
    GroupState.OVERSHADOWED: "hidden",
    GroupState.STANDBY: "standby",
}


def drawn_map(shapes: Shapes) -> Markup:
    """Return the map as an SVG element; there is at least one shape."""
    return _Picture(shapes).drawn()


class _Picture:
    """A map while it is drawn."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._axis = TimeAxis(shape.interval for shape in shapes.shapes)
        lanes = max(1, len(shapes.lanes))
        chunks = shapes.level == "chunks"
        self._lane = min(CHUNK_LANE if chunks else HIGHEST, max(LOWEST, HEIGHT / lanes))
        self._height = self._lane * lanes
        written = [shape.newest for shape in shapes.shapes if shape.newest is not None]
        self._first, self._last = min(written, default=0), max(written, default=1)
        self._heights = _heights(shapes.lanes)
        self._densest = self._most_dense() if chunks else 1.0
        self._stood: defaultdict[tuple[int, Interval], float] = defaultdict(float)

    def drawn(self) -> Markup:
        """Return the picture."""
        height = self._height + 34
        count = counted(self._shapes.total, "segment")
        return element(
            "svg",
            _patterns(),
            element("g", self._guides(), class_="guides"),
            element("g", map(self._rectangle, self._shapes.shapes), class_="shapes"),
            element("g", self._names(), class_="names"),
            element("g", self._ticks(), class_="ticks"),
            viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
            role="img",
            aria_label=f"Segment map of {count}: time across, versions and generations up",
        )

    def _x(self, place: float) -> float:
        return LEFT + place * (WIDTH - LEFT - RIGHT)

    def _ends(self, shape: Shape) -> tuple[float, float]:
        start, end = self._axis.at(shape.interval.start), self._axis.at(shape.interval.end)
        left = start + (end - start) * shape.left
        return self._x(left), self._x(start + (end - start) * shape.right)

    def _density(self, shape: Shape) -> float:
        left, right = self._ends(shape)
        return shape.bytes / max(0.5, right - left)

    def _most_dense(self) -> float:
        """Return the most bytes a width of any time and lane."""
        stacked: defaultdict[tuple[int, Interval], float] = defaultdict(float)
        for shape in self._shapes.shapes:
            stacked[shape.lane, shape.interval] += self._density(shape)
        return max(stacked.values(), default=0.0) or 1.0

    def _top(self, lane: int) -> float:
        return self._height - (lane + 1) * self._lane

    def _rectangle(self, shape: Shape) -> Markup:
        left, right = self._ends(shape)
        gap = min(0.6, (right - left) * 0.08)
        below, height = 0.0, self._lane - min(3.0, self._lane * 0.2)
        if shape.kind == "chunks":
            place = (shape.lane, shape.interval)
            height = max(LEAST, height * self._density(shape) / self._densest)
            below = self._stood[place]
            self._stood[place] += height
        return element(
            "rect",
            element("title", _words(shape)),
            x=left + gap,
            y=self._top(shape.lane) + self._lane - below - height,
            width=max(0.7, right - left - 2 * gap),
            height=height,
            rx=min(2.0, (right - left) / 6),
            class_=_class(shape),
            style=self._style(shape),
        )

    def _style(self, shape: Shape) -> str:
        age = 0.0
        if shape.newest is not None and self._last > self._first:
            age = (self._last - shape.newest) / (self._last - self._first)
        numbers = {
            "s": shape.sorted_share,
            "d": shape.deleted_share,
            "g": self._heights[shape.lane],
            "a": age,
            "z": shape.small / max(1, shape.segments),
        }
        return ";".join(f"--{name}:{value:.3g}" for name, value in numbers.items())

    def _guides(self) -> Iterator[Markup]:
        for lane in range(len(self._shapes.lanes) + 1):
            y = self._height - lane * self._lane
            yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        for place in self._axis.breaks:
            x = self._x(place)
            yield element("line", x1=x, x2=x, y1=0.0, y2=self._height, class_="break")

    def _names(self) -> Iterator[Markup]:
        step = max(1, round(12 / self._lane))
        for lane, place in enumerate(self._shapes.lanes):
            if lane % step == 0:
                y = self._top(lane) + self._lane / 2 + 3.5
                yield element("text", _lane_name(place, self._shapes.lanes), x=LEFT - 8, y=y)

    def _ticks(self) -> Iterator[Markup]:
        intervals = sorted({shape.interval for shape in self._shapes.shapes})
        for tick in self._axis.ticks(intervals, 8):
            x = self._x(tick.at)
            yield element("line", x1=x, x2=x, y1=self._height, y2=self._height + 5)
            yield element("text", tick.label, x=x, y=self._height + 20)


def _class(shape: Shape) -> str:
    return f"{WORDS[shape.state]}{' tombstone' if shape.tombstone else ''}"


def _lane_name(place: LanePlace, lanes: Sequence[LanePlace]) -> str:
    return " · ".join(lane_words(place, lanes, "version ")) or "segments"


def _heights(lanes: Sequence[LanePlace]) -> list[float]:
    """Return the place of each lane among those of its bucket, 0 to 1."""
    ranks = [level + generation for _, level, generation in lanes]
    return [rank / max(1, *ranks) for rank in ranks]


def _words(shape: Shape) -> str:
    """Return what a reader sees when pointing at a shape."""
    time = short_interval(str(shape.interval))
    count = counted(shape.segments, f"{WORDS[shape.state]} segment")
    deleted = f"{_percent(shape.deleted_share)} deleted"
    lines = [
        time,
        f"{count}, {counted(shape.rows, 'row')}, {describe_size(shape.bytes)}",
        f"generation {shape.generation}, {_percent(shape.sorted_share)} sorted, {deleted}",
    ]
    if shape.kind == "segment":
        lines.append(shape.id)
    if shape.newest is not None:
        lines.append(f"written {short_time(iso(shape.newest))}")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _patterns() -> Markup:
    return element(
        "defs",
        element(
            "pattern",
            element("path", d="M0 6L6 0M-1 1L1 -1M5 7L7 5", class_="hatch"),
            id="hatch",
            width="6",
            height="6",
            patternUnits="userSpaceOnUse",
        ),
    )
