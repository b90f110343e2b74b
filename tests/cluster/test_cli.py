"""The command line on a cluster: a table that is named relatively, executors with a bare Python."""

import pytest

from tests.cluster.conftest import Desk
from tests.support.bare import bare_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.zookeeper,
]


@pytest.mark.long
def test_ingest(desk: Desk) -> None:
    """It finishes with exact rows, and warns that workers must see the local table."""
    files = [desk.file(start) for start in (0, 60)]
    told = desk.run(["ingest", "trips", *files, "--engine", "spark"])
    assert told.returncode == 0, told.stderr
    assert desk.rows() == list(range(120))
    warning = f"{desk.folder}/trips is a local path and Spark runs on {desk.cluster.master}"
    assert told.stderr.count(warning) == 1


def test_an_executor_without_pyarrow_is_told_in_one_line(desk: Desk) -> None:
    """The missing module, the executor's host and the way out; nothing is in the table."""
    empty = bare_python(desk.folder / "empty")
    conf = desk.folder / "conf"
    conf.mkdir()
    lines = (desk.cluster.folder / "conf" / "spark-defaults.conf").read_text()
    lines = lines.replace(str(desk.cluster.python), str(empty))
    (conf / "spark-defaults.conf").write_text(f"{lines}\nspark.task.maxFailures 1\n")
    told = desk.run(
        ["ingest", "trips", desk.file(0), "--engine", "spark"], SPARK_CONF_DIR=str(conf)
    )
    assert told.returncode == 1
    (line,) = [line for line in told.stderr.splitlines() if line.startswith("error:")]
    assert "ModuleNotFoundError: No module named" in line
    assert "(on 127.0.0.1)" in line
    assert "every executor needs pyarrow and numpy" in line
    assert desk.rows() == []
