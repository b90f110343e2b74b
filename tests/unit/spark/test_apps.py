"""The Spark applications are found in a checkout and in a wheel."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import airflow_provider_segtable
from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidName
from airflow_provider_segtable.spark.driver.application import App, Outcome, parser, run
from airflow_provider_segtable.spark.driver.session import spark_app_path


def package_with(tmp_path: Path, folder: str) -> Path:
    """Lay out a package folder with one application in ``folder``."""
    package = tmp_path / "airflow_provider_segtable"
    package.mkdir()
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "compact.py").touch()
    return package


@pytest.mark.parametrize("folder", ["spark_apps", "airflow_provider_segtable/_spark_apps"])
def test_an_application_is_found(tmp_path: Path, folder: str) -> None:
    """Both layouts, beside the package and inside it, lead to the file."""
    package = package_with(tmp_path, folder)
    assert spark_app_path("compact", package) == tmp_path / folder / "compact.py"


def test_an_unknown_application_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """A wrong name is a typed error that lists what there is."""
    package = package_with(tmp_path, "spark_apps")
    with pytest.raises(InvalidName, match=r"'compaction'.*there are: compact"):
        spark_app_path("compaction", package)


def test_a_driver_without_its_jvm_still_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the JVM has ended there is nothing to stop, and the outcome is told as it was."""

    def gone() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    def work(app: App) -> Outcome:
        app._own_session = True
        monkeypatch.setattr(SparkSession, "getActiveSession", gone)
        raise ExecutionFailed("a task was lost")

    given = ["--table", "t", "--zookeeper", "z"]
    assert run(parser("segtable-test", "Fail."), given, work) == 1
    assert capsys.readouterr().out.startswith("SEGTABLE_RESULT ")


@pytest.mark.parametrize("name", ["compact", "ingest"])
def test_this_checkout_has_its_applications(name: str) -> None:
    """The library's surface leads to the real files."""
    assert airflow_provider_segtable.spark_app_path(name).is_file()
