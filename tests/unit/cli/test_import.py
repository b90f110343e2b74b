"""``segtable import``: what becomes of each file, before and after."""

from pathlib import Path

import pyarrow.parquet as pq

from tests.unit.cli.conftest import Facts, Run, trips


def landing(place: Path) -> None:
    """Write two files of a day each, one of two days, and a note."""
    place.mkdir()
    pq.write_table(trips(24), place / "monday.parquet")
    pq.write_table(trips(24, 24), place / "tuesday.parquet")
    pq.write_table(trips(30, 60), place / "both.parquet")
    (place / "notes.txt").write_text("mine")


def test_a_folder_becomes_a_table(facts: Facts, run: Run, tmp_path: Path) -> None:
    """The plan is shown first; then files are adopted, and the rest is copied if wanted."""
    landing(tmp_path / "lake")
    asked = ("lake", "--granularity", "day")
    plan = facts("import", *asked, "--dry-run")
    assert {file["file"]: file["action"] for file in plan["files"]} == {
        "both.parquet": "copy",
        "monday.parquet": "adopt",
        "tuesday.parquet": "adopt",
    }
    assert plan["totals"]["adopt"] == {**plan["totals"]["adopt"], "files": 2, "rows": 48}
    assert not (tmp_path / "lake" / "_segtable").exists()
    done = facts("import", *asked)
    assert (done["version"], done["others"]) == (1, 1)
    assert facts("table", "scan", "lake", "--count")["rows"] == 48
    shown = run("import", "lake", "--copy-rest")
    assert shown.exit_code == 0
    assert "1 file copied" in shown.stderr
    assert facts("table", "scan", "lake", "--count")["rows"] == 78
    again = facts("import", "lake", "--copy-rest")
    assert (again["events"], again["copied"]) == ([], [])
    assert facts("table", "scan", "lake", "--count")["rows"] == 78
    facts("compact", "lake", "--all")
    facts("verify", "lake", "--deep")
    assert sorted(path.name for path in (tmp_path / "lake").iterdir()) == [
        *("_segtable", "both.parquet", "data", "monday.parquet", "notes.txt", "tuesday.parquet")
    ]


def test_the_drawing_names_each_file_and_reason(run: Run, tmp_path: Path) -> None:
    """People see a table, the totals, and how the time chunks were chosen."""
    landing(tmp_path / "lake")
    shown = run("import", "lake", "--granularity", "day", "--dry-run")
    assert "both.parquet" in shown.stdout
    assert "in several time chunks" in shown.stdout
    assert "adopt: 2 files, 48 rows" in shown.stdout
    assert "1 other file, not Parquet by name" in shown.stdout
    assert "files that lie in one time chunk: hour 0, day 2" in " ".join(shown.stderr.split())
    assert "--copy-rest" in shown.stderr


def test_what_cannot_be_is_refused_with_the_way_out(run: Run, tmp_path: Path) -> None:
    """Nothing was written then."""
    landing(tmp_path / "lake")
    for options, word in (
        (("--time-column", "when"), "when"),
        (("--granularity", "fortnight"), "fortnight"),
        (("--ignore-columns", "at"), "timestamp"),
    ):
        refused = run("import", "lake", *options)
        assert refused.exit_code == 2, refused.stderr
        assert word in refused.stderr
    assert not (tmp_path / "lake" / "_segtable").exists()
