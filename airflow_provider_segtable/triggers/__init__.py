"""SPEAK AIRFLOW: what waits in the triggerer. Triggers carry ids, never objects."""
