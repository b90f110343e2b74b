"""Errors that leave a task as values, so that they keep their type and message."""

from airflow_provider_segtable.core.errors import SegtableError


def told(error: SegtableError) -> tuple[str, str]:
    """Return an error as plain values, to leave a task with."""
    return type(error).__name__, str(error)
