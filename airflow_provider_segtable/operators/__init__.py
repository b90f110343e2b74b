"""SPEAK AIRFLOW: plan a table, carry out its plans. One operator per file."""
