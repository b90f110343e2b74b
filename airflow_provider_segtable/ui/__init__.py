"""SPEAK AIRFLOW: the plugin."""
