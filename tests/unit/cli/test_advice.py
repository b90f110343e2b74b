"""Advice on the granularity: given once, in one line, where time chunks come out too small."""

from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq

from tests.unit.cli.conftest import Run, trips


def test_a_table_like_a_file_of_many_days(run: Run, tmp_path: Path) -> None:
    """Its rows are an example; a granularity that fits gets no advice."""
    pq.write_table(trips(24 * 40), tmp_path / "trips.parquet")
    like = ("--like", "trips.parquet", "--time", "at")
    said = " ".join(run("table", "create", "days", *like).stderr.split())
    assert "advice: day makes 40 time chunks of" in said
    assert "month would make 2 of" in said
    assert "--granularity month" in said
    assert "advice" not in run("table", "create", "months", *like, "--granularity", "month").stderr


def test_the_first_ingest(run: Run, tmp_path: Path) -> None:
    """The rows that came are counted, once, with the command that changes the table."""
    pc.write_csv(trips(24 * 20), tmp_path / "trips.csv")
    run("table", "create", "t", "--like", "trips.csv", "--time", "at")
    said = " ".join(run("ingest", "t", "trips.csv").stderr.split())
    assert "advice: day makes 20 time chunks of" in said
    assert "segtable compact t --kind major --granularity month" in said
    assert run("compact", "t", "--kind", "major", "--granularity", "month").exit_code == 0
    assert "advice" not in run("ingest", "t", "trips.csv").stderr


def test_texts_that_stand_for_null(run: Run, tmp_path: Path) -> None:
    """One text in numbers makes their column text; a column of texts gets no advice."""
    rows = "".join(f"2013-01-01,{code},{n}\n" for code, n in (("NA", 1), ("DE", "NA")))
    (tmp_path / "t.csv").write_text(f"at,code,n\n{rows}")
    like = ("--like", "t.csv", "--time", "at", "--granularity", "year")
    said = run("table", "create", "t", *like).stderr
    assert "advice: column n is string because of the text NA" in said
    assert "--null-text NA" in said
    assert "advice" not in run("table", "create", "u", *like, "--null-text", "NA").stderr
