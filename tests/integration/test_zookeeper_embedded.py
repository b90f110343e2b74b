"""The embedded server: starts, is found, keeps its data, and leaves nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination import embedded_zookeeper
from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.coordination.embedded_zookeeper import (
    AlreadyRunning,
    EmbeddedZooKeeper,
    discover,
    find_java,
    start_background,
    status,
    stop_background,
    zookeeper_class_path,
)
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    DependencyMissing,
    EnvironmentIncomplete,
    JavaMissing,
)
from tests.contract.worlds import append, eventually

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


def test_data_and_port_survive_a_restart(tmp_path: Path) -> None:
    """Counters go on where they were, at the same address; epochs do not change."""
    seen = []
    for group in ("g", "h"):
        with EmbeddedZooKeeper(tmp_path) as server:
            client = connect(server.address)
            lease = client.acquire(append(group), wait_s=0)
            seen.append((server.address, lease.token.epoch, lease.allocated[0].partition))
            client.close()
    (address, epoch, _), (address_again, epoch_again, _) = seen
    assert (address, epoch) == (address_again, epoch_again)
    assert [partition for _, _, partition in seen] == [0, 1]
    assert discover(tmp_path) is None
    assert not status(tmp_path).running


def test_one_directory_is_one_server(tmp_path: Path) -> None:
    """A second server on a directory is refused, and the first lives on."""
    with EmbeddedZooKeeper(tmp_path) as server:
        with pytest.raises(AlreadyRunning, match="stop it first"):
            EmbeddedZooKeeper(tmp_path).start()
        assert discover(tmp_path) == server.address


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    """The error shows the port."""
    with EmbeddedZooKeeper(tmp_path / "a") as server:
        port = int(server.hosts.rpartition(":")[2])
        with pytest.raises(CoordinatorUnavailable, match=f"port {port}.*in use"):
            EmbeddedZooKeeper(tmp_path / "b", port).start()


def test_a_killed_parent_leaves_no_server(tmp_path: Path) -> None:
    """Kill -9 of the process that started it ends the server too."""
    script = (
        "import os, sys\n"
        "from airflow_provider_segtable.coordination.embedded_zookeeper "
        "import EmbeddedZooKeeper\n"
        "EmbeddedZooKeeper(sys.argv[1]).start()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    eventually(lambda: not status(tmp_path).running)


def test_the_background_server_outlives_its_starter(tmp_path: Path) -> None:
    """Started by one process, found and stopped by another; starting twice is starting once."""
    script = (
        "import sys\n"
        "from airflow_provider_segtable.coordination.embedded_zookeeper "
        "import start_background\n"
        "print(start_background(sys.argv[1]))\n"
    )
    started = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    try:
        address = started.stdout.strip()
        assert started.stderr == ""
        assert discover(tmp_path) == address
        assert start_background(tmp_path) == address
    finally:
        assert stop_background(tmp_path)
    assert discover(tmp_path) is None
    assert not stop_background(tmp_path)


def test_the_state_directory_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEGTABLE_HOME moves the default; where nothing was started nothing is found."""
    monkeypatch.setenv("SEGTABLE_HOME", str(tmp_path))
    assert embedded_zookeeper.default_state_dir() == tmp_path / "zookeeper"
    assert discover() is None
    assert not stop_background()


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without java on PATH nothing is written, and the error names the package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissing, match="openjdk-17"):
        EmbeddedZooKeeper(tmp_path / "zk").start()
    assert not (tmp_path / "zk").exists()


@pytest.mark.parametrize(("says", "named"), [('java version "1.8.0_392"', "Java 8"), ("?", "unkn")])
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, named: str
) -> None:
    """The error names the java that was found, from JAVA_HOME first, and its version."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=named) as refused:
        find_java()
    assert str(java) in str(refused.value)


def test_no_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars come with pyspark, not with pyspark-client."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(DependencyMissing, match="pip install pyspark"):
        zookeeper_class_path()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the way of the directory is an incomplete environment, with the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentIncomplete, match="file/zk"):
        EmbeddedZooKeeper(tmp_path / "file" / "zk").start()
