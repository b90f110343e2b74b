"""The guides to tables from Python print what their comments say."""

import re
from pathlib import Path

import pytest

from tests.guides import ROOT, said
from tests.unit.cli.conftest import trips

FIVE_LINES = re.compile(
    r"^```py\n(from airflow_provider_segtable import Table\n.*?)^```$", re.MULTILINE | re.DOTALL
)


@pytest.mark.usefixtures("memory_zookeeper")
@pytest.mark.parametrize(
    "guide",
    [
        "change-feeds.md",
        "indexes.md",
        "log-store.md",
        "migration.md",
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


@pytest.mark.usefixtures("memory_zookeeper")
def test_the_first_lines_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines on README and on the site's home are the same, and print the rows asked for."""
    (block,) = FIVE_LINES.findall((ROOT / "README.md").read_text())
    assert FIVE_LINES.findall((ROOT / "docs" / "index.md").read_text()) == [block]
    monkeypatch.chdir(tmp_path)
    rows = trips(48).rename_columns(["pickup", "zone", "fare"])
    exec(block, {"rows": rows})  # noqa: S102 - ours
    assert len(capsys.readouterr().out.splitlines()) == 1 + sum(hour / 4 > 10 for hour in range(48))
