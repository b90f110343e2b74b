"""The guides to tables from Python print what their comments say."""

from pathlib import Path

import pytest

from tests.guides import said


@pytest.mark.usefixtures("memory_zookeeper")
@pytest.mark.parametrize(
    "guide",
    [
        "change-feeds.md",
        "indexes.md",
        "log-store.md",
        "publishing.md",
        "python.md",
        "upserts.md",
    ],
)
def test_the_examples_print_what_they_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    guide: str,
) -> None:
    """Run one after another, in an empty folder, each line printed is the comment beside it."""
    monkeypatch.chdir(tmp_path)
    expected = said(guide)
    assert capsys.readouterr().out.splitlines() == expected
