"""Names of input files: patterns, and what only Spark reads."""

from pathlib import Path

import pytest

from airflow_provider_segtable.data.files.input_files import (
    _regex,
    expanded,
    found_files,
    only_spark_reads,
)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "a/b.csv", False),
        ("*.csv", "a.csv.gz", False),
        ("**/*.csv", "a.csv", True),
        ("**/*.csv", "a/b/c.csv", True),
        ("day=?/[ab].csv", "day=1/b.csv", True),
        ("day=?/[!ab].csv", "day=1/b.csv", False),
        ("a%20b/*.csv", "a b/c.csv", True),
        ("a.csv*", "abcsv", False),
    ],
)
def test_patterns_of_objects_are_those_of_paths(pattern: str, path: str, *, fits: bool) -> None:
    """A wildcard stays within a name, except two stars; other characters are themselves."""
    assert bool(_regex(pattern).fullmatch(path)) is fits


def test_a_file_is_no_pattern(tmp_path: Path) -> None:
    """A name with brackets that is there is itself; other names are expanded in order."""
    for name in ("b.csv", "a.csv", "[ab].csv", "c.dat"):
        (tmp_path / name).write_text("n\n1\n")
    odd, some = str(tmp_path / "[ab].csv"), str(tmp_path / "[a-z].csv")
    assert expanded(odd, {}) == [odd]
    assert [Path(name).name for name in expanded(some, {})] == ["a.csv", "b.csv"]
    assert expanded(f"file://{some}", {}) == expanded(some, {})
    assert [file.name for file in found_files(f"{tmp_path}/*.csv", None, {})] == [
        "[ab].csv",
        "a.csv",
        "b.csv",
    ]
    assert found_files(str(tmp_path / "nope.csv"), None, {}) == []


def test_what_only_spark_reads_is_told(tmp_path: Path) -> None:
    """Folders, formats, schemes and Spark's own patterns; a missing file is nobody's."""
    (tmp_path / "a{b}.csv").write_text("n\n")
    for name, why in (
        (str(tmp_path), "is a folder"),
        ("/a.orc", "is not one of parquet, csv, json"),
        ("hdfs://lake/a.csv", "scheme that is read by Spark only"),
        ("abfss://lake/a.csv", "cannot read it"),
        (str(tmp_path / "{a,b}.csv"), "pattern of Spark's"),
    ):
        assert why in only_spark_reads([str(tmp_path / "x.csv"), name], None, {})
    fine = [str(tmp_path / "a{b}.csv"), "/nope.csv.gz", "/nope.parquet"]
    assert only_spark_reads(fine, None, {}) == ""
    assert only_spark_reads(["/a.dat"], "csv", {}) == ""
