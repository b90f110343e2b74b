"""Run a separate real Airflow for trials, tests and the demo, with all four components.

1. It uses SQLite and LocalExecutor in its own home and free loopback ports; no log server, no
   login. A component waits for another one's transaction longer than SQLite's 5 s.
2. Every started process carries a token in its environment, and so do its descendants: workers,
   tasks, their Spark drivers. ``stop`` ends exactly those, orphans included.
3. A watcher reads from a pipe that only this process holds. When this process ends, however it
   ends, the watcher ends the others.

    >>> with AirflowStack(home, dags_folder=dags, env={"AIRFLOW_CONN_...": "..."}) as airflow:
    ...     airflow.unpause("segtable_planner__flights")
    ...     run_id = airflow.trigger("segtable_planner__flights")
    ...     airflow.wait_run("segtable_planner__flights", run_id).state
"""

import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from airflow_provider_segtable.coordination.embedded_zookeeper import free_port
from airflow_provider_segtable.core.errors import ExecutionFailed
from tests.support.airflow_api import POLL_S, AirflowApi, poll
from tests.support.processes import Marked, importable

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("--workers", "1"),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
START_TIMEOUT_S = 300.0
SLOW_S = "120"  # what a busy machine may take for a DAG file, or an answer to a task


class AirflowStack(AirflowApi):
    """An Airflow that runs during a ``with`` block (or from ``start`` to ``stop``).

    Args:
        home: ``AIRFLOW_HOME``; made if absent. Its database is kept, so a second start is quicker.
        dags_folder: the folder of DAG files.
        env: more environment: connections, ``SEGTABLE_...``, other settings of Airflow.
        parallelism: how many tasks run at once.
    """

    def __init__(
        self,
        home: Path | str,
        dags_folder: Path | str,
        env: Mapping[str, str] | None = None,
        *,
        parallelism: int = 4,
    ) -> None:
        self.home, self.dags = Path(home).absolute(), Path(dags_folder).absolute()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.marked = Marked(secrets.token_hex(8))
        self.env = self._environment(self.dags, env or {}, parallelism)
        self._components: dict[str, subprocess.Popen[bytes]] = {}
        self._watcher: subprocess.Popen[bytes] | None = None
        self._gate = threading.Lock()
        self._stopped = False

    def __enter__(self) -> Self:
        """Start, and wait until all components are healthy."""
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.stop()

    # ---- processes --------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the four components and wait until they are healthy (15 to 30 s).

        Raises:
            ExecutionFailed: if a component ends or stays unhealthy; has its last lines.
        """
        self._stopped = False
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        self._watcher = self.marked.watch()
        self._migrate()
        for name in COMPONENTS:
            self.revive(name)
        self._wait_healthy()
        return self

    def stop(self) -> None:
        """End every process of this stack; may be called again.

        It may be called while another thread is in ``start``, which then raises.
        """
        with self._gate:
            self._stopped = True
        self.marked.end(first=[process.pid for process in self._components.values()])
        for process in self._components.values():
            process.kill()  # it has ended already, unless it has hidden its mark
            process.wait()
        self._components.clear()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None

    def kill(self, component: str) -> None:
        """End a component and its children without warning, as a machine that fails."""
        process = self._components[component]
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children)

    def kill_alone(self, component: str) -> None:
        """End a component without warning, and leave its children to themselves."""
        self._components[component].kill()
        self._components[component].wait()

    def has_ended(self, component: str) -> bool:
        """Return whether a component's process has ended."""
        return self._components[component].poll() is not None

    def tasks_under_way(self) -> list[psutil.Process]:
        """Return the processes that carry out tasks: the executor's workers, and their children.

        A worker without a child has no task.
        """
        found: list[psutil.Process] = []
        with suppress(psutil.Error):
            for worker in psutil.Process(self._components["scheduler"].pid).children():
                tasks = worker.children()
                found += [worker, *tasks] if tasks else []
        return found

    def revive(self, component: str) -> None:
        """Start a component that does not run."""
        self._components[component] = self._airflow(
            component, *COMPONENTS[component], log=component
        )

    @contextmanager
    def others_suspended(self) -> Iterator[None]:
        """Let all components but the API server stand still during a block.

        SQLite refuses a transaction that has read before another one wrote, and the creation of a
        backfill is not repeated then. Nobody is stopped who is writing.
        """
        names = [name for name in self._components if name != "api-server"]
        others = [self._components[name] for name in names]
        try:
            while True:
                _send(others, signal.SIGSTOP)
                if self._can_write():
                    break
                _send(others, signal.SIGCONT)
                time.sleep(POLL_S)
            yield
        finally:
            _send(others, signal.SIGCONT)

    def log_of(self, component: str) -> Path:
        """Return the file with a component's output."""
        return self.home / "logs" / f"{component}.log"

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1, try_number: int = 1
    ) -> list[str]:
        """Return the lines that a try of a task has logged so far."""
        folder = self._log_folder(dag_id, run_id, task_id)
        mapped = folder / f"map_index={map_index}" if map_index >= 0 else folder
        path = mapped / f"attempt={try_number}.log"
        if not path.exists():
            return []
        return list(_lines(path.read_text(errors="replace")))

    def trigger_logs(self, dag_id: str, run_id: str, task_id: str) -> list[list[str]]:
        """Return the lines of a deferred task from each triggerer that has waited for it."""
        folder = self._log_folder(dag_id, run_id, task_id)
        paths = sorted(folder.glob("attempt=*.log.trigger.*.log"), key=_changed)
        return [list(_lines(path.read_text(errors="replace"))) for path in paths]

    # ---- inside -----------------------------------------------------------------------------

    def _log_folder(self, dag_id: str, run_id: str, task_id: str) -> Path:
        logs = self.home / "logs"
        return logs / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"

    def _environment(
        self, dags_folder: Path, env: Mapping[str, str], parallelism: int
    ) -> dict[str, str]:
        settings = {
            "CORE__DAGS_FOLDER": str(dags_folder),
            "CORE__DAGBAG_IMPORT_TIMEOUT": SLOW_S,
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(parallelism),
            "CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{self.port}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": f"http://localhost:{self.port}",
            "API_AUTH__JWT_SECRET": secrets.token_hex(64),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}?timeout=60",
            "LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": SLOW_S,
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
            "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
            "WORKERS__EXECUTION_API_TIMEOUT": SLOW_S,
        }
        here = Path(sys.executable).parent
        return {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            **{f"AIRFLOW__{key}": value for key, value in settings.items()},
            "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
            "NO_PROXY": "localhost,127.0.0.1",
            "no_proxy": "localhost,127.0.0.1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": importable(),
            **env,
            **self.marked.environment,
        }

    def _airflow(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        with self._gate, self.log_of(log).open("ab") as output:
            if self._stopped:
                raise ExecutionFailed("Airflow was stopped while it started")
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # this process handles Ctrl-C at the terminal
            )

    def _can_write(self) -> bool:
        """Return whether no transaction is writing to Airflow's database."""
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
        return True

    def _migrate(self) -> None:
        code = self._airflow("db", "migrate", log="migrate").wait()
        if code:
            raise ExecutionFailed(f"airflow db migrate ended with {code}: {self._tail('migrate')}")

    def _wait_healthy(self) -> None:
        def healthy() -> bool | None:
            for name, process in self._components.items():
                if process.poll() is not None:
                    raise ExecutionFailed(f"airflow {name} ended: {self._tail(name)}")
            told = self._health()
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            return all(told.get(part, {}).get("status") == "healthy" for part in parts) or None

        if not poll(healthy, START_TIMEOUT_S):
            logs = "; ".join(f"{name}: {self._tail(name)}" for name in self._components)
            raise ExecutionFailed(
                f"Airflow is not healthy after {START_TIMEOUT_S:g} s: {self._health()}; {logs}"
            )

    def _health(self) -> dict[str, Any]:
        try:
            told: dict[str, Any] = self._ask("monitor/health")
        except (OSError, ValueError):  # not up yet
            return {}
        return told

    def _tail(self, component: str) -> str:
        lines = self.log_of(component).read_text(errors="replace").splitlines()
        return " | ".join(lines[-8:])


def _send(processes: Sequence[subprocess.Popen[bytes]], what: signal.Signals) -> None:
    for process in processes:
        process.send_signal(what)


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            yield line
            continue
        yield str(entry.get("event", line))
        for detail in entry.get("error_detail") or ():
            yield f"{detail.get('exc_type')}: {detail.get('exc_value')}"
