"""DAGs that wait for an index, build it by pieces with pauses, and plan and build it by policy."""

INDEXED, LOOKUP, BUILD = "indexed/flights", "lookup", "build_index"
PLANNED = "planned/flights"
INDEX_PLANNER, INDEX_BUILDS = "segtable_planner__indexed", "segtable_index__indexed"
IDS = (LOOKUP, BUILD, INDEX_PLANNER, INDEX_BUILDS)
INDEX_DAGS = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_segtable.core.indexes import next_build
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor

next_build.next_piece.__defaults__ = (1,)  # a chunk is a piece
INDEX = {{"table": "{INDEXED}", "index": "files"}}

compaction_dags(table="{PLANNED}", name="indexed", schedule=None, engine="local")

with DAG("{LOOKUP}", schedule=None):
    SegtableIndexCatchupSensor(task_id="wait", deferrable=True, poke_interval=600, **INDEX)

with DAG("{BUILD}", schedule=None):
    SegtableIndexOperator(
        task_id="build", timeout=timedelta(0), resume_after=timedelta(seconds=8), retries=0, **INDEX
    )
"""
