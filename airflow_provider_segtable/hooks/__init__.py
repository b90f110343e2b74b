"""SPEAK AIRFLOW: connections, and what starts Spark applications."""
