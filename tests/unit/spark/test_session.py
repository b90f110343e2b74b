"""Which settings a session has, before Spark starts."""

from pathlib import Path

import pytest

from airflow_provider_segtable.spark.driver.session import _defaults_file

FILE = """
# where we run
spark.master            spark://head:7077
spark.driver.memory=4g
spark.executor.extraJavaOptions : -Da=b -Dc=d
alone
"""


def test_the_cluster_s_own_settings_win_over_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spark-submit, ``spark-defaults.conf`` is read as it would: keys, then values."""
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _defaults_file() == {
        "spark.master": "spark://head:7077",
        "spark.driver.memory": "4g",
        "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
    }


def test_there_may_be_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the file, or no folder, sets nothing."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _defaults_file() == {}
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert _defaults_file() == {}
