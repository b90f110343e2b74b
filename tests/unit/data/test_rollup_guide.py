"""The guide to rollup tables says what is so."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.guides import blocks

# a table with sketches, ``pages``, needs Spark: tests/spark has the functions
BLOCKS = [text for text in blocks("rollup.md", "python") if "pages" not in text]


def test_the_examples_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run one after another, in an empty folder, they give the numbers in their comments."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block.replace("127.0.0.1:2181", f"memory://{uuid4()}"), names)  # noqa: S102 - ours
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        "['at', 'page', 'visits', 'total_ms', 'slowest', 'latest']",
        "4",
        "120",
    ]
    assert "'visits': 60, 'total_ms': 1740, 'slowest': 58, 'latest': 58" in said[3]
