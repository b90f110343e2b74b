"""How the stack's tests wait, and how soon Airflow and ZooKeeper notice an end."""

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE
from tests.support.airflow_api import pause_s

QUICK = {  # how long Airflow and ZooKeeper take to notice that a task is dead
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "14",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    SESSION_TIMEOUT_VARIABLE: "6",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",  # no file changes
}
PATIENCE_S = 300.0
LOOK_S = 0.2
Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None], what: str, timeout_s: float = PATIENCE_S) -> Found:
    """Return what a look finds in the end."""
    begun = time.monotonic()
    while (found := look()) is None:
        waited_s = time.monotonic() - begun
        assert waited_s < timeout_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(pause_s(waited_s, LOOK_S))
    return found
