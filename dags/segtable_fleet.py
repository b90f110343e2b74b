"""Serve many tables by one file: a planner, a DAG for each kind of plan, and one for upkeep.

Connection ``segtable_default`` has the root of the tables. Set in the environment of Airflow::

    SEGTABLE_FLEET           the fleet file, a path or a URI (segtable_fleet.toml beside this file)
    SEGTABLE_FLEET_SCHEDULE  when the planner runs (*/5 * * * *)

A new table below the root needs no entry, and no other DAG. ``segtable fleet check FILE`` names
each fault of the file with its line.
"""

import os
from pathlib import Path

from airflow_provider_segtable.dag_factory import fleet_dags

BESIDE = Path(__file__).with_suffix(".toml")

fleet_dags(
    os.environ.get("SEGTABLE_FLEET", str(BESIDE)),
    name="lake",
    schedule=os.environ.get("SEGTABLE_FLEET_SCHEDULE", "*/5 * * * *"),
)
