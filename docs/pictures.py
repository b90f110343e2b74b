"""Draw pictures from a real run: ``make pictures``.

1. The tutorial's blocks are run as they stand, in a folder that is deleted afterwards. A picture
   ``images/tutorial-*.svg`` is the output of the last command before its place in the text.
2. ``before-after.svg`` shows the flights of one month as they were appended, hour by hour, and as
   ``compact`` left them. Its numbers are measured in the same run.
3. Locks are kept in memory, so no ZooKeeper is started.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.cli.display import output
from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.library.table import Table
from docs.drawings import FOLDER, Drawing
from examples.demo.comparison import Measured, as_appended, measure
from examples.demo.flights import load

TUTORIAL = Path(__file__).parent / "guides" / "tutorial.md"
PARTS = re.compile(
    r"^```(python|console)\n(.*?)^```$|^!\[[^\n]*\]\(\.\./images/([^\n]+)\)$",
    re.MULTILINE | re.DOTALL,
)
COLUMNS = 104
MOST_LINES = 34
THEME = TerminalTheme(
    (31, 37, 43),
    (227, 233, 238),
    [
        *((31, 37, 43), (255, 138, 101), (129, 199, 132), (255, 213, 79)),
        *((100, 181, 246), (206, 147, 216), (77, 182, 172), (227, 233, 238)),
    ],
)
CARD = """<svg class="rich-terminal" viewBox="0 0 {width} {height}"
 xmlns="http://www.w3.org/2000/svg" width="{width}"><style>
.{unique_id}-matrix{{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:{char_height}px;line-height:{line_height}px;font-variant-east-asian:full-width}}
{styles}</style><defs>{lines}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#1f252b"/>
<g transform="translate(14, 12)"><g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def tutorial() -> None:
    """Run the tutorial, and save the pictures that it names."""
    runner, shown = CliRunner(), ""
    for language, block, picture in PARTS.findall(TUTORIAL.read_text()):
        if language == "python":
            exec(block, {})  # noqa: S102 - ours
        for line in block.splitlines() if language == "console" else ():
            if not line.startswith("$ segtable zookeeper"):
                shown = _run(runner, line)
        if picture:
            (FOLDER / picture).write_text(shown)


def _run(runner: CliRunner, line: str) -> str:
    """Run a command that must end well; return its output as SVG."""
    console = _terminal()
    console.print(Text(line, style="bold"))
    _, *arguments = shlex.split(line.removeprefix("$ "))
    with patch.object(output, "out", console):
        result = runner.invoke(app, arguments, catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(f"{line} failed: {result.output}")
    console.print(Text(result.stdout.rstrip()))  # of a command that draws nothing
    return _picture(console.export_text(styles=True).replace(str(Path.cwd()), ".").splitlines())


def _terminal() -> Console:
    """Return a console that records, and prints nothing."""
    return Console(record=True, width=COLUMNS, force_terminal=True, file=StringIO())


def _picture(lines: list[str]) -> str:
    """Return lines of a terminal as SVG; the middle of a long output is left out."""
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 6], "\x1b[2m...\x1b[0m", *lines[-5:]]
    console = _terminal()
    for line in lines:
        console.print(Text.from_ansi(line), highlight=False)
    return console.export_svg(theme=THEME, code_format=CARD, unique_id="t")


def before_after() -> None:
    """Append a month of flights hour by hour, compact them, and draw both layouts."""
    flights = load().sort_by("time_hour")
    february = pa.scalar(datetime(2013, 2, 1, tzinfo=UTC), flights.schema.field("time_hour").type)
    month = flights.filter(pc.less(flights["time_hour"], february))
    table = Table.create("flights", schema=month.schema, time_column="time_hour", granularity="day")
    hours = month["time_hour"].combine_chunks()
    edges = pc.value_counts(hours).field("counts").to_pylist()
    start = 0
    for rows in edges:
        table.append(month.slice(start, rows))
        start += rows
    table.compact()
    now = table.snapshot()
    before, after = as_appended(now), now
    found = [measure(each, "dep_delay") for each in (before, after)]
    if found[0].found != found[1].found:
        raise SystemExit("the rows differ")
    layouts = [_by_day(each.segments()) for each in (before, after)]
    (FOLDER / "before-after.svg").write_text(_layouts(layouts, found).svg())


def _by_day(segments: Sequence[Segment]) -> list[list[int]]:
    """Return the sizes of the segments of each day."""
    days: dict[str, list[int]] = {}
    for segment in segments:
        days.setdefault(str(segment.id.interval), []).append(segment.size)
    return [days[day] for day in sorted(days)]


def _layouts(layouts: Sequence[list[list[int]]], found: Sequence[Measured]) -> Drawing:
    """Draw the segments of each day as a stack, its height by bytes: before, and after."""
    drawing = Drawing(880, 330, "One month of flights before and after compaction.")
    tallest = max(sum(day) for layout in layouts for day in layout)
    names = ("as appended, an append an hour", "after segtable compact")
    for side, (layout, about, name) in enumerate(zip(layouts, found, names, strict=True)):
        left = 24 + side * 430
        drawing.text(left, 32, name, "head")
        for n, day in enumerate(layout):
            y = 270.0
            for size in day:
                height = 205 * size / tallest
                y -= height
                drawing.box((left + n * 13, y + 0.5, 10, max(height - 1, 0.6)), "visible", corner=1)
        drawing.line((left, 271), (left + 402, 271), "line")
        drawing.text(left, 290, "January 2013, a stack a day; a box is a file", "note")
        rows = f"{about.segments:,} files, {describe_size(about.size)}"
        drawing.text(left, 312, f"{rows}, a scan takes {about.scan_s * 1000:,.0f} ms", "head")
    return drawing


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ |= {"SEGTABLE_ZOOKEEPER": "memory://pictures", "SEGTABLE_HOME": f"{folder}/home"}
        tutorial()
        before_after()
