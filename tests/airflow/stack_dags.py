"""DAGs over the tables of the stack's tests: compactions, a wait, and changes that emit."""

PLANNER, MINOR, WAITER = "segtable_planner__flights", "segtable_minor__flights", "waiter"
SHOWN = "shown"
KEYED_PLANNER = "segtable_planner__orders"
KEYED = ("segtable_minor__orders", "segtable_semi_major__orders")
DAGS = """
from airflow.sdk import DAG

from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.sensors.published import SegtablePublishedSensor
from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor

for table, engine in (("flights", "spark"), ("orders", "local")):
    compaction_dags(table=table, schedule=None, engine=engine, spark={"retries": 0})

with DAG("waiter", schedule=None):
    SegtableSmallSegmentsSensor(
        task_id="wait",
        table="flights",
        interval="{{ dag_run.conf['interval'] }}",
        at_most=1,
        deferrable=True,
        poke_interval=600,
    )

with DAG("shown", schedule=None):
    SegtablePublishedSensor(task_id="wait", table="flights", deferrable=True, poke_interval=1)
"""
SALES, NIGHTLY, FORGET, REPORT = "more/flights", "nightly", "forget", "report_trips"
FOLLOW, FOLLOWED = "follow_trips", "followed"
WATCHED = f"""
from airflow.sdk import DAG

from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator

with DAG("{NIGHTLY}", schedule=None):
    SegtableCompactOperator(task_id="compact", table="{SALES}", policy={{}})

with DAG("{FORGET}", schedule=None):
    SegtableDeleteOperator(task_id="delete", table="{SALES}", where="row < 5")
"""
