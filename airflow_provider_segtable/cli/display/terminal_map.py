"""The segment map in a terminal: a row of blocks a lane, newer versions and generations on top.

1. Time with chunks is as wide as the terminal (``time_axis``). A block is one place of a lane: the
   visible shape there, else a standby one, else a hidden one.
2. The height of a block is its bytes over its width, on a logarithmic scale from the least to the
   most: a day of much data is higher, and a small file is still seen.
3. Colours: green is visible, dim is hidden, red waits for others, yellow has many deleted rows.
4. Not more than ``MOST_LANES`` lanes are drawn, from the top; a line says how many are left out.
"""

import math
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import short_interval
from airflow_provider_segtable.cli.display.time_axis import TimeAxis
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.shapes import Shape, Shapes, lane_words

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_LANES = 40
MUCH_DELETED = 0.2
NAMES = 20
STATES = (GroupState.VISIBLE, GroupState.STANDBY, GroupState.OVERSHADOWED)
"""The order in which shapes of one place are drawn: the first one counts."""


def map_facts(table: str, version: int, shapes: Shapes) -> Facts:
    """Return the shapes as plain JSON values."""
    return {
        "table": table,
        "version": version,
        "level": shapes.level,
        "interval": None if shapes.window is None else str(shapes.window),
        "segments": shapes.total,
        "lanes": [
            {"bucket": bucket, "level": level, "generation": generation}
            for bucket, level, generation in shapes.lanes
        ],
        "shapes": [
            {
                "id": each.id,
                "kind": each.kind,
                "interval": str(each.interval),
                "left": round(each.left, 6),
                "right": round(each.right, 6),
                "lane": each.lane,
                "state": each.state.value,
                "segments": each.segments,
                "rows": each.rows,
                "bytes": each.bytes,
                "generation": each.generation,
                "sorted_share": round(each.sorted_share, 4),
                "deleted_share": round(each.deleted_share, 4),
            }
            for each in shapes.shapes
        ],
    }


def drawn_map(shapes: Shapes) -> RenderableType:
    """Draw the map, as wide as the terminal."""
    if not shapes.shapes:
        return Text("There are no segments here.")
    return _Picture(shapes)


class _Picture:
    """A map that is drawn when the width is known."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        shapes = self._shapes
        width = max(20, min(options.max_width, 200) - NAMES - 1)
        yield Group(*_lanes(shapes, width), *_axis(shapes, width), *_caption(shapes))


def _lanes(shapes: Shapes, width: int) -> Iterator[Text]:
    axis = TimeAxis(each.interval for each in shapes.shapes)
    places = [_place(each, axis, width) for each in shapes.shapes]
    densities = [
        each.bytes / (last - first)
        for each, (first, last) in zip(shapes.shapes, places, strict=True)
        if each.bytes
    ]
    scale = _Scale(densities)
    by_lane: dict[int, list[tuple[Shape, tuple[int, int]]]] = {}
    for shape, place in zip(shapes.shapes, places, strict=True):
        by_lane.setdefault(shape.lane, []).append((shape, place))
    for lane in reversed(range(max(0, len(shapes.lanes) - MOST_LANES), len(shapes.lanes))):
        name = " ".join(lane_words(shapes.lanes[lane], shapes.lanes, "v"))
        row = Text(f"{name[-NAMES:]:>{NAMES}} ", style="cyan")
        yield row.append_text(_row(by_lane.get(lane, ()), width, scale))


def _place(shape: Shape, axis: TimeAxis, width: int) -> tuple[int, int]:
    """Return the first place of a shape, and the first after it; it has one at least."""
    start, end = axis.at(shape.interval.start), axis.at(shape.interval.end)
    first = int((start + (end - start) * shape.left) * width)
    last = round((start + (end - start) * shape.right) * width)
    first = min(first, width - 1)
    return first, max(first + 1, min(last, width))


class _Scale:
    """The height of a block by its density, on a logarithmic scale."""

    def __init__(self, densities: Sequence[float]) -> None:
        found = [math.log(each) for each in densities if each > 0]
        self._least, self._most = min(found, default=0.0), max(found, default=0.0)

    def block(self, density: float) -> str:
        """Return the block of a density."""
        if density <= 0:
            return "·"
        span = self._most - self._least
        share = 1.0 if span < 0.1 else (math.log(density) - self._least) / span
        return BLOCKS[min(len(BLOCKS) - 1, 1 + int(share * (len(BLOCKS) - 2)))]


def _row(shapes: Sequence[tuple[Shape, tuple[int, int]]], width: int, scale: _Scale) -> Text:
    best: list[tuple[int, str, str] | None] = [None] * width
    for shape, (first, last) in shapes:
        rank = STATES.index(shape.state)
        block = scale.block(shape.bytes / (last - first))
        for at in range(first, last):
            known = best[at]
            if known is None or rank < known[0]:
                best[at] = (rank, block, _style(shape))
    row = Text()
    for each in best:
        row.append(*(each[1:] if each else (" ", "")))
    return row


def _style(shape: Shape) -> str:
    if shape.state is GroupState.STANDBY:
        return "red"
    if shape.state is GroupState.OVERSHADOWED:
        return "bright_black"
    return "yellow" if shape.deleted_share >= MUCH_DELETED else "green"


def _axis(shapes: Shapes, width: int) -> Iterator[Text]:
    axis = TimeAxis(each.interval for each in shapes.shapes)
    intervals = sorted({each.interval for each in shapes.shapes})
    line = [" "] * width
    for tick in axis.ticks(intervals, max(1, width // 16)):
        at = int(tick.at * width)
        label = f"╵{tick.label}"
        line[at : at + len(label)] = label if at + len(label) <= width else "╵"
    yield Text(" " * (NAMES + 1) + "".join(line).rstrip(), style="dim")


def _caption(shapes: Shapes) -> Iterator[Text]:
    visible = [each for each in shapes.shapes if each.state is GroupState.VISIBLE]
    size = describe_size(sum(each.bytes for each in visible))
    shown = counted(sum(each.segments for each in visible), "visible segment")
    hidden = shapes.total - sum(each.segments for each in visible)
    time = short_interval(str(shapes.window))
    yield Text(f"{time}: {shown}, {size}; {hidden:,} hidden or waiting", style="dim")
    left = len(shapes.lanes) - MOST_LANES
    if left > 0:
        yield Text(f"{counted(left, 'lower lane')} left out: give an --interval", style="dim")
