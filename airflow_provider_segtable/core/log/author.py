"""Authors of events and holders of locks: ``host:pid``, and the Airflow task that is carried out.

A task's author is ``host:pid dag/run/task``. A run's id may hold slashes, a DAG's and a task's may
not.
"""

from airflow_provider_segtable.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowTask:
    """A task of a DAG run."""

    dag_id: str
    run_id: str
    task_id: str


def task_of(author: str) -> str:
    """Return ``dag/run/task`` of an author, equal for all tries; empty if it is no task."""
    return author.partition(" ")[2]


def same_task(author: str, other: str) -> bool:
    """Return whether two authors are tries of one task, or are the same process."""
    return author == other or task_of(author) == task_of(other) != ""


def task_named(author: str) -> AirflowTask | None:
    """Return the task that an author is; None if it is none."""
    dag_id, _, rest = task_of(author).partition("/")
    run_id, _, task_id = rest.rpartition("/")
    if not (dag_id and run_id and task_id):
        return None
    return AirflowTask(dag_id=dag_id, run_id=run_id, task_id=task_id)


def host_of(author: str) -> str:
    """Return the host of an author, without its process."""
    return author.partition(" ")[0].rpartition(":")[0] or author
