r"""The help of a command as text: usage, prose, and a frame for each group of options.

1. The text is a function of the command's entry in the table (``command_table``), of a width in
   columns, and of whether colours are wanted. It needs no library.
2. Prose and cells are wrapped at spaces. Lines that begin with spaces, and examples, keep their
   line ends.
3. Of Rich's markup the table's texts use ``[green]``, ``[bold]``, ``[/]`` and the escape ``\[``.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from airflow_provider_segtable.cli.display.command_table import Command, Parameter

COLOURS = {
    "green": "32",
    "bold": "1",
    "dim": "2",
    "usage": "33",
    "long": "1;36",
    "short": "1;32",
    "off": "1;35",
    "type": "33",
    "required": "31",
    "note": "2",
}
TAG = re.compile(r"\\\[|\[(/|[a-z]+)\]")
OPTION = re.compile(r"(?<![\w-])(?:(--[a-z][\w-]*)|(-[a-zA-Z])(?![\w-]))")
GAP = 2
MIN_HELP = 36
FRAME = {"utf": "╭╮╰╯─│", "ascii": "++++-|"}


class Styled:
    """A text with a style for each of its characters."""

    __slots__ = ("styles", "text")

    def __init__(self, text: str, style: str = "") -> None:
        self.text = text
        self.styles = [style] * len(text)

    @classmethod
    def of_markup(cls, markup: str, style: str = "") -> "Styled":
        """Parse markup, and give options in it their colours."""
        made, at, now = cls("", style), 0, style
        for tag in TAG.finditer(markup):
            made.add(markup[at : tag.start()], now)
            at = tag.end()
            if tag[1] is None:
                made.add("[", now)
            else:
                now = style if tag[1] == "/" else tag[1]
        made.add(markup[at:], now)
        for option in OPTION.finditer(made.text):
            kind = "long" if option[1] else "short"
            made.styles[option.start() : option.end()] = [kind] * len(option[0])
        return made

    def add(self, text: str, style: str = "") -> None:
        """Add a text at the end."""
        self.text += text
        self.styles += [style] * len(text)

    def lines(self, width: int) -> list["Styled"]:
        """Wrap at spaces; a word that is longer than a line is cut."""
        found, start = [], 0
        for line in self.text.split("\n"):
            end = start + len(line)
            found += self._wrapped(start, end, width)
            start = end + 1
        return found

    def _wrapped(self, start: int, end: int, width: int) -> list["Styled"]:
        found = []
        while end - start > width:
            cut = self.text.rfind(" ", start + 1, start + width + 1)
            if not self.text[start : max(cut, start)].strip():
                cut = start + width
            found.append(self._part(start, cut))
            start = cut
            while start < end and self.text[start] == " ":
                start += 1
        return [*found, self._part(start, end)]

    def _part(self, start: int, end: int) -> "Styled":
        made = Styled(self.text[start:end].rstrip())
        made.styles = self.styles[start : start + len(made.text)]
        return made

    def painted(self, *, colours: bool) -> str:
        """Return the text, with the terminal's codes if they are wanted."""
        if not colours:
            return self.text
        parts, now = [], ""
        for letter, style in zip(self.text, self.styles, strict=True):
            if style != now:
                parts += ["\33[0m" * bool(now), f"\33[{COLOURS[style]}m" if style else ""]
                now = style
            parts.append(letter)
        return "".join(parts) + "\33[0m" * bool(now)


class HelpPage:
    """A page of help under construction."""

    def __init__(self, width: int, *, colours: bool, frame: str) -> None:
        self.width, self.colours, self.frame = max(width, 60), colours, frame
        self.lines: list[str] = []

    def prose(self, text: str) -> None:
        """Add paragraphs: the first one bright, the others dim."""
        for n, paragraph in enumerate(text.split("\n\n")):
            styled = Styled.of_markup(paragraph, "dim" if n else "")
            self.lines += [f" {self._painted(line)}" for line in styled.lines(self.width - 2)]
            self.lines.append("")

    def panel(self, title: str, rows: Sequence[Sequence[Styled]]) -> None:
        """Add rows of cells in a frame; only the last cell of a row takes the room that is left."""
        left, right, low_left, low_right, across, down = (*self.frame,)
        inner = self.width - 4
        widths = _widths(rows, inner)
        head = f"{left}{across} {title} "
        edge = Styled(f"{head}{across * (self.width - len(head) - 1)}{right}", "dim")
        self.lines.append(self._painted(edge))
        bar = self._painted(Styled(down, "dim"))
        for row in rows:
            self.lines += [f"{bar} {line} {bar}" for line in self._row(row, widths, inner)]
        low = Styled(f"{low_left}{across * (self.width - 2)}{low_right}", "dim")
        self.lines.append(self._painted(low))

    def _row(self, row: Sequence[Styled], widths: Sequence[int], inner: int) -> Iterable[str]:
        cells = [(c.lines(width), width) for c, width in zip(row, widths, strict=True) if width]
        for n in range(max(len(lines) for lines, _ in cells)):
            line, taken = "", 0
            for lines, width in cells:
                cell = lines[n] if n < len(lines) else Styled("")
                line += self._painted(cell) + " " * (width - len(cell.text) + GAP)
                taken += width + GAP
            yield line[: len(line) - GAP] + " " * (inner - taken + GAP)

    def _painted(self, styled: Styled) -> str:
        return styled.painted(colours=self.colours)


def _widths(rows: Sequence[Sequence[Styled]], inner: int) -> list[int]:
    """Return the width of each column, 0 for one without contents; types give way to the help."""
    widths = [max(len(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    fixed = [width + GAP for width in widths[:-1] if width]
    spare = inner - sum(fixed)
    if spare < MIN_HELP and len(widths) > 2:  # a row of options has its type before its help
        types = max(8, widths[-2] - (MIN_HELP - spare))
        spare += widths[-2] - min(types, widths[-2])
        widths[-2] = min(types, widths[-2])
    return [*widths[:-1], max(spare, 8)]


def _cells(parameter: Parameter) -> list[Styled]:
    about = Styled.of_markup(parameter.get("help", ""))
    for note in parameter.get("notes", ()):
        about.add(f" {note}" if about.text else note, "note")
    return [
        Styled("*" if parameter.get("required") else "", "required"),
        Styled(parameter.get("name") or ",".join(parameter.get("long", ())), "long"),
        Styled(",".join(parameter.get("short", ())), "short"),
        Styled(",".join(parameter.get("off", ())), "off"),
        Styled(parameter.get("type", ""), "type"),
        about,
    ]


def first_paragraph(command: Command) -> str:
    """Return the line about a command in the list of its group."""
    return str(command.get("help", "")).partition("\n\n")[0]


def help_page(
    command: Command, width: int, *, colours: bool = False, frame: str = FRAME["utf"]
) -> str:
    """Return the help of a command, by its entry in the table."""
    page = HelpPage(width, colours=colours, frame=frame)
    usage = Styled(" Usage: ", "usage")
    usage.add(command["usage"], "bold")
    page.lines += ["", usage.painted(colours=colours), ""]
    if command.get("help"):
        page.prose(command["help"])
    for title, rows in command.get("panels", ()):
        page.panel(title, [_cells(each) for each in rows])
    below: dict[str, Any] = command.get("commands", {})
    if below:
        listed = [
            [Styled(name, "long"), Styled.of_markup(first_paragraph(each))]
            for name, each in below.items()
        ]
        page.panel("Commands", listed)
    if command.get("epilog"):
        page.lines.append("")
        page.prose(command["epilog"])
    return "\n".join(page.lines) + "\n"


def help_for(command: Command, stream: TextIO) -> str:
    """Return the help of a command in the width, the colours and the letters of a stream."""
    utf = (stream.encoding or "").lower().startswith("utf")
    frame = FRAME["utf" if utf else "ascii"]
    return help_page(command, _width(stream), colours=_wants_colours(stream), frame=frame)


def _width(stream: TextIO) -> int:
    """Return the width of a terminal, as shells and Rich find it; 80 columns in a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # not a terminal; no file at all
        return 80


def _wants_colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def show_help(command: Command) -> None:
    """Print the help of a command."""
    sys.stdout.write(help_for(command, sys.stdout))
