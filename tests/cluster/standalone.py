"""A real standalone cluster on loopback, from PySpark's jars; its executors have a bare Python.

1. A master and two workers, each a process of its own on ports that were free. What they start
   carries their mark, and goes with them.
2. The executors' Python is a virtual environment with links to pyarrow and numpy, and nothing else.
3. Drivers find the cluster by ``spark-defaults.conf``, as users' drivers do. A driver that is
   given ``settings`` instead starts sooner: archived classes need a class path of jars alone.
"""

import os
import re
import secrets
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from airflow_provider_segtable.hooks.submission import spark_home
from airflow_provider_segtable.spark.driver.session import SHORT_LIVED_DRIVER
from tests.class_archive import with_archive
from tests.support.bare import bare_python
from tests.support.processes import Marked

READY_S = 240
LOOPBACK = "127.0.0.1"
QUICK_JVM = f"{SHORT_LIVED_DRIVER['spark.driver.extraJavaOptions']} {with_archive()}".rstrip()
SETTINGS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "1m",
    "spark.log.level": "OFF",
}


class Node:
    """A process of a cluster: a JVM that says in its log when it is ready."""

    def __init__(
        self, command: Sequence[str], log: Path, ready: str, env: Mapping[str, str]
    ) -> None:
        self._log, self._ready = log, re.compile(ready)
        self._found: re.Match[str] | None = None
        self._event = threading.Event()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(env),
        )
        assert self.process.stdout
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        with output, self._log.open("w") as log:
            for line in output:
                log.write(line)
                log.flush()
                if self._found is None and (found := self._ready.search(line)):
                    self._found = found
                    self._event.set()
        self._event.set()

    @property
    def alive(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None

    def wait(self) -> re.Match[str]:
        """Wait until it is ready; return what its log said."""
        self._event.wait(READY_S)
        assert self._found, (
            f"{self._log} does not say {self._ready.pattern}:\n" + (self._log.read_text()[-2000:])
        )
        return self._found

    def close(self) -> None:
        """Wait for its end, and for that of its log."""
        self.process.wait(READY_S)
        self._reader.join(READY_S)


class Standalone:
    """The cluster, from ``start`` to ``stop``; ``home`` has its Spark, by default PySpark's."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self.folder = folder
        self.home = home or spark_home()
        self.marked = Marked(secrets.token_hex(8))
        self.master = ""
        self.settings: Mapping[str, str] = {}
        self.python = bare_python(folder / "bare", "pyarrow", "numpy")
        self._nodes: list[Node] = []
        self._workers = 0
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the master, then both workers at once."""
        self._watcher = self.marked.watch()
        says = r"Starting Spark master at (spark://\S+)"
        head = self._node("Master", self.folder / "master.log", says)
        self._nodes.append(head)
        self.master = head.wait()[1]
        self.settings = {
            "spark.master": self.master,
            "spark.pyspark.python": str(self.python),
            **SETTINGS,
        }
        conf = self.folder / "conf"
        conf.mkdir()
        lines = (f"{key} {value}" for key, value in self.settings.items())
        (conf / "spark-defaults.conf").write_text("\n".join(lines))
        for node in [self.add_worker(), self.add_worker()]:
            node.wait()

    def add_worker(self) -> Node:
        """Start another worker; return it before it is ready."""
        self._workers += 1
        place = self.folder / f"worker{self._workers}"
        log = place.with_suffix(".log")
        size = ("-c", "1", "-m", "600m", "-d", str(place), self.master)
        node = self._node("Worker", log, "Successfully registered", *size)
        self._nodes.append(node)
        return node

    def _node(self, role: str, log: Path, ready: str, *args: str) -> Node:
        kind = f"org.apache.spark.deploy.{role.lower()}.{role}"
        command = [str(self.home / "bin" / "spark-class"), kind, "--host", LOOPBACK]
        ports = ("--port", "0", "--webui-port", "0")
        return Node([*command, *ports, *args], log, ready, self._environment())

    def stop(self) -> None:
        """End all of it, executors and their Python too."""
        self.marked.end()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
        for node in self._nodes:
            node.close()

    def driver(self, **more: str) -> dict[str, str]:
        """Return the environment of a driver."""
        return {**os.environ, "SPARK_CONF_DIR": str(self.folder / "conf"), **more}

    def executors(self) -> list[psutil.Process]:
        """Return the running executors: the children of workers."""
        workers = (psutil.Process(node.process.pid) for node in self._nodes[1:] if node.alive)
        return [child for worker in workers for child in worker.children()]

    def _environment(self) -> dict[str, str]:
        """Return what a node sees: nothing of this process's Python."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
        return {
            **kept,
            **self.marked.environment,
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        }
