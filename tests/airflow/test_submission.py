"""Starting Spark applications, with a stand-in for ``spark-submit``."""

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import DependencyMissing, ExecutionFailed, InvalidInput
from airflow_provider_segtable.hooks.submission import (
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
    spark_home,
)

YARN = "spark.yarn.submit.waitAppCompletion"
KUBERNETES = "spark.kubernetes.submission.waitAppCompletion"
SUBMISSION = Submission(
    application=Path("/apps/compact.py"),
    arguments=("--table", "/t", "--plan", "p"),
    name="segtable-compact",
    conf={"spark.x": "1"},
    storage_options={"secret": "hush"},
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a file to write a ``spark-submit`` into, found by SPARK_HOME and by PATH."""
    path = tmp_path / "bin" / "spark-submit"
    path.parent.mkdir()
    path.touch(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


def test_zookeeper_options_travel_as_storage_options_do(stand_in: Path) -> None:
    """By the environment alone: not in the command, nor in what the application prints of it."""
    stand_in.write_text('#!/bin/sh\necho "$SEGTABLE_ZOOKEEPER_OPTIONS"\n')
    options = {"user": "lake", "password": "open-sesame-42"}
    submission = replace(SUBMISSION, zookeeper_options=options)
    assert json.loads(submission.secrets()["SEGTABLE_ZOOKEEPER_OPTIONS"]) == options
    said: list[str] = []
    LocalSparkSubmit().launch(submission, said.append)
    assert '"user": "lake"' in said[-1]
    assert "sesame" not in f"{said} {submission!r}"


def test_output_is_told_line_by_line_and_secrets_stay_off_the_command_line(stand_in: Path) -> None:
    """Arguments arrive in spark-submit's order; storage options come by the environment."""
    arrived = stand_in.with_name("arrived")
    stand_in.write_text(
        f'#!/bin/sh\necho "$SEGTABLE_STORAGE_OPTIONS" | tee {arrived} >&2\nexec echo "$@"\n'
    )
    said: list[str] = []
    LocalSparkSubmit("local[2]").launch(SUBMISSION, said.append)
    assert said[2] == (
        "--master local[2] "
        "--conf spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        "-XX:ReservedCodeCacheSize=240m "
        "--conf spark.x=1 --name segtable-compact "
        "/apps/compact.py --table /t --plan p"
    )
    assert arrived.read_text() == '{"secret": "hush"}\n'
    assert "hush" not in "".join(said)


def test_an_application_that_fails_is_told_with_its_last_lines(stand_in: Path) -> None:
    """The error carries the exit code and the end of the output, also of standard error."""
    stand_in.write_text("#!/bin/sh\necho boom >&2\nexit 3\n")
    with pytest.raises(ExecutionFailed, match=r"exit code 3:\nboom"):
        LocalSparkSubmit().launch(SUBMISSION, lambda _: None)


def test_kill_ends_the_application_and_what_it_started(stand_in: Path) -> None:
    """The whole process group goes: the pipe that its child holds is closed."""
    stand_in.write_text("#!/bin/sh\nsleep 600 &\necho ready\nwait\n")
    launcher = LocalSparkSubmit()
    ready = threading.Event()
    errors: list[Exception] = []

    def launch() -> None:
        try:
            launcher.launch(SUBMISSION, lambda line: ready.set() if line == "ready" else None)
        except ExecutionFailed as error:
            errors.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    assert ready.wait(60)
    launcher.kill()
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's message is Linux's")
def test_an_application_dies_with_the_task_that_started_it(stand_in: Path, tmp_path: Path) -> None:
    """SIGKILL of the task ends its application: a pipe that only it holds open is closed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stand_in.write_text(f"#!/bin/sh\nexec 3>{pipe}\necho ready >&3\nexec sleep 600\n")
    program = """
        from pathlib import Path
        from airflow_provider_segtable.hooks.submission import LocalSparkSubmit, Submission
        submission = Submission(application=Path("a.py"), arguments=(), name="n")
        LocalSparkSubmit().launch(submission, print)
    """
    task = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    with pipe.open() as held:
        assert held.readline() == "ready\n"
        task.kill()
        task.wait()
        assert held.read() == ""


def test_a_spark_connection_is_submitted_by_its_own_hook(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Master, configuration, Python of the driver and environment reach spark-submit."""
    spark = {"conn_type": "spark", "host": "local[1]"}
    monkeypatch.setenv("AIRFLOW_CONN_MY_SPARK", json.dumps(spark))
    record = stand_in.with_name("record")
    stand_in.write_text(f'#!/bin/sh\necho "$@ $SEGTABLE_STORAGE_OPTIONS" > {record}\n')
    launcher = SparkSubmit("my_spark", options={"driver_memory": "700m"})
    launcher.launch(SUBMISSION, print)
    launcher._hook._submit_sp.stdout.close()  # the hook leaves it open
    submitted = record.read_text()
    assert "--master local[1]" in submitted
    assert f"--conf spark.pyspark.driver.python={sys.executable}" in submitted
    assert "--driver-memory 700m" in submitted
    assert '/apps/compact.py --table /t --plan p {"secret": "hush"}' in submitted
    assert "hush" not in capfd.readouterr().out
    stand_in.write_text("#!/bin/sh\necho boom\nexit 3\n")
    with pytest.raises(ExecutionFailed, match="boom"):
        launcher.launch(SUBMISSION, print)
    launcher._hook._submit_sp.stdout.close()


@pytest.mark.parametrize(
    ("wait", "conf", "wanted"),
    [
        (False, {}, {YARN: "false", KUBERNETES: "false"}),
        (False, {YARN: "true", "spark.x": "1"}, {YARN: "true", KUBERNETES: "false"}),
        (True, {}, {}),
    ],
)
@pytest.mark.parametrize("mode", [{}, {"deploy_mode": "cluster"}])
def test_a_driver_on_a_cluster_is_submitted_only_if_so_asked(
    stand_in: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: dict[str, str],
    *,
    wait: bool,
    conf: dict[str, str],
    wanted: dict[str, str],
) -> None:
    """The connection may say the deploy mode, and the application's settings go first."""
    extra = {} if mode else {"deploy-mode": "cluster"}
    spark = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MY_SPARK", json.dumps(spark))
    record = stand_in.with_name("record")
    stand_in.write_text(f'#!/bin/sh\necho "$@" > {record}\n')
    launcher = SparkSubmit("my_spark", **mode)
    assert not launcher.attached
    launcher.launch(replace(SUBMISSION, wait=wait, conf=conf), print)
    launcher._hook._submit_sp.stdout.close()  # the hook leaves it open
    submitted = record.read_text()
    assert "--deploy-mode cluster" in submitted
    found = {k: v for k, v in re.findall(r"--conf (\S+?)=(\S+)", submitted) if k.endswith("etion")}
    assert found == wanted


def test_a_driver_on_kubernetes_that_was_only_submitted_is_no_failure(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen its exit code yet; if we wait for it, that is a failure."""
    pytest.importorskip("kubernetes", reason="the hook's extra for Kubernetes is not installed")
    spark = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1", "extra": {"namespace": "x"}}
    monkeypatch.setenv("AIRFLOW_CONN_MY_SPARK", json.dumps(spark))
    stand_in.write_text("#!/bin/sh\nexit 0\n")
    launcher = SparkSubmit("my_spark", deploy_mode="cluster")
    launcher.launch(replace(SUBMISSION, wait=False), print)
    launcher._hook._submit_sp.stdout.close()
    with pytest.raises(ExecutionFailed, match="exit code"):
        launcher.launch(SUBMISSION, print)
    launcher._hook._submit_sp.stdout.close()


@pytest.mark.parametrize(
    ("where", "master"),
    [
        ({"host": "spark://head", "port": 7077}, "spark://head"),
        ({"host": "head", "port": 7077}, "spark://head"),
        ({"host": "local[2]"}, "local[2]"),
    ],
)
def test_cluster_mode_is_refused_where_spark_has_none_for_python(
    monkeypatch: pytest.MonkeyPatch, where: dict[str, object], master: str
) -> None:
    """A standalone or local master is named with the way out, before spark-submit is started."""
    spark = {"conn_type": "spark", **where, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_MY_SPARK", json.dumps(spark))
    said = f"cluster with master '{re.escape(master)}': .* use client, .* YARN or Kubernetes"
    with pytest.raises(InvalidInput, match=said):
        SparkSubmit("my_spark").launch(SUBMISSION, print)
    assert SparkSubmit("my_spark", deploy_mode="client").attached


def test_a_driver_here_is_in_client_mode(stand_in: Path) -> None:
    """A setting that moves it elsewhere is refused: its end would not be seen."""
    stand_in.write_text("#!/bin/sh\nexit 1\n")
    moved = replace(SUBMISSION, conf={"spark.submit.deployMode": "cluster"})
    with pytest.raises(InvalidInput, match=r"deployMode='cluster': .* spark_conn_id"):
        LocalSparkSubmit("yarn").launch(moved, print)


def test_a_spark_connection_that_is_none_is_refused() -> None:
    """The Spark hook alone would go to YARN in silence."""
    with pytest.raises(Exception, match="no_such_spark"):
        SparkSubmit("no_such_spark").launch(SUBMISSION, print)


def test_a_machine_without_spark_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pyspark and no SPARK_HOME: the message names the three ways out."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DependencyMissing, match=r"pip install pyspark.*SPARK_HOME.*spark_conn_id"):
        spark_home()
