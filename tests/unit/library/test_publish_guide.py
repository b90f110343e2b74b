"""The guide to publishing prints what its comments say."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.guides import said


def test_the_examples_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run one after another, in an empty folder, each line printed is the comment beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    expected = said("publishing.md")
    assert capsys.readouterr().out.splitlines() == expected
