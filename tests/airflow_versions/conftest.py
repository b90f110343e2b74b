"""A lake, and Airflow's database: the same as for the tests on the pinned version."""

from tests.airflow.conftest import airflow_db, heard_at_once

__all__ = ["airflow_db", "heard_at_once"]
