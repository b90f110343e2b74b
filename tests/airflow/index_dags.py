"""DAGs that wait for an index, build it by pieces with pauses, and plan and build it by policy.

One of them builds on a cluster, and waits for it in the triggerer: a process of its own, which is
no child of the task.
"""

from pathlib import Path

INDEXED, LOOKUP, BUILD = "indexed/flights", "lookup", "build_index"
PLANNED = "planned/flights"
DEFERRED = "deferred/flights"
INDEX_PLANNER, INDEX_BUILDS = "segtable_planner__indexed", "segtable_index__indexed"
DEFERRED_BUILD = "deferred_build"
IDS = (LOOKUP, BUILD, INDEX_PLANNER, INDEX_BUILDS, DEFERRED_BUILD)
DRIVER = Path(__file__).with_name("detached_driver.py")
INDEX_DAGS = f"""
import subprocess
import sys
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_segtable.core import catch_up
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor

catch_up.next_piece.__defaults__ = (1,)  # a chunk is a piece
INDEX = {{"table": "{INDEXED}", "index": "files"}}

compaction_dags(table="{PLANNED}", name="indexed", schedule=None, engine="local")

with DAG("{LOOKUP}", schedule=None):
    SegtableIndexCatchupSensor(task_id="wait", deferrable=True, poke_interval=600, **INDEX)

with DAG("{BUILD}", schedule=None):
    SegtableIndexOperator(
        task_id="build", timeout=timedelta(0), resume_after=timedelta(seconds=8), retries=0, **INDEX
    )


class Cluster:
    attached = False

    def launch(self, submission, say):
        command = [sys.executable, "{DRIVER}", *submission.arguments]
        subprocess.Popen(command, start_new_session=True)
        say("accepted")

    def kill(self):
        pass


with DAG("{DEFERRED_BUILD}", schedule=None):
    SegtableIndexOperator(
        task_id="build",
        table="{DEFERRED}",
        index="files",
        engine="spark",
        launcher=Cluster(),
        deferrable=True,
        poll_interval=1,
        timeout=timedelta(0),
        retries=0,
    )
"""
