"""SPEAK AIRFLOW: tables as assets, on which DAGs are scheduled."""
