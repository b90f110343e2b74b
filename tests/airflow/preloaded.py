"""Modules that the stack's scheduler imports once, for all tasks.

LocalExecutor forks a worker for each task, and the DAG processor a process for each file. They
need not import what their parents have imported. Tasks of the demo and of ``make fleet`` begin
without it, as users' tasks do.
"""

from pathlib import Path

SETTINGS = """
import airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator
import airflow_provider_segtable.dag_factory
import airflow_provider_segtable.services.compaction
import airflow_provider_segtable.services.planner
import airflow_provider_segtable.table.scan

__all__ = []
"""


def preload(home: Path) -> Path:
    """Write settings that import these modules into a home of Airflow; return the home."""
    settings = home / "config" / "airflow_local_settings.py"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    return home
