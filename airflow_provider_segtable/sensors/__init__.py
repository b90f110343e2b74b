"""SPEAK AIRFLOW: wait for a table. One sensor a file; all modes share one verdict."""
