"""Keep tables compact: for each table a planner DAG, and one for each kind of compaction.

Connection ``segtable_default`` has the root of the tables. Set in the environment of Airflow::

    SEGTABLE_TABLES         names below the connection's root, or URIs; with commas (flights)
    SEGTABLE_SCHEDULE       when the planners run (*/5 * * * *)
    SEGTABLE_PLANS_PER_RUN  how many plans share one start of Spark (16)

Each table's policy decides which compactions are planned (``segtable table describe``): minor ones
by default, semi-major if ``compaction.clustering`` is set, major once a chunk is cold.
"""

import os

from airflow_provider_segtable.dag_factory import compaction_dags

for name in os.environ.get("SEGTABLE_TABLES", "flights").split(","):
    compaction_dags(
        table=name.strip(),
        schedule=os.environ.get("SEGTABLE_SCHEDULE", "*/5 * * * *"),
        plans_per_run=int(os.environ.get("SEGTABLE_PLANS_PER_RUN", "16")),
    )
