"""A real YARN on loopback: Hadoop's resource manager and one node manager, each a JVM of its own.

1. Ports are free ones, found before the start, because both processes and Spark read them.
2. There is no HDFS. Spark stages an application in a local folder, as all is one machine here.
3. Containers start what Spark tells them, with Spark's jars where they are.
"""

import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_segtable.coordination.embedded_zookeeper import find_java
from airflow_provider_segtable.hooks.submission import spark_home
from tests.cluster.standalone import LOOPBACK, SETTINGS, Node
from tests.remote_spark.prepare import YARN_JARS
from tests.support.processes import Marked

_KINDS = {
    "resourcemanager.ResourceManager": "Transitioned to active state",
    "nodemanager.NodeManager": "Registered with ResourceManager as",
}
_LOGGING = """
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1} %m%n
"""
_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
}
_OPENED = "java.base/java.lang=ALL-UNNAMED"


class Yarn:
    """The cluster, from ``start`` to ``stop``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "conf"
        self.marked = Marked(secrets.token_hex(8))
        self._nodes: list[Node] = []
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> Mapping[str, str]:
        """Return what a driver is told, besides the master ``yarn``."""
        jars = spark_home() / "jars"
        here = {name: value for name, value in SETTINGS.items() if "extraJava" not in name}
        return {
            **{name: value for name, value in here.items() if not name.startswith("spark.cores")},
            "spark.yarn.jars": f"local:{jars}/*",
            "spark.yarn.stagingDir": f"file:{self.folder}/staging",
            "spark.yarn.am.memory": "512m",
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": LOOPBACK,
            "spark.executorEnv.SPARK_LOCAL_IP": LOOPBACK,
            "spark.executor.instances": "1",
        }

    def start(self) -> None:
        """Start both processes, and wait until the node has registered."""
        self._configure()
        self._watcher = self.marked.watch()
        for kind in _KINDS:
            self._nodes.append(self._node(kind))
        for node in self._nodes:
            node.wait()

    def stop(self) -> None:
        """End all of it, containers too."""
        self.marked.end()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
        for node in self._nodes:
            node.close()

    def _node(self, kind: str) -> Node:
        java = find_java()
        jars = [str(jar) for jar in sorted(YARN_JARS.glob("*.jar"))]
        command = [
            *(str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("--add-opens", _OPENED),
            *("-cp", ":".join([str(self.conf), *jars])),
            f"org.apache.hadoop.yarn.server.{kind}",
        ]
        environment = {
            **self.marked.environment,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "JAVA_HOME": str(java.resolve().parents[1]),
            "HOME": str(self.folder),
        }
        log = self.folder / f"{kind.partition('.')[0]}.log"
        return Node(command, log, _KINDS[kind], environment)

    def _configure(self) -> None:
        self.conf.mkdir()
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        served = [f"yarn.resourcemanager.{name}" for name in (*names, "webapp.address")]
        ports = free_ports(len(served))
        yarn = {
            **{name: f"{LOOPBACK}:{port}" for name, port in zip(served, ports, strict=True)},
            "yarn.resourcemanager.hostname": LOOPBACK,
            "yarn.resourcemanager.bind-host": LOOPBACK,
            "yarn.nodemanager.hostname": LOOPBACK,
            "yarn.nodemanager.bind-host": LOOPBACK,
            "yarn.nodemanager.address": f"{LOOPBACK}:0",
            "yarn.nodemanager.localizer.address": f"{LOOPBACK}:0",
            "yarn.nodemanager.webapp.address": f"{LOOPBACK}:0",
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.local-dirs": f"{self.folder}/local",
            "yarn.nodemanager.log-dirs": f"{self.folder}/logs",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,SEGTABLE_STACK,SPT_NOENV",
        }
        self._write("yarn-site", yarn)
        self._write("core-site", {"hadoop.tmp.dir": f"{self.folder}/hadoop"})
        self._write("capacity-scheduler", _QUEUES)
        (self.conf / "log4j.properties").write_text(_LOGGING)

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        rows = (
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        )
        text = "\n".join(["<configuration>", *rows, "</configuration>"])
        (self.conf / f"{name}.xml").write_text(text)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that no process uses now, all different."""
    with ExitStack() as held:
        found = []
        for _ in range(count):
            taken = held.enter_context(socket.socket())
            taken.bind((LOOPBACK, 0))
            found.append(taken.getsockname()[1])
        return found


def driver_python() -> Mapping[str, str]:
    """Return the settings of a driver on the cluster that runs in this process's environment."""
    return {
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }
