"""Commands on a machine that lacks a part: one line, an exit code, no traceback."""

import json
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.test_bad_input import nothing_written, refused

SPARK = ("--engine", "spark")
WHERE = ("--where", "amount is null")
ON_SPARK = {
    "ingest": ("ingest", "trips", "trips.parquet", *SPARK),
    "compact": ("compact", "trips", "--kind", "major", *SPARK),
    "delete": ("delete", "trips", *WHERE, *SPARK),
    "update": ("update", "trips", "--set", "amount=1", *WHERE, *SPARK),
    "merge": ("merge", "trips", "trips.parquet", "--on", "who", *SPARK),
    "complex SQL": ("delete", "trips", "--where", "regexp_replace(who, 'a', 'u') = 'u'"),
}
WRITING = {
    name: tuple(word for word in words if word not in SPARK) for name, words in ON_SPARK.items()
}
READING = {
    "describe": ("table", "describe", "trips"),
    "scan": ("table", "scan", "trips"),
    "segments": ("table", "segments", "trips"),
    "timeline": ("table", "timeline", "trips"),
    "plan": ("plan", "trips"),
    "verify": ("verify", "trips"),
}


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """Give a table with rows."""
    assert run("ingest", table, "trips.parquet").exit_code == 0
    return table


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every import of PySpark fail, as where it was never installed."""
    for name in [*sys.modules, "pyspark"]:
        if name == "pyspark" or name.startswith("pyspark."):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "airflow_provider_segtable.cli.on_spark", raising=False)


@pytest.mark.usefixtures("filled", "no_pyspark")
@pytest.mark.parametrize("command", ON_SPARK.values(), ids=ON_SPARK)
def test_no_pyspark(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """What needs Spark names the package and how to get it; a compaction's plan stays pending."""
    result = run(*command, "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (3, "DependencyMissing")
    assert "pyspark" in result.stderr
    assert "pip install" in result.stderr
    assert "Traceback" not in result.output
    del tmp_path


@pytest.mark.usefixtures("filled", "no_pyspark")
@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_reading_needs_no_pyspark(run: Run, command: tuple[str, ...]) -> None:
    """What a process can do alone it does."""
    assert run(*command, "--json").exit_code == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("command", ON_SPARK.values(), ids=ON_SPARK)
def test_no_java(run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    """What needs Spark says which Java, in one line."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run(*command, "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (3, "JavaMissing")
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", ["ingest", "compact", "update", "merge"])
def test_no_zookeeper(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What writes rows says how to start one, before it reads or starts anything."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    for words in (ON_SPARK[name], WRITING[name]):
        with nothing_written(tmp_path):
            result = run(*words, "--json")
        refused(result, 3, "CoordinatorUnavailable", "segtable zookeeper start")


UNREADABLE = {
    "a folder": (("ingest", "trips", "."), "cannot be read"),
    "not Parquet": (("ingest", "trips", "torn.parquet"), "torn.parquet"),
    "not CSV": (("ingest", "trips", "torn.csv"), "torn.csv"),
    "not JSON": (("ingest", "trips", "torn.jsonl"), "torn.jsonl"),
    "like": (("table", "create", "t", "--like", "torn.parquet", "--time", "at"), "torn.parquet"),
    "merge": (("merge", "trips", "torn.parquet", "--on", "who"), "torn.parquet"),
    "matches": (("delete", "trips", "--matches", "torn.csv"), "torn.csv"),
}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("command", "word"), UNREADABLE.values(), ids=UNREADABLE)
def test_input_that_cannot_be_read(
    run: Run, tmp_path: Path, command: tuple[str, ...], word: str
) -> None:
    """The file is named."""
    for suffix in ("parquet", "csv", "jsonl"):
        (tmp_path / f"torn.{suffix}").write_bytes(b"PAR1\x00\xff\xfe{\nnothing,more,\n,")
    given = ("--format", "parquet") if command[-1] == "." else ()
    with nothing_written(tmp_path):
        result = run(*command, *given, "--json")
    assert result.exit_code == 2, result.output
    assert word in result.stderr
    assert "Traceback" not in result.output


WRONG_TYPES = {
    "scan": (("table", "scan", "trips", "--where", "amount = 'much'"), "amount"),
    "type of a column": (("table", "create", "t", "--schema", "at money", "--time", "at"), "money"),
    "event time": (("table", "create", "t", "--schema", "at text", "--time", "at"), "timestamp"),
    "property": (("table", "set", "trips", "compaction.min_segments=few"), "few"),
    "clustering": (("table", "set", "trips", "compaction.clustering=nope"), "nope"),
}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("command", "word"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_wrong_type(run: Run, tmp_path: Path, command: tuple[str, ...], word: str) -> None:
    """The value or its column is named, and Spark is not started to find it out."""
    with nothing_written(tmp_path):
        result = run(*command, "--json")
    assert result.exit_code == 2, result.output
    assert word in result.stderr
    assert "Traceback" not in result.output
