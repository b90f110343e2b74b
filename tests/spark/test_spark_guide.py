"""The guide to tables in Spark prints what its comments say."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from tests.guides import blocks

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def test_the_examples_print_what_they_say(
    spark: SparkSession,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run one after another, in an empty folder, each line printed is the comment beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", zookeeper.address)
    text, names = "".join(blocks("spark.md", "python")), {}
    try:
        exec(text, names)  # noqa: S102 - ours; its own call returns this session
    finally:
        for left in spark.sql("SHOW VIEWS").collect():
            spark.catalog.dropTempView(left.viewName)
    expected = re.findall(r"print.*  # (.*)$", text, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
