"""SPEAK AIRFLOW: wait for a table. One sensor per file; all modes share one verdict."""
