"""Run a ZooKeeper server from the jars that PySpark ships, for trials and tests.

1. Loopback only, on a free port; the port and the data of a directory survive a restart.
2. A lock file shows whether a server runs: the server's process holds it (as its standard input)
   from before its start until the kernel has ended it. So while the lock is taken, the process id
   in the state file is the server's, and no other process is ever signalled.
3. With ``die_with_parent`` a watching shell reads from a pipe that only this process holds. When
   this process ends, however it ends, the pipe closes and the shell kills the server.
4. Only the owner can access the directory (mode 0700) and the files in it. Every user of this
   machine can reach the port; if that matters, connect with a user
   (``coordination.zookeeper.access``).
5. One directory is one server::

       <dir>/lock  zoo.cfg  zookeeper.log  server.json {"port", "pid"}  data/

6. A server binds its port some time after the port was found free, and again when it restarts.
   Meanwhile the system may give that port to any outgoing connection, if it is an ephemeral one.
   So a port below the ephemeral ports of Linux and macOS is drawn: only a server takes such a port.
7. The draw is random, so that two processes that draw at the same time hardly ever meet.
8. The ZooKeeper of this machine is found by the environment, or is the running embedded server.
"""

import fcntl
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    DependencyMissing,
    EnvironmentIncomplete,
    JavaMissing,
)

NEEDED_JAVA = 17
WAY_OUT = (
    f"install Java {NEEDED_JAVA} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME"
)

# The jars that the server uses: a tenth of Spark's class path, and twice as fast to start.
JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-*.jar",
    "netty-*.jar",
)


# Java and the ZooKeeper jars of this machine
def find_java() -> Path:
    """Return the java command, from JAVA_HOME or else PATH.

    Raises:
        JavaMissing: if there is no Java, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which("java")
    if not found:
        raise JavaMissing(
            f"Java is missing: none on PATH, and JAVA_HOME is {home or 'not set'}: {WAY_OUT}"
        )
    version = _version(found)
    if version < NEEDED_JAVA:
        raise JavaMissing(f"{found} is Java {version or 'of unknown version'}: {WAY_OUT}")
    return Path(found)


@cache
def _version(java: str) -> int:
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(match.group(1)) if match else 0


def zookeeper_class_path() -> str:
    """Return the class path of the ZooKeeper server that PySpark ships.

    Raises:
        DependencyMissing: if no PySpark with its jars is installed.
    """
    spec = importlib.util.find_spec("pyspark")
    places = [Path(place, "jars") for place in (spec and spec.submodule_search_locations) or ()]
    if home := os.environ.get("SPARK_HOME"):
        places.append(Path(home, "jars"))
    for place in places:
        if any(place.glob("zookeeper-[0-9]*.jar")):
            return ":".join(sorted(str(jar) for name in JARS for jar in place.glob(name)))
    looked = ", ".join(map(str, places)) or "no pyspark package found"
    raise DependencyMissing(
        f"PySpark's jars, which the embedded ZooKeeper needs, were not found ({looked}): "
        "pip install pyspark (pyspark-client has no jars), or start your own ZooKeeper"
    )


LOOPBACK = "127.0.0.1"
FIRST = 10_000
PAST = 32_768
"""The first ephemeral port of Linux; macOS begins higher."""
DRAWS = 100


# Free ports
def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    for _ in range(DRAWS):
        port = FIRST + secrets.randbelow(PAST - FIRST)
        if is_free(port):
            return port
    return _any_port()


def is_free(port: int) -> bool:
    """Return whether a server could bind the port of the loopback interface now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


CHROOT = "/segtable"
PRIVATE = 0o700
POLL_S = 0.02
ANSWER_S = 10.0
"""Longest wait for the answer of a server that may be slow, as on a busy machine."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0

# Ticks of 0.5 s allow sessions from 1 s up; the log is not pre-allocated in blocks of 64 MiB.
CONFIG = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
admin.enableServer=false
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=600000
maxClientCnxns=0
autopurge.purgeInterval=1
autopurge.snapRetainCount=3
4lw.commands.whitelist=ruok,srvr,mntr
"""
JVM_OPTIONS = (
    "-Xms32m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dlog4j2.level=WARN",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=1024",
)


# The server
class AlreadyRunning(CoordinatorUnavailable):
    """A server already runs in the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Status of a directory's server; ``pid`` is None if it does not run."""

    data_dir: Path
    address: str | None
    pid: int | None

    @property
    def running(self) -> bool:
        """Return whether the server's process lives."""
        return self.pid is not None


class EmbeddedZooKeeper:
    """The server of one directory; runs during a ``with`` block (or until ``stop``).

    Args:
        data_dir: directory of the server; made if absent, kept afterwards.
        port: by default the directory's last port if that is free, else any free one.
        die_with_parent: kill the server when this process ends without stopping it.
        settings: more settings of ``zoo.cfg``, to try out TLS and users.
        jvm_options: more options of Java, e.g. the file of SASL users.
    """

    def __init__(
        self,
        data_dir: Path | str,
        port: int | None = None,
        *,
        die_with_parent: bool = True,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Store the arguments; nothing starts yet."""
        self.data_dir = Path(data_dir).absolute()
        self._wanted_port = port
        self._die_with_parent = die_with_parent
        self._settings = dict(settings or {})
        self._jvm_options = tuple(jvm_options)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the server."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def address(self) -> str:
        """Return the address for ``coordination.address.connect``."""
        return _address(self._port)

    @property
    def hosts(self) -> str:
        """Return ``host:port``."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Return the server's process id while it runs."""
        return status(self.data_dir).pid

    def start(self) -> Self:
        """Start the server and wait until it answers.

        Raises:
            JavaMissing: no Java is new enough.
            DependencyMissing: no PySpark jars.
            AlreadyRunning: the directory has a server.
            CoordinatorUnavailable: the port is taken, or the server does not come up.
            EnvironmentIncomplete: the directory cannot be written.
        """
        java, class_path = find_java(), zookeeper_class_path()
        try:
            self.data_dir.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self.data_dir.chmod(PRIVATE)  # older versions made it open to all users
            with _server_lock(self.data_dir) as lock:
                self._port = self._choose_port()
                _record(self.data_dir, port=self._port)  # forget the last server's process id
                options = (*JVM_OPTIONS, *self._jvm_options)
                self._launch([str(java), *options, "-cp", class_path], lock)
        except OSError as error:
            raise EnvironmentIncomplete(
                f"ZooKeeper's state cannot be written to {self.data_dir} ({error}): "
                "choose another directory by --dir or SEGTABLE_HOME"
            ) from error
        self._await_answer()
        return self

    def stop(self) -> None:
        """End the server and keep its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server without warning, for tests."""
        self._end(signal.SIGKILL)

    def detach(self) -> None:
        """Leave the server running when this process ends."""
        if self._process:
            self._process.returncode = 0  # else the destructor would warn of a running process
            self._process = None

    def _choose_port(self) -> int:
        if self._wanted_port is not None:
            if not is_free(self._wanted_port):
                raise CoordinatorUnavailable(
                    f"port {self._wanted_port} of {LOOPBACK} is in use: choose another"
                )
            return self._wanted_port
        last = int(_recorded(self.data_dir).get("port", 0))
        return last if last and is_free(last) else free_port()

    def _launch(self, java: list[str], lock: IO[bytes]) -> None:
        config = self.data_dir / "zoo.cfg"
        given = CONFIG.format(data=self.data_dir / "data", port=self._port, host=LOOPBACK)
        config.write_text(given + "".join(f"{k}={v}\n" for k, v in self._settings.items()))
        with (self.data_dir / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)],
                stdin=lock,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # this process handles Ctrl-C at the terminal
                umask=0o077,
            )
        if self._die_with_parent:
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", 'read _; kill -9 "$0"', str(self._process.pid)],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        _record(self.data_dir, port=self._port, pid=self._process.pid)

    def _await_answer(self) -> None:
        assert self._process  # noqa: S101 - _launch has set it
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log = self.data_dir / "zookeeper.log"
                last = " | ".join(log.read_text(errors="replace").splitlines()[-5:])
                raise CoordinatorUnavailable(
                    f"the embedded ZooKeeper did not start on port {self._port}: {last}; see {log}"
                )
            time.sleep(POLL_S)

    def _end(self, how: signal.Signals) -> None:
        if self._watcher:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        _end(self.data_dir, how)
        if self._process:
            self._process.wait()
            self._process = None


def start_background(state_dir: Path | str | None = None, *, port: int | None = None) -> str:
    """Start a server that outlives this process, unless one runs; return its address."""
    place = _place(state_dir)
    server = EmbeddedZooKeeper(place, port, die_with_parent=False)
    try:
        server.start()
    except AlreadyRunning:
        return _await_other(place)
    server.detach()
    return server.address


def stop_background(state_dir: Path | str | None = None) -> bool:
    """Stop the server of a state directory; return whether one ran."""
    return _end(_place(state_dir), signal.SIGTERM)


def status(state_dir: Path | str | None = None) -> Status:
    """Return the status of the server of a state directory."""
    place = _place(state_dir)
    record = _recorded(place)
    address = _address(record["port"]) if "port" in record else None
    return Status(data_dir=place, address=address, pid=record.get("pid") if _taken(place) else None)


def discover(state_dir: Path | str | None = None) -> str | None:
    """Return the address of the state directory's server if it answers."""
    place = _place(state_dir)
    port = _recorded(place).get("port")
    return _address(port) if port and _taken(place) and answers(port) else None


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a ZooKeeper server at the port serves requests.

    It does not use ``ruok``, which a loading server answers although it drops connections.
    """
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False


def default_state_dir() -> Path:
    """Return ``$SEGTABLE_HOME/zookeeper`` or ``~/.segtable/zookeeper``."""
    return Path(os.environ.get("SEGTABLE_HOME") or Path.home() / ".segtable", "zookeeper")


def _await_other(place: Path) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (address := discover(place)):
        if time.monotonic() > deadline:
            raise CoordinatorUnavailable(
                f"the ZooKeeper of {place} runs, but does not answer: see {place / 'zookeeper.log'}"
            )
        time.sleep(POLL_S)
    return address


def _place(state_dir: Path | str | None) -> Path:
    return Path(state_dir).absolute() if state_dir else default_state_dir().absolute()


def _address(port: int) -> str:
    return f"zk://{LOOPBACK}:{port}{CHROOT}"


def _recorded(place: Path) -> dict[str, int]:
    try:
        record: dict[str, int] = json.loads((place / "server.json").read_text())
    except (OSError, ValueError):
        return {}
    return record


def _record(place: Path, **facts: int) -> None:
    new = place / "server.json.new"
    new.write_text(json.dumps(facts))
    new.replace(place / "server.json")


@contextmanager
def _server_lock(place: Path) -> Iterator[IO[bytes]]:
    """Hold the directory's lock file; a process that inherits the open file keeps holding it."""
    deadline = time.monotonic() + 1.0
    with (place / "lock").open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # a server; or, for an instant, a status check
                if time.monotonic() > deadline:
                    raise AlreadyRunning(
                        f"another ZooKeeper uses {place}: use that one, or stop it first "
                        "(segtable zookeeper stop)"
                    ) from None
                time.sleep(POLL_S)
        yield lock


def _taken(place: Path) -> bool:
    try:
        with (place / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _end(place: Path, how: signal.Signals) -> bool:
    """Signal the directory's server until it has ended; return whether one ran."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    ran = False
    while (pid := status(place).pid) is not None:
        if not ran or time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if ran else how)
        ran = True
        time.sleep(POLL_S)
    return ran


ADDRESS_VARIABLE = "SEGTABLE_ZOOKEEPER"


# The ZooKeeper of this machine
def find_zookeeper(given: str | None) -> str | None:
    """Return ``given``, or ``$SEGTABLE_ZOOKEEPER``, or the embedded server's address, or None."""
    return given or os.environ.get(ADDRESS_VARIABLE) or discover()
