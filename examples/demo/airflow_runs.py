"""A real Airflow that plans and compacts: started in the background, watched, and ended.

The DAG file it reads is what a user writes; it stays in the demo's folder to be read.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider_segtable.core.errors import ExecutionFailed
from tests.support.airflow_api import Run
from tests.support.airflow_stack import AirflowStack

PLANNER = "segtable_planner__flights"
MINOR = "segtable_minor__flights"
DAGS = '''"""Airflow DAGs of the demo: a planner, and the minor compactions that it emits."""

from airflow_provider_segtable.dag_factory import compaction_dags

# The demo triggers the planner itself; a real one has a schedule. Seven plans share one DAG run,
# and so one start of Spark. Left to itself (engine="auto") so little would need no Spark.
compaction_dags(table="flights", schedule=None, plans_per_run=7, engine="spark")
'''
LOOK_EVERY_S = 1.0


class Airflow:
    """Airflow, its planner DAG, and the minor runs it emits."""

    title = "Airflow plans, and compacts by spark-submit, while further files are appended"
    starting = "Airflow starts meanwhile: SQLite, LocalExecutor, all four components"

    def __init__(self, folder: Path, uri: str, zookeeper: str) -> None:
        """Write the DAG file; nothing starts yet."""
        self._dags = folder / "dags"
        self._dags.mkdir()
        (self._dags / "flights.py").write_text(DAGS)
        connection = {
            "conn_type": "segtable",
            "host": str(Path(uri).parent),
            "extra": {"zookeeper": zookeeper, "spark_master": "local[2]"},
        }
        self._stack = AirflowStack(
            folder / "airflow",
            self._dags,
            {"AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(connection)},
            parallelism=2,
        )
        self._starter = threading.Thread(target=self._start, name="airflow", daemon=True)
        self._took_s = 0.0
        self._error: Exception | None = None
        self._run_id = ""
        self._runs: list[Run] = []
        self._looked = 0.0

    def __enter__(self) -> Self:
        """Start in the background."""
        self._starter.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything that came of it."""
        self._stack.stop()

    def ready(self) -> Iterator[str]:
        """Wait until it is healthy and has read the DAGs."""
        self._starter.join()
        if self._error:
            raise self._error
        yield f"Airflow is well at {self._stack.url} ({self._took_s:.0f} s to start, meanwhile)"

    def begin(self) -> None:
        """Trigger the planner; what it emits runs by itself."""
        self._run_id = self._stack.trigger(PLANNER)

    def finished(self) -> bool:
        """Tell whether the planner and all it has emitted have ended."""
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._runs = [*self._stack.runs(PLANNER), *self._stack.runs(MINOR)]
        return bool(self._runs) and all(run.ended for run in self._runs)

    def outcome(self) -> Iterator[str]:
        """Yield each run and how it ended.

        Raises:
            ExecutionFailed: if one did not succeed, or none was emitted.
        """
        for run in self._runs:
            if run.state != "success":
                raise ExecutionFailed(f"Airflow run {run.run_id} {run.state}: {self._why(run)}")
            yield f"[bold]{run.dag_id}[/] {run.run_id}: [green]{run.state}[/]{_plans(run)}"
        if not any(run.dag_id == MINOR for run in self._runs):
            raise ExecutionFailed(f"the planner DAG emitted no minor run: see {self._stack.home}")

    def places(self, *, kept: bool) -> Iterator[str]:
        """Yield where to look at it."""
        yield f"[cyan]{'the DAGs':<22}[/] {self._dags / 'flights.py'}"
        yield f"[cyan]{'what Airflow logged':<22}[/] {self._stack.home / 'logs'}"
        where = self._stack.url if kept else "make demo ARGS=--keep leaves it running"
        yield f"[cyan]{'Airflow itself':<22}[/] {where}"

    def _start(self) -> None:
        started = time.monotonic()
        try:
            self._stack.start()
            for dag_id in (PLANNER, MINOR):
                self._stack.unpause(dag_id)
        except Exception as error:  # noqa: BLE001 - told by ``ready``, in the story's own thread
            self._error = error
        self._took_s = time.monotonic() - started

    def _why(self, run: Run) -> str:
        tasks = self._stack.tasks(run.dag_id, run.run_id)
        failed = [task for task in tasks if task.state not in ("success", "skipped")]
        lines = [
            line
            for task in failed
            for line in self._stack.task_log(
                run.dag_id,
                run.run_id,
                task.task_id,
                map_index=task.map_index,
                try_number=task.try_number,
            )[-3:]
        ]
        return f"{', '.join(f'{t.task_id} {t.state}' for t in failed)}: {' | '.join(lines)}"


def _plans(run: Run) -> str:
    plans = run.conf.get("plans", ())
    return f", {len(plans)} plans in one Spark application" if plans else ""
