"""SPEAK AIRFLOW: wait in the triggerer. Triggers carry ids, never objects."""
