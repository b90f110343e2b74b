"""Return errors from a task as values, so that they keep their type and message."""

from airflow_provider_segtable.core.errors import SegtableError


def reported(error: SegtableError) -> tuple[str, str]:
    """Return an error's type name and message."""
    return type(error).__name__, str(error)
