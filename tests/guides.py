"""The fenced blocks of the documents, for the tests that run them as they stand."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"


def blocks(guide: str, language: str) -> list[str]:
    """Return the fenced blocks of a guide in one language, in their order."""
    text = (GUIDES / guide).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def said(guide: str) -> list[str]:
    """Run a guide's Python blocks one after another; return the lines that its comments promise."""
    found, names = blocks(guide, "python"), dict[str, object]()
    for block in found:
        exec(block, names)  # noqa: S102 - ours
    return re.findall(r"(?:^|  )# (.*)$", "".join(found), re.MULTILINE)


def commands(guide: str) -> list[list[str]]:
    """Return the arguments of each ``$ segtable ...`` in a guide's console blocks."""
    text = "".join(blocks(guide, "console")).replace("\\\n", " ")
    lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    found = [shlex.split(line, comments=True) for line in lines]
    assert {program for program, *_ in found} == {"segtable"}
    return [arguments for _, *arguments in found]
