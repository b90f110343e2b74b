"""SPEAK AIRFLOW: connections, and launchers of Spark applications."""
