"""Fleets whose runs are ended from outside while they work, or are late; nothing wakes them.

Each table has one plan. Its worker waits to open an input, until a test lets go of the file.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from airflow_provider_segtable.core.log.plan import PlanState
from tests.support.airflow_stack import AirflowStack

from .conftest import Flights, make_flights
from .held_file import HeldFile

PLANNER, MINOR = "segtable_planner__ends", "segtable_minor__ends"
LATE, PAGES = "segtable_minor__late", "pages"
REMOTE, AWAY = "segtable_minor__remote", "away/flights"
FLEET = "[properties]\ncompaction.min_segments = 3\n[groups.all]\ntables = ['ends/*/flights']\n"
FLEET_DAGS = f"""
from datetime import timedelta
from pathlib import Path

from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_provider_segtable.dag_factory import fleet_dags

HERE = Path(__file__).parent
SHARED = dict(fleet=HERE / "ends.toml", schedule=None, upkeep=None)


class Cluster:
    attached = False

    def launch(self, submission, say):
        say("accepted")

    def kill(self):
        pass


fleet_dags(**SHARED, name="ends", spark={{"retry_delay": timedelta(seconds=1)}})
fleet_dags(
    **SHARED, name="remote", engine="spark", spark={{"launcher": Cluster(), "deferrable": True}}
)
fleet_dags(
    **SHARED,
    name="late",
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=1),
        callback=AsyncCallback(
            "tests.airflow.late_page.page", kwargs={{"folder": str(HERE / "{PAGES}")}}
        ),
    ),
)
"""
BESIDE, QUEUED = "beside", "queued"
"""The tables whose run nobody ends, and whose run is marked before it begins."""


def mark_task_failed(stack: AirflowStack, run_id: str) -> None:
    """Mark the running task as failed, as a person does in its view."""
    stack.mark_task(MINOR, run_id, "compact", "failed")


def mark_run_failed(stack: AirflowStack, run_id: str) -> None:
    """Mark the whole run as failed."""
    stack.mark_run(MINOR, run_id, "failed")


def mark_run_success(stack: AirflowStack, run_id: str) -> None:
    """Mark the whole run as successful."""
    stack.mark_run(MINOR, run_id, "success")


def clear_task(stack: AirflowStack, run_id: str) -> None:
    """Have the running task done again."""
    with stack.others_suspended():  # as this is not repeated
        stack.clear(MINOR, run_id, "compact")


def stop_worker(stack: AirflowStack, run_id: str) -> None:
    """Ask the worker to end, as an orchestrator does before it takes the machine away."""
    task_of(stack, run_id).parent().terminate()


def kill_task(stack: AirflowStack, run_id: str) -> None:
    """Kill the process of the task."""
    task_of(stack, run_id).kill()


def task_of(stack: AirflowStack, run_id: str) -> psutil.Process:
    """Return the process of a run's task."""
    (task,) = stack.tasks(MINOR, run_id)
    return psutil.Process(task.pid)


CANCELS = {
    "task_failed": (mark_task_failed, "failed"),
    "run_failed": (mark_run_failed, "failed"),
    "run_success": (mark_run_success, "success"),
}
"""By table, what cancels its plan, and the state that its run has then."""
REPEATS: Mapping[str, Callable[[AirflowStack, str], None]] = {
    "cleared": clear_task,
    "stopped": stop_worker,
    "killed": kill_task,
}
"""By table, what makes Airflow do the task again."""


def make_dags(dags: Path) -> None:
    """Write the fleet file and the DAG file."""
    (dags / PAGES).mkdir()
    (dags / "ends.toml").write_text(FLEET)
    (dags / "ends.py").write_text(FLEET_DAGS)


def make_tables(flights: Flights) -> Mapping[str, Flights]:
    """Make the tables, each with one plan."""
    root, names = flights.root / "ends", (*CANCELS, *REPEATS, BESIDE, QUEUED)
    return {name: make_flights(root / name, flights.zookeeper, 3) for name in names}


@contextmanager
def held(table: Flights) -> Iterator[HeldFile]:
    """Hold back whoever opens the newest file of a table."""
    (*_, newest) = table.table.snapshot().segments()
    with HeldFile(table.root / table.name / newest.path) as file:
        yield file


def plan_of(table: Flights) -> PlanState:
    """Return the only plan of a table."""
    (known,) = table.table.state().plans.values()
    return known


def note(table: Flights) -> str | None:
    """Return why the plan of a table was aborted; None if it was not."""
    return plan_of(table).note or None
